"""The comparison of speculative and plain decoding: what is counted, divided and printed."""

from __future__ import annotations

import json

import pytest

from builders import MARKOV_STEP, MARKOV_VOCAB, ChatTokenizer, markov_draft_checkpoint, markov_target
from eagle3.bench.tau import Comparison, as_json, compare, comparison_json, comparison_table
from eagle3.config.speculation import Speculation
from eagle3.engine.answer import Answer
from eagle3.engine.llm import LLM
from eagle3.engine.stats import DecodeStats
from eagle3.models.draft_loader import build_draft
from eagle3.sampling.params import sampling_params


def stats(**values):
    return DecodeStats(**values)


def answer(token_ids, **values):
    return Answer(text="", token_ids=tuple(token_ids), finish_reason="length", logprobs=None, stats=stats(**values))


FAST = {"cycles": 4, "cycle_tokens": 12, "output_tokens": 13, "total_s": 1.0, "accepted_at_depth": [4, 3, 1],
        "drafted": 16, "draft_s": 0.2, "verify_s": 0.7, "prefill_s": 0.1}  # fmt: skip
SLOW = {"cycles": 12, "cycle_tokens": 12, "output_tokens": 13, "total_s": 2.0, "verify_s": 1.9, "prefill_s": 0.1}


def test_counters_add_up_over_prompts():
    """Two prompts: counters are summed, and ratios are of the sums."""
    result = Comparison()
    result.add(answer([1, 2], **FAST), answer([1, 2], **SLOW))
    result.add(answer([3], cycles=2, cycle_tokens=2, output_tokens=3, total_s=1.0), answer([3], **SLOW))
    assert (result.prompts, result.identical) == (2, 2)
    assert (result.speculative.cycles, result.speculative.cycle_tokens) == (6, 14)
    assert result.speculative.tau == pytest.approx(14 / 6)
    assert result.speculative.acceptance_by_depth == pytest.approx([4 / 6, 3 / 6, 1 / 6])
    assert result.plain.output_tokens == 26


def test_identical_counts_equal_token_ids_only():
    """One prompt with other tokens is one fewer identical."""
    result = Comparison()
    result.add(answer([1, 2], **FAST), answer([1, 2], **SLOW))
    result.add(answer([1, 2], **FAST), answer([1, 3], **SLOW))
    result.add(answer([1, 2], **FAST), answer([1, 2, 3], **SLOW))
    assert (result.prompts, result.identical) == (3, 1)


def test_speedup_is_tokens_per_second_over_tokens_per_second():
    """13 tokens in one second against 13 in two is twice as fast; other text lengths do not distort it."""
    result = Comparison()
    result.add(answer([1], **FAST), answer([1], **SLOW))
    assert result.speedup == pytest.approx(2.0)
    longer = Comparison()
    longer.add(answer([1], **FAST), answer([1], **(SLOW | {"output_tokens": 26, "total_s": 4.0})))
    assert longer.speedup == pytest.approx(2.0)


def test_without_plain_decoding_there_is_no_speedup():
    """Nothing to compare with: no speedup, no plain block, no division by zero."""
    result = Comparison()
    result.add(answer([1], **FAST), None)
    assert result.speedup is None
    assert result.identical == 0
    report = comparison_json(result)
    assert {"plain", "speedup", "identical_prompts"}.isdisjoint(report)
    assert "speed ratio" not in comparison_table(result)


def test_no_prompts_at_all_print():
    """An empty comparison has zeros everywhere and can still be printed."""
    report = comparison_json(Comparison())
    assert (report["prompts"], report["tau"], report["tokens_per_s"]) == (0, 0.0, 0.0)
    assert "tau" in comparison_table(Comparison())


def test_the_json_report_has_counts_milliseconds_and_ratios():
    """Keys and units: seconds become milliseconds, shares stay shares; it survives a round trip through JSON."""
    result = Comparison()
    result.add(answer([1], **FAST), answer([1], **SLOW))
    report = json.loads(json.dumps(comparison_json(result)))
    assert report == {
        "prompts": 1, "output_tokens": 13, "num_cycles": 4, "drafted_nodes": 16, "tau": 3.0,
        "acceptance_by_depth": [1.0, 0.75, 0.25], "prefill_ms": 100.0, "draft_ms": 200.0, "verify_ms": 700.0,
        "tokens_per_s": 13.0, "plain": as_json(result.plain), "speedup": 2.0, "identical_prompts": 1,
    }  # fmt: skip
    assert report["plain"]["tau"] == 1.0


def test_the_table_shows_both_sides():
    """Per-cycle times, tau and tokens per second of both, acceptance by depth, and the ratio."""
    result = Comparison()
    result.add(answer([1], **FAST), answer([1], **SLOW))
    lines = [line.split() for line in comparison_table(result).splitlines()]
    assert ["draft", "ms", "per", "cycle", "50.0", "0.0"] in lines
    assert ["verify", "ms", "per", "cycle", "175.0", "158.3"] in lines
    assert ["tau", "(tokens", "per", "cycle)", "3.00", "1.00"] in lines
    assert ["tokens", "per", "second", "13.0", "6.5"] in lines
    assert ["acceptance", "by", "depth", "1:", "100%", "2:", "75%", "3:", "25%"] in lines
    assert ["speed", "ratio", "2.00x", "(same", "process,", "same", "run)"] in lines


@pytest.mark.parametrize("with_plain", [False, True])
def test_compare_answers_every_conversation_both_ways(with_plain):
    """Accepts all: a draft that is always right has tau depth + 1, and every text is the plain one."""
    target = markov_target()
    draft = build_draft(markov_draft_checkpoint(), target, source="test")

    class Endless(ChatTokenizer):
        ending_ids = frozenset()

    llm = LLM(target, Endless(), draft, Speculation(depth=3, top_k=1, nodes=3, drafters=("eagle3",)))
    seen = []
    result = compare(
        llm,
        [[{"role": "user", "content": text}] for text in ("a", "bc", "d")],
        sampling_params(max_new_tokens=9),
        with_plain=with_plain,
        on_prompt=lambda so_far: seen.append((so_far.prompts, so_far.speculative.output_tokens)),
    )
    assert seen == [(1, 9), (2, 18), (3, 27)]
    assert result.speculative.tau == 4.0
    assert result.plain.cycles == (24 if with_plain else 0)
    assert result.identical == (3 if with_plain else 0)
    assert MARKOV_STEP < MARKOV_VOCAB
