"""The bounds of a schema before it is compiled."""

from __future__ import annotations

import json
import math

import pytest

from eagle3.sampling.json_schema import MAX_SCHEMA_BYTES, MAX_SCHEMA_DEPTH, canonical_schema


def nested(levels):
    """A schema of that many levels."""
    return '{"items":' * (levels - 1) + "{}" + "}" * (levels - 1)


def test_keys_keep_their_order():
    """The order of properties is the order in which an answer writes them."""
    assert canonical_schema(' {"b": 1,\n "a": [true, null, 0.5]} ') == '{"b":1,"a":[true,null,0.5]}'
    assert canonical_schema('"é"'.join(['{"const":', "}"])) == '{"const":"\\u00e9"}'


@pytest.mark.parametrize("text", ["{}", nested(MAX_SCHEMA_DEPTH), '{"const":"' + "x" * 65_000 + '"}'])
def test_limits_themselves_are_allowed(text):
    """Depth and size up to the limits pass."""
    assert json.loads(canonical_schema(text)) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested(MAX_SCHEMA_DEPTH + 1), "nested too deeply"),
        ("[" * 20_000, "nested too deeply|not JSON"),
        ('{"items":' * 7000, "nested too deeply|not JSON"),
        ('{"a":"' + "x" * MAX_SCHEMA_BYTES + '"}', f"allowed: up to {MAX_SCHEMA_BYTES}"),
        ('{"a":"' + "é" * (MAX_SCHEMA_BYTES // 2) + '"}', "bytes"),
        ('{"minimum":NaN}', "NaN"),
        ('{"minimum":-Infinity}', "-Infinity"),
        ('{"minimum":1e999}', "not JSON compliant|Out of range"),
        ('{"minimum":' + "9" * 5000 + "}", "digit"),
        ('{"multipleOf":999983}', "multipleOf"),
        ('{"allOf":[{"multipleOf":997},{"multipleOf":991}]}', "multipleOf"),
        ('{"multipleOf":0.999983}', "multipleOf"),
        ('{"multipleOf":1.00000001e-5}', "multipleOf"),
        ('{"items":{"multipleOf":' + "7" * 400 + "}}", "over 1e18"),
        ("null", "must be a JSON object; got null"),
        ("true", "must be a JSON object; got true"),
        ('"text"', "must be a JSON object"),
    ],
)
def test_schemas_out_of_bounds_are_value_errors(text, message):
    """Everything that would make compiling endless, or is no JSON, is refused before."""
    with pytest.raises(ValueError, match=message):
        canonical_schema(text)


@pytest.mark.parametrize("value", [1, 10**12, 5, 0.01, 2500, 49_999, 1e-30, True, "7777777", {"type": "integer"}])
def test_ordinary_multiples_pass(value):
    """Powers of ten cost nothing, and what is no number is the library's to judge."""
    text = json.dumps({"properties": {"multipleOf": value}})
    assert json.loads(canonical_schema(text))["properties"]["multipleOf"] == value
    assert math.isfinite(len(canonical_schema(text)))
