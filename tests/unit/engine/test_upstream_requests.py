"""Every sampling parameter reaches vLLM and SGLang under their names, or is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from eagle3.engine.sglang import SglangDialect
from eagle3.engine.vllm import VllmDialect
from eagle3.errors import EngineUnavailableError, InvalidInputError
from eagle3.sampling.seeds import derived_seed
from unit.engine.upstream_doubles import ANSWERS, MODELS, request_of

PLAIN = replace(MODELS, draft=None)
SCHEMA = json.dumps({"type": "object"})
EVERYTHING = {
    "temperature": 0.7,
    "top_k": 5,
    "top_p": 0.9,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.3,
    "min_p": 0.05,
    "logit_bias": {7: -3.0},
    "seed": 11,
    "min_new_tokens": 4,
    "max_new_tokens": 9,
    "stop": ("x",),
    "stop_token_ids": (31,),
    "logprobs": 2,
}


def test_vllm_gets_every_parameter() -> None:
    """Names, values, the seed of the answer's index, and the ends of text that our tokenizer knows."""
    body = VllmDialect().body(request_of(ANSWERS, index=2, **EVERYTHING), PLAIN, max_tokens=9)
    expected = {
        "prompt": [ANSWERS, 5, 6],
        "temperature": 0.7,
        "top_k": 5,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "logit_bias": {"7": -3.0},
        "seed": derived_seed(11, 2),
        "min_tokens": 4,
        "max_tokens": 9,
        "stop": ["x"],
        "stop_token_ids": [0, 2, 31],
        "logprobs": 2,
        "stream": True,
    }
    assert {name: body[name] for name in expected} == expected


def test_sglang_gets_every_parameter() -> None:
    """The same under SGLang's names; top_k 0 is its -1."""
    body = SglangDialect().body(request_of(ANSWERS, index=2, **EVERYTHING), MODELS, max_tokens=9)
    sampling = body["sampling_params"]
    expected = {
        "temperature": 0.7,
        "top_k": 5,
        "top_p": 0.9,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "logit_bias": {"7": -3.0},
        "sampling_seed": derived_seed(11, 2),
        "min_new_tokens": 4,
        "max_new_tokens": 9,
        "stop": ["x"],
        "stop_token_ids": [0, 2, 31],
    }
    assert {name: sampling[name] for name in expected} == expected
    assert body["input_ids"] == [ANSWERS, 5, 6]
    assert body["top_logprobs_num"] == 2
    assert SglangDialect().body(request_of(ANSWERS), MODELS, max_tokens=9)["sampling_params"]["top_k"] == -1


@pytest.mark.parametrize("dialect", [VllmDialect(), SglangDialect()])
def test_ignore_eos_leaves_the_clients_own_ends(dialect: VllmDialect | SglangDialect) -> None:
    """The model's ends are off, the client's stop tokens are not."""
    body = dialect.body(request_of(ANSWERS, ignore_eos=True, stop_token_ids=(31,)), MODELS, max_tokens=9)
    sampling = body.get("sampling_params", body)
    assert sampling["stop_token_ids"] == [31]
    assert sampling["ignore_eos"] is True


def test_json_schema() -> None:
    """vLLM takes the object, SGLang the text."""
    request = request_of(ANSWERS, json_schema=SCHEMA)
    assert VllmDialect().body(request, MODELS, max_tokens=9)["structured_outputs"] == {"json": {"type": "object"}}
    assert SglangDialect().body(request, MODELS, max_tokens=9)["sampling_params"]["json_schema"] == SCHEMA


@pytest.mark.parametrize("params", [{"min_p": 0.1}, {"logit_bias": {5: 1.0}}])
def test_vllm_refuses_what_it_cannot_do_while_it_speculates(params: dict[str, object]) -> None:
    """With a draft an error that says what to do; without one it is passed on."""
    with pytest.raises(InvalidInputError, match=r"while vllm speculates; leave it out"):
        VllmDialect().body(request_of(ANSWERS, **params), MODELS, max_tokens=9)
    assert VllmDialect().body(request_of(ANSWERS, **params), PLAIN, max_tokens=9)[next(iter(params))]


def test_vllm_on_a_cpu_refuses_to_sample_while_it_speculates() -> None:
    """Temperature 0 is served; above it only on a GPU or without a draft."""
    warm = request_of(ANSWERS, temperature=0.5)
    with pytest.raises(InvalidInputError, match="a temperature above 0"):
        VllmDialect(on_cpu=True).body(warm, MODELS, max_tokens=9)
    assert VllmDialect(on_cpu=True).body(warm, PLAIN, max_tokens=9)["temperature"] == 0.5
    assert VllmDialect(on_cpu=False).body(warm, MODELS, max_tokens=9)["temperature"] == 0.5
    assert VllmDialect(on_cpu=True).body(request_of(ANSWERS), MODELS, max_tokens=9)["temperature"] == 0.0


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ({"type": "abort", "message": "prompt too long", "status_code": 400}, InvalidInputError),
        ({"type": "abort", "message": "out of memory", "status_code": 500}, EngineUnavailableError),
        ({"type": "abort"}, EngineUnavailableError),
    ],
)
def test_sglang_says_in_an_answer_that_it_failed(reason: dict[str, object], error: type[Exception]) -> None:
    """An abort is never taken for an end of text."""
    read = SglangDialect().frames(request_of(ANSWERS))
    with pytest.raises(error, match=str(reason.get("message", "abort"))):
        read({"text": "", "output_ids": [], "meta_info": {"finish_reason": reason}})
