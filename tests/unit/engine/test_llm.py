"""The Python API over tiny models: where answers end, what is counted, what is refused."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from builders import (
    MARKOV_STEP,
    MARKOV_VOCAB,
    ByteTokenizer,
    markov_draft_checkpoint,
    markov_target,
    tiny_draft,
    tiny_target,
)
from eagle3.config.speculation import Speculation
from eagle3.engine.llm import LLM
from eagle3.errors import InvalidInputError, NumericalError
from eagle3.models.draft_loader import build_draft
from eagle3.sampling.params import sampling_params

DEPTH = 4
PROMPT_IDS = [40, 41, 42]
# What the Markov target answers: 49, 56, 63, 6, 13, ...
ANSWER = tuple((PROMPT_IDS[-1] + MARKOV_STEP * step) % MARKOV_VOCAB for step in range(1, 200))


@functools.cache
def markov():
    target = markov_target()
    return target, build_draft(markov_draft_checkpoint(), target, source="test")


def markov_llm(ending_ids=(), depth=DEPTH, drafters=("eagle3", "suffix")):
    target, draft = markov()
    shape = Speculation(depth=depth, top_k=1, nodes=depth, drafters=drafters)
    return LLM(target, ByteTokenizer(ending_ids), draft, shape)


@functools.cache
def random_llm(seed=0, vocab=64, ending_ids=()):
    target = tiny_target(seed=seed, vocab=vocab)
    return LLM(target, ByteTokenizer(ending_ids), tiny_draft(target), Speculation(depth=4, top_k=3, nodes=8))


def answer(llm, prompt_ids=PROMPT_IDS, *, index=0, speculate=True, **values):
    *pieces, last = llm.stream(prompt_ids, sampling_params(**values), index=index, speculate=speculate)
    assert all(piece.answer is None for piece in pieces)
    assert last.answer is not None
    assert "".join(piece.text for piece in (*pieces, last)) == last.answer.text
    return last.answer


@pytest.mark.parametrize("depth", [1, 2, 4, 7])
def test_accepts_all(depth):
    """A draft that is always right reaches tau = depth + 1, through the real draft, tree and verification."""
    cycles = 3
    got = answer(markov_llm(depth=depth, drafters=("eagle3",)), max_new_tokens=1 + cycles * (depth + 1))
    assert got.token_ids == ANSWER[: 1 + cycles * (depth + 1)]
    assert got.stats.tau == depth + 1
    assert (got.stats.cycles, got.stats.drafted) == (cycles, cycles * depth)
    assert got.stats.accepted_at_depth == [cycles] * depth
    assert got.stats.acceptance_by_depth == [1.0] * depth


def test_accepts_none():
    """A draft that can only propose a token that never comes has tau 1 and the text of plain decoding."""
    target = tiny_target(seed=2)
    shape = Speculation(depth=4, top_k=2, nodes=8, drafters=("eagle3",))
    llm = LLM(target, ByteTokenizer(), tiny_draft(target, target_ids=[50]), shape)
    values = {"max_new_tokens": 12, "logit_bias": {50: -100.0}}
    got = answer(llm, **values)
    assert got.stats.tau == 1.0
    assert got.stats.accepted_at_depth == []
    # The last cycle may emit one token and the three before it no more than it plus 1, 2, 3: shorter chains.
    assert got.stats.drafted == 4 * 7 + 3 + 2 + 1 + 0
    assert got.token_ids == answer(llm, speculate=False, **values).token_ids


def test_repetitions_alone_speculate_without_a_draft():
    """A text that goes round every four tokens is guessed from itself, deeper than the levels of any draft.

    A request may still ask for plain decoding, and beside a draft that is missing nothing is guessed at all.
    """
    target = markov_target(step=16)
    shape = Speculation(drafters=("suffix",), nodes=16, suffix_tokens=12, depth=2)
    llm = LLM(target, ByteTokenizer(), None, shape)
    got, plain = (answer(llm, [3], max_new_tokens=60, speculate=speculate) for speculate in (True, False))
    assert got.token_ids == plain.token_ids == tuple((3 + 16 * place) % 64 for place in range(1, 61))
    assert got.stats.tau > 4
    assert len(got.stats.accepted_at_depth) == 12
    assert plain.stats.drafted == 0
    without = LLM(target, ByteTokenizer(), None, Speculation(drafters=("eagle3", "suffix")))
    assert answer(without, [3], max_new_tokens=60).stats.drafted == 0


def test_drafters_that_do_without_the_draft_leave_it_alone():
    """With suffix alone the draft is not asked although there is one: a text without repetitions is decoded plainly."""
    got = answer(markov_llm(drafters=("suffix",)), [1], max_new_tokens=30)
    assert (got.stats.tau, got.stats.drafted) == (1.0, 0)


@pytest.mark.parametrize("max_new_tokens", range(1, 13))
@pytest.mark.parametrize("speculate", [True, False])
def test_max_new_tokens_is_never_overshot(max_new_tokens, speculate):
    """Exactly as many tokens come as may, wherever in a block the limit falls."""
    got = answer(markov_llm(), max_new_tokens=max_new_tokens, speculate=speculate)
    assert got.token_ids == ANSWER[:max_new_tokens]
    assert got.finish_reason == "length"
    assert got.stats.output_tokens == max_new_tokens
    assert got.stats.cycle_tokens == max_new_tokens - 1


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize("how", ["end of text", "stop token"])
def test_ends_at_an_ending_token_inside_a_block(place, how):
    """R14, R22: the answer ends at the end-of-text or stop token wherever it is in its block; counts stop there."""
    ending_id = ANSWER[place]
    llm = markov_llm(ending_ids=[ending_id] if how == "end of text" else [])
    values = {"max_new_tokens": 40, "stop_token_ids": () if how == "end of text" else (ending_id,)}
    got = answer(llm, **values)
    assert got.token_ids == ANSWER[: place + 1]
    assert got.text == ByteTokenizer().decode(ANSWER[:place])
    assert got.finish_reason == "stop"
    assert got.stats.output_tokens == place + 1
    assert got.stats.cycle_tokens == place
    # The first token is the prefill's; then blocks of DEPTH + 1, of which the last is cut.
    full, rest = divmod(place, DEPTH + 1)
    assert got.stats.cycles == full + (rest > 0)
    assert got.stats.accepted_at_depth == [count for depth in range(DEPTH) if (count := full + (rest > depth)) > 0]
    plain = answer(llm, speculate=False, **values)
    assert (plain.token_ids, plain.text, plain.finish_reason) == (got.token_ids, got.text, got.finish_reason)


def test_ignore_eos_goes_on():
    """With ignore_eos the end-of-text token is a token like any other; stop tokens still end."""
    llm = markov_llm(ending_ids=[ANSWER[2]])
    assert answer(llm, max_new_tokens=9, ignore_eos=True).token_ids == ANSWER[:9]
    assert answer(llm, max_new_tokens=9, ignore_eos=True, stop_token_ids=(ANSWER[5],)).token_ids == ANSWER[:6]


@pytest.mark.parametrize("place", range(9))
@pytest.mark.parametrize("size", [1, 2, 3])
def test_stop_string_inside_and_across_blocks(place, size):
    """A stop string of one to three tokens ends the text before itself, wherever it lies against the blocks."""
    stop = ByteTokenizer().decode(ANSWER[place : place + size])
    got = answer(markov_llm(), max_new_tokens=40, stop=(stop,))
    assert got.token_ids == ANSWER[: place + size]
    assert got.text == ByteTokenizer().decode(ANSWER[:place])
    assert got.finish_reason == "stop"
    assert got.stats.output_tokens == place + size


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("speculate", [True, False])
def test_min_new_tokens(temperature, speculate):
    """Where half of all tokens end the text, none of the first min_new_tokens does, and then one does soon."""
    endings = frozenset(range(0, 64, 2))
    llm = random_llm(seed=0, ending_ids=endings)
    values = {"temperature": temperature, "seed": 3, "max_new_tokens": 40, "speculate": speculate}
    assert len(answer(llm, **values).token_ids) < 8
    got = answer(llm, min_new_tokens=8, **values)
    assert not endings & set(got.token_ids[:8])
    assert 9 <= len(got.token_ids) < 40
    assert got.token_ids[-1] in endings
    assert got.finish_reason == "stop"


def test_logprobs():
    """Log-probabilities are the target's own: best first, of probability at most 1, the greedy token the first."""
    got = answer(random_llm(), max_new_tokens=12, logprobs=5)
    assert [entry.token_id for entry in got.logprobs] == list(got.token_ids)
    for entry in got.logprobs:
        values = [value for _, value in entry.top]
        assert len(values) == 5
        assert values == sorted(values, reverse=True)
        assert torch.tensor(values).exp().sum() <= 1 + 1e-6
        assert entry.top[0] == (entry.token_id, entry.logprob)


