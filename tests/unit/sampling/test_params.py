"""Sampling parameters at the edge: every value out of range is one clear error."""

from __future__ import annotations

import pytest

from eagle3.errors import InvalidInputError
from eagle3.sampling.params import SamplingParams, sampling_params

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 100.5}, "temperature"),
        ({"temperature": NAN}, "temperature"),
        ({"temperature": INF}, "temperature"),
        ({"temperature": "warm"}, "temperature"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_p": -0.5}, "top_p"),
        ({"top_p": NAN}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"min_p": 1.1}, "min_p"),
        ({"min_p": NAN}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repetition_penalty": -1.3}, "repetition_penalty"),
        ({"repetition_penalty": 10.1}, "repetition_penalty"),
        ({"repetition_penalty": NAN}, "repetition_penalty"),
        ({"presence_penalty": 2.1}, "presence_penalty"),
        ({"presence_penalty": -2.1}, "presence_penalty"),
        ({"presence_penalty": NAN}, "presence_penalty"),
        ({"frequency_penalty": 2.1}, "frequency_penalty"),
        ({"frequency_penalty": -2.1}, "frequency_penalty"),
        ({"frequency_penalty": NAN}, "frequency_penalty"),
        ({"logit_bias": {3: NAN}}, "logit_bias"),
        ({"logit_bias": {3: INF}}, "logit_bias"),
        ({"logit_bias": {3: 100.5}}, "logit_bias"),
        ({"logit_bias": {3: -1e39}}, "logit_bias"),
        ({"logit_bias": {"a": 1.0}}, "logit_bias"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"max_new_tokens": -3}, "max_new_tokens"),
        ({"min_new_tokens": -1}, "min_new_tokens"),
        ({"min_new_tokens": 9, "max_new_tokens": 8}, "min_new_tokens"),
        ({"stop": ("",)}, "stop"),
        ({"stop": ("a", "")}, "stop"),
        ({"stop": ("a",) * 17}, "stop"),
        ({"stop": (3,)}, "stop"),
        ({"stop_token_ids": ("x",)}, "stop_token_ids"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": 21}, "logprobs"),
        ({"n": 0}, "n"),
        ({"n": -1}, "n"),
        ({"n": 129}, "n"),
        ({"temprature": 0.5}, "temprature"),
        ({"json_schema": ""}, "json_schema"),
        ({"json_schema": "{"}, "json_schema"),
        ({"json_schema": "[]"}, "json_schema"),
        ({"json_schema": {"type": "object"}}, "json_schema"),
        ({"json_schema": '{"multipleOf":999983}'}, "json_schema"),
        ({"json_schema": "{}", "ignore_eos": True}, "json_schema"),
        ({"json_schema": "{}", "min_new_tokens": 3}, "min_new_tokens"),
    ],
)
def test_bad_value_names_its_parameter(values, named):
    """A value out of range is an InvalidInputError of one line that names the parameter (R15: penalty 0 included)."""
    with pytest.raises(InvalidInputError, match=rf"\b{named}\b") as caught:
        sampling_params(**values)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0}, {"temperature": 100}, {"top_p": 1}, {"top_p": 1e-9}, {"min_p": 0}, {"min_p": 1},
        {"repetition_penalty": 10}, {"repetition_penalty": 1e-9}, {"presence_penalty": -2}, {"frequency_penalty": 2},
        {"logit_bias": {3: 100, 4: -100}}, {"seed": 0}, {"seed": 2**63 - 1}, {"min_new_tokens": 8, "max_new_tokens": 8},
        {"stop": ("a",) * 16}, {"logprobs": 0}, {"logprobs": 20}, {"n": 1}, {"n": 128}, {"top_k": 10**9},
        {"json_schema": "{}"}, {"json_schema": '{"type":"object"}', "stop": ("x",), "stop_token_ids": (3,), "n": 2},
    ],
)  # fmt: skip
def test_ends_of_the_ranges_are_allowed(values):
    """Every limit itself is a valid value, and is kept."""
    params = sampling_params(**values)
    for name, value in values.items():
        assert getattr(params, name) == value


def test_a_schema_and_what_moves_the_end_exclude_each_other():
    """The schema decides where the text ends: the message names both parameters and what to do."""
    for name, value in (("ignore_eos", True), ("min_new_tokens", 3)):
        with pytest.raises(InvalidInputError, match=rf"{name} \({value}\) cannot be combined with json_schema.*leave"):
            sampling_params(json_schema="{}", **{name: value})


def test_error_says_what_was_got():
    """The message quotes the offending value, so that a user finds it in a long request."""
    with pytest.raises(InvalidInputError, match=r"top_p.*1\.25"):
        sampling_params(top_p=1.25)


def test_defaults_are_greedy_and_change_nothing():
    """Without parameters decoding is greedy, unpenalised and 128 tokens long."""
    params = SamplingParams()
    assert params.temperature == 0
    assert (params.top_k, params.top_p, params.min_p) == (0, 1.0, 0.0)
    assert (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) == (1.0, 0.0, 0.0)
    assert params.max_new_tokens == 128
    assert params == sampling_params()
