"""Rates, ratios, τ and agreement from turns; the report and the chart made of them."""

from __future__ import annotations

import json

import pytest

from eagle3.bench.peers.chart import write_chart
from eagle3.bench.peers.peer import Line
from eagle3.bench.peers.report import report_json, report_markdown
from eagle3.bench.peers.result import Spread, summarise
from eagle3.bench.peers.turn import Turn
from eagle3.errors import ConfigError
from peers_doubles import answered, peer, result_of, turn

PEERS = [peer("plain"), peer("speculative", same_as="plain"), peer("llama.cpp-q4_1")]


def summaries(*turns, peers=PEERS, **values):
    return {row.system: row for row in summarise(result_of(*turns, **values), peers)}


def test_a_rate_is_all_tokens_over_all_seconds():
    """Two answers of 5 and 2 tokens: four and one after the first, in 1 s and 3 s; seven in 6 s altogether."""
    answers = answered(range(5), first_s=1.0, total_s=2.0), answered(range(2), first_s=1.0, total_s=4.0)
    row = summaries(turn("plain", *answers))["plain"]
    assert row.decode_tokens_per_s.median == pytest.approx(5 / 4)
    assert row.request_tokens_per_s.median == pytest.approx(7 / 6)
    assert row.first_token_ms.median == pytest.approx(1000)
    assert (row.prompts, row.output_tokens, row.rounds) == (2, 7, 1)


def test_an_answer_of_one_token_has_no_decode_time():
    """It counts for requests, and for decoding neither as tokens nor as seconds."""
    row = summaries(turn("plain", answered([1], first_s=1.0, total_s=1.25)))["plain"]
    assert row.decode_tokens_per_s is None
    assert row.request_tokens_per_s.median == pytest.approx(0.8)


def test_ratios_are_made_within_rounds():
    """The machine slows down by ten in round 2: rates spread, ratios do not."""
    turns = []
    for number, slow in ((1, 1.0), (2, 10.0)):
        turns.append(turn("plain", answered(range(11), first_s=0.0, total_s=2 * slow), number=number))
        turns.append(turn("speculative", answered(range(11), first_s=0.0, total_s=slow, cycles=4), number=number))
    row = summaries(*turns)["speculative"]
    assert row.decode_tokens_per_s == Spread(5.5, 1.0, 10.0)
    assert row.decode_ratios == {"plain": Spread(2.0, 2.0, 2.0)}
    assert row.tau == pytest.approx(2.5)


def test_a_round_without_the_base_gives_no_ratio():
    """Only rounds that both took part in are compared."""
    row = summaries(
        turn("plain", answered(range(11), first_s=0.0, total_s=1.0), number=1),
        turn("speculative", answered(range(11), first_s=0.0, total_s=0.5), number=1),
        turn("speculative", answered(range(11), first_s=0.0, total_s=0.1), number=2),
    )["speculative"]
    assert row.decode_ratios["plain"] == Spread(2.0, 2.0, 2.0)
    assert row.decode_tokens_per_s.high == pytest.approx(100)


def test_agreement_counts_whole_texts_and_tokens_before_the_first_difference():
    """One of two texts is the same; of the eight reference tokens, six come before a difference."""
    rows = summaries(
        turn("plain", answered([1, 2, 3, 4]), answered([5, 6, 7, 8])),
        turn("llama.cpp-q4_1", answered([1, 2, 3, 4]), answered([5, 6, 9, 8, 8])),
    )
    assert (rows["llama.cpp-q4_1"].identical, rows["llama.cpp-q4_1"].agreement) == (1, pytest.approx(6 / 8))
    assert rows["llama.cpp-q4_1"].unequal_to is None
    assert (rows["plain"].identical, rows["plain"].agreement) == (2, 1.0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_ours_must_repeat_plain_decoding(temperature):
    """Any round with another text counts at temperature 0; sampled texts are not compared."""
    turns = (
        turn("plain", answered([1, 2])),
        turn("speculative", answered([1, 2]), number=1),
        turn("speculative", answered([1, 3]), number=2),
    )
    greedy = temperature == 0
    row = summaries(*turns, temperature=temperature)["speculative"]
    assert row.unequal_to == ("plain" if greedy else None)
    assert row.identical == (1 if greedy else None)
    assert summaries(*turns[:2], temperature=temperature)["speculative"].unequal_to is None


def test_a_failed_system_has_its_reason_and_no_numbers():
    """It is in the list all the same."""
    row = summaries(Turn(system="plain", round=1, failure="no memory"), skipped={"plain": "failed in round 1"})["plain"]
    assert (row.rounds, row.failure, row.decode_tokens_per_s, row.tau) == (0, "no memory", None, None)


def line(**left_out):
    return Line(peers=tuple(PEERS), left_out=left_out)


RESULT = result_of(
    turn("plain", answered([1, 2, 3, 4])),
    turn("speculative", answered([1, 2, 3, 5], total_s=1.0)),
    Turn(system="llama.cpp-q4_1", round=1, failure="took longer than 9 s"),
    skipped={"llama.cpp-q4_1": "failed in round 1", "plain": "the time ran out before its round 2"},
)


def test_the_json_says_everything_but_the_texts():
    """Failures and unequal texts are counted; versions, reasons and every answer's counts are there."""
    report = json.loads(json.dumps(report_json([RESULT], line(vllm="not installed"), {"rounds": 2})))
    assert (report["failures"], report["unequal"]) == (1, 1)
    assert report["left_out"] == {"vllm": "not installed"}
    assert report["versions"]["plain"] == {"package": "1.0"}
    (section,) = report["sections"]
    assert [row["system"] for row in section["systems"]] == ["plain", "speculative", "llama.cpp-q4_1"]
    assert section["turns"][0]["answers"] == [
        {"tokens": 4, "first_tokens": 1, "first_s": 0.5, "total_s": 1.5, "cycles": 3}
    ]
    assert report["plan"] == {"rounds": 2}
    assert report["machine"]["cores"] >= 1


def test_the_table_says_numbers_failures_and_who_is_missing():
    """A row for each system that was measured; below it what failed, differed, was left out or cut short."""
    text = report_markdown([RESULT], line(vllm="not installed"), rounds=2)
    assert "| plain | 3.0 | 2.7 | 1.00 | 1.00 | 1 of 1 (100% of tokens) |" in text
    assert "| speculative | 6.0 | 4.0 | 1.00 | 2.00 | 0 of 1 (75% of tokens) |" in text
    assert "- llama.cpp-q4_1 failed: took longer than 9 s" in text
    assert "- speculative gave another text than plain" in text
    assert "- plain: the time ran out before its round 2" in text
    assert "- vllm: not installed" in text
    assert "- plain: as usual (package 1.0)" in text
    assert "| llama.cpp-q4_1 |" not in text


def test_a_sound_run_says_nothing_of_faults():
    """The accepting half of the test above."""
    text = report_markdown([result_of(turn("plain", answered([1, 2])))], line(), rounds=1)
    assert "failed" not in text
    assert "Left out" not in text
    assert "another text" not in text


@pytest.mark.parametrize("sections", [0, 1, 3])
def test_the_chart_is_a_png(tmp_path, sections):
    """Any number of sections, and systems without numbers, make a picture."""
    rows = summarise(RESULT, PEERS)
    write_chart({f"section {number}": rows for number in range(sections)}, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_the_chart_refuses_a_place_that_cannot_be_written(tmp_path):
    """The path is named."""
    with pytest.raises(ConfigError, match="cannot write the chart"):
        write_chart({"a": summarise(RESULT, PEERS)}, tmp_path / "missing" / "chart.png")