def test_logprobs_of_every_token_sum_to_one():
    """With as many alternatives as there are tokens, the probabilities sum to 1; asking for more gives no more."""
    target = tiny_target(vocab=12)
    got = answer(LLM(target, ByteTokenizer()), [1, 2], max_new_tokens=4, logprobs=20)
    for entry in got.logprobs:
        assert len({token_id for token_id, _ in entry.top}) == 12
        assert sum(torch.tensor(value).exp() for _, value in entry.top) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_logprobs_are_the_same_with_and_without_speculation(temperature):
    """Temperature, penalties and speculation leave the reported log-probabilities alone."""
    values = {
        "max_new_tokens": 14, "logprobs": 3, "seed": 1, "temperature": temperature, "presence_penalty": 1.0,
        "repetition_penalty": 1.2,
    }  # fmt: skip
    left = answer(random_llm(seed=1), **values)
    right = answer(random_llm(seed=1), speculate=False, **values)
    assert left.token_ids == right.token_ids
    for a, b in zip(left.logprobs, right.logprobs, strict=True):
        assert a.token_id == b.token_id
        assert a.logprob == pytest.approx(b.logprob, abs=1e-4)
        assert [token for token, _ in a.top] == [token for token, _ in b.top]
        assert [value for _, value in a.top] == pytest.approx([value for _, value in b.top], abs=1e-4)


