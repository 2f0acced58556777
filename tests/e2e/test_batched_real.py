"""The embedded model in a batch: every answer is the one it gives alone, with and without speculation."""

from __future__ import annotations

import pytest

from eagle3 import LLM, sampling_params
from eagle3.config.engine import EngineSettings
from eagle3.config.speculation import Speculation
from eagle3.engine.interface import GenerationRequest
from eagle3.engine.loading import Models, build_engine
from eagle3.engine.policy import FixedPolicy

pytestmark = pytest.mark.slow

PERSON = (
    '{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}}, '
    '"required": ["name", "age"], "additionalProperties": false}'
)
QUESTIONS = (
    ("Describe a person as JSON.", {"json_schema": PERSON}),
    ("Why is the sky blue?", {}),
    ("Write a haiku about rain.", {"temperature": 0.8, "seed": 3}),
    ("Name three planets.", {"repetition_penalty": 1.3}),
    ("Continue: 1, 2, 3,", {"temperature": 1.2, "top_p": 0.9, "seed": 11}),
    ("What is 12 times 7? Explain each step.", {"presence_penalty": 0.5, "frequency_penalty": 0.5}),
    ("Tell me about Rome.", {"temperature": 0.7, "top_k": 40, "min_p": 0.02, "seed": 5, "logprobs": 2}),
)


def test_a_batch_gives_what_each_request_gives_alone():
    """R17, R18 under batching on the real model: token ids are the same alone, together, and without the draft."""
    llm = LLM.embedded(Speculation(depth=5, top_k=6, nodes=16))  # large trees: the cache gets tight
    prompts = [llm.tokenizer.encode_chat([{"role": "user", "content": text}]) for text, _ in QUESTIONS]
    params = [sampling_params(max_new_tokens=24, **values) for _, values in QUESTIONS]

    def alone(number: int, *, speculate: bool):
        *_, last = llm.stream(prompts[number], params[number], speculate=speculate)
        return last.answer

    engine = build_engine(
        Models(target=llm.target, tokenizer=llm.tokenizer, draft=llm.draft),
        settings=EngineSettings(cache_tokens=208, block_tokens=16, step_tokens=24),
        shape=llm.speculation,
        max_running=4,  # fewer than there are: some start while others are under way
        policy=lambda _: FixedPolicy(llm.speculation),
    )
    for number, (prompt, asked) in enumerate(zip(prompts, params, strict=True)):
        engine.add(GenerationRequest(request_id=str(number), prompt_ids=tuple(prompt), params=asked))
    batched = {}
    while engine.has_work:
        for event in engine.step():
            if event.answer is not None:
                batched[int(event.request_id)] = event.answer
    engine.check_integrity()
    for number in range(len(QUESTIONS)):
        plain, speculative = alone(number, speculate=False), alone(number, speculate=True)
        assert speculative.token_ids == plain.token_ids, QUESTIONS[number]
        assert batched[number].token_ids == plain.token_ids, QUESTIONS[number]
        assert batched[number].text == plain.text
    assert engine.snapshot().preemptions > 0, "the cache was small enough to make sequences give way"