def test_logprobs_stop_where_the_answer_stops():
    """No entry is given for tokens cut off after an ending, and none at all unless asked for."""
    llm = markov_llm(ending_ids=[ANSWER[3]])
    assert len(answer(llm, logprobs=0).logprobs) == 4
    assert all(entry.top == () for entry in answer(llm, logprobs=0).logprobs)
    assert answer(llm).logprobs is None


def test_two_answers():
    """R17: with n = 2 the answers differ above temperature 0, seeded or not, and are equal at 0."""
    llm = random_llm()
    prompt = "0123"
    first, second = llm.generate([prompt], sampling_params(n=2, temperature=1.0, seed=5, max_new_tokens=16))[0]
    assert first.token_ids != second.token_ids
    again = llm.generate([prompt], sampling_params(n=2, temperature=1.0, seed=5, max_new_tokens=16))[0]
    assert [a.token_ids for a in again] == [first.token_ids, second.token_ids]
    unseeded = llm.generate([prompt], sampling_params(n=2, temperature=1.0, max_new_tokens=16))[0]
    assert unseeded[0].token_ids != unseeded[1].token_ids
    first, second = llm.generate([prompt], sampling_params(n=2, max_new_tokens=16))[0]
    assert first.token_ids == second.token_ids


def test_seed_fixes_the_answer():
    """R17: one seed gives one answer: alone, after other requests, beside others, and in a fresh process state."""
    values = {"temperature": 1.0, "max_new_tokens": 16}
    llm = random_llm(seed=4)
    alone = answer(llm, seed=11, **values).token_ids
    answer(llm, [9, 9, 9], **values)
    assert answer(llm, seed=12, **values).token_ids != alone
    torch.manual_seed(99)
    assert answer(llm, seed=11, **values).token_ids == alone
    # Two streams in step.
    streams = [llm.stream(PROMPT_IDS, sampling_params(seed=seed, **values)) for seed in (11, 12)]
    last: list[Any] = [None, None]
    while streams[0] is not None or streams[1] is not None:
        for which, stream in enumerate(streams):
            piece = next(stream, None) if stream is not None else None
            if piece is None:
                streams[which] = None
            else:
                last[which] = piece
    assert last[0].answer.token_ids == alone
    target = tiny_target(seed=4)
    fresh = LLM(target, ByteTokenizer(), tiny_draft(target), Speculation(depth=2, top_k=2, nodes=3))
    assert answer(fresh, seed=11, **values).token_ids == alone


def test_the_largest_seed_and_index():
    """Seeds near 2^63 do not overflow when n answers count up from them."""
    llm = random_llm()
    values = {"seed": 2**63 - 1, "temperature": 1.0, "max_new_tokens": 6}
    assert answer(llm, index=1, **values).token_ids != answer(llm, **values).token_ids


@pytest.mark.parametrize("seed", range(3))
def test_streamed_pieces_are_whole(seed):
    """Over a vocabulary of all bytes, no piece but the last ends in half a character, and they add up to the text."""
    llm = random_llm(seed=seed, vocab=260)
    pieces = list(llm.stream([65, 66], sampling_params(temperature=1.5, seed=seed, max_new_tokens=40)))
    final = pieces[-1].answer
    assert "".join(piece.text for piece in pieces) == final.text == ByteTokenizer().decode(final.token_ids)
    assert not any(piece.text.endswith("\ufffd") for piece in pieces[:-1])
    assert all(piece.text for piece in pieces[:-1]), "empty pieces are not sent"


def test_empty_prompt_is_refused():
    """An empty prompt cannot be continued."""
    with pytest.raises(InvalidInputError, match="prompt is empty"):
        random_llm().generate([""])


def test_prompt_as_long_as_the_context_is_refused():
    """A prompt must leave room for one token; the message gives length and limit."""
    with pytest.raises(InvalidInputError, match=r"128 tokens.*at most 127"):
        answer(markov_llm(), [1] * 128)


@pytest.mark.parametrize("room", [1, 2, 5, 6, 7])
@pytest.mark.parametrize("speculate", [True, False])
def test_answer_ends_with_the_context(room, speculate):
    """Prompt and answer together never exceed the context, and the answer fills it to the last token."""
    prompt = [40] * (128 - room)
    got = answer(markov_llm(), prompt, speculate=speculate, max_new_tokens=100)
    assert got.token_ids == tuple((40 + MARKOV_STEP * step) % MARKOV_VOCAB for step in range(1, room + 1))
    assert got.finish_reason == "length"


@pytest.mark.parametrize("bad", [-1, 64, 10**9])
def test_token_id_out_of_the_vocabulary_is_refused(bad):
    """A prompt token that does not exist is an error with the allowed range, not an index error."""
    with pytest.raises(InvalidInputError, match="0 to 63"):
        answer(random_llm(), [1, bad, 2])


def test_parameters_are_checked_against_the_vocabulary():
    """A bias on a token that does not exist is refused when the request is."""
    with pytest.raises(InvalidInputError, match="token id 64"):
        answer(random_llm(), logit_bias={64: 1.0})


@pytest.mark.parametrize("speculate", [True, False])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_target_is_a_numerical_error(speculate, bad):
    """A target whose weights turned to NaN or infinity gives no answer."""
    target = tiny_target(seed=8)
    draft = tiny_draft(target)
    target.norm.weight[3] = bad
    with pytest.raises(NumericalError):
        answer(LLM(target, ByteTokenizer(), draft), speculate=speculate)


def test_prompts_are_answered_in_order():
    """Each prompt has its own answers, as if it had been asked alone."""
    llm = random_llm(seed=6)
    prompts = ["0", "1234567", "9876"]
    params = sampling_params(max_new_tokens=8)
    together = llm.generate(prompts, params)
    assert [len(answers) for answers in together] == [1, 1, 1]
    assert [answers[0].token_ids for answers in together] == [
        llm.generate([prompt], params)[0][0].token_ids for prompt in prompts
    ]
    assert len({answers[0].token_ids for answers in together}) == 3


def test_chat_answers_the_templated_conversation():
    """`chat` continues what the tokenizer makes of the messages, n times."""

    class ChatTokenizer(ByteTokenizer):
        def encode_chat(self, messages):
            return self.encode("".join(f"{message['content']}?" for message in messages))

    target = tiny_target()
    llm = LLM(target, ChatTokenizer(), tiny_draft(target))
    params = sampling_params(max_new_tokens=6, n=2)
    answers = llm.chat([{"role": "user", "content": "12"}, {"role": "user", "content": "3"}], params)
    assert len(answers) == 2
    assert answers[0].token_ids == llm.generate(["12?3?"], params)[0][0].token_ids


def test_defaults():
    """Without parameters an answer is greedy and ends at 128 tokens or the context."""
    got = markov_llm().generate(["*"])[0][0]
    assert got.token_ids == ANSWER[: MARKOV_VOCAB * 2 - 1]
    assert got.finish_reason == "length"


def test_stats_add_up():
    """Counters fit together: tokens, cycles, drafted nodes, and seconds within the total."""
    got = answer(random_llm(seed=1), max_new_tokens=20)
    stats = got.stats
    assert stats.output_tokens == len(got.token_ids) == 1 + stats.cycle_tokens
    assert stats.cycle_tokens == stats.cycles + sum(stats.accepted_at_depth)
    assert stats.accepted_at_depth == sorted(stats.accepted_at_depth, reverse=True)
    assert 0 < stats.prefill_s < stats.total_s
    assert stats.draft_s + stats.verify_s <= stats.total_s
    assert stats.tokens_per_s == stats.output_tokens / stats.total_s
