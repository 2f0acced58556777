"""Bodies that are no JSON, or that two parsers would read differently."""

from __future__ import annotations

import pytest

from eagle3.errors import InvalidInputError
from eagle3.server.json_body import parse_object


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"{}", {}),
        ('{"a": "é😀", "b": [1, 2.5, -3e2, true, null]}'.encode(), {"a": "é😀", "b": [1, 2.5, -300.0, True, None]}),
        (rb'{"a": "\ud83d\ude00"}', {"a": "😀"}),
        (b'{"a": {"a": {"a": 1}}}', {"a": {"a": {"a": 1}}}),
        (b'{"a": "' + b"x" * 6_000_000 + b'"}', None),
        (b'{"a": ' + b"[" * 99 + b"]" * 99 + b"}", None),
    ],
)
def test_accepts_json(body, value):
    """What is JSON in UTF-8 is read as it stands, escaped pairs of surrogates and 100 levels included."""
    got = parse_object(body)
    assert value is None or got == value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"{'a': 1}", "not valid JSON"),
        (b'{"a": 1} x', "not valid JSON"),
        (b'\xef\xbb\xbf{"a": 1}', "not valid JSON"),
        (b"[]", "must be a JSON object; got list"),
        (b"null", "must be a JSON object; got NoneType"),
        (b'{"a": "\xff"}', r"not valid UTF-8 \(byte 7\)"),
        (b'{"a": "\xed\xa0\x80"}', "not valid UTF-8"),
        ('{"a": 1}'.encode("utf-16"), "not valid UTF-8"),
        (rb'{"a": "\ud800"}', "surrogate"),
        (rb'{"a": [{"b": ["\udfff x"]}]}', "surrogate"),
        (rb'{"\ud800": 1}', "surrogate"),
        (b'{"a": 1, "a": 1}', "'a' is given twice"),
        (b'{"b": [{"a": 1, "c": 2, "a": 3}]}', "'a' is given twice"),
        (rb'{"\ud800": 1, "\ud800": 1}', "given twice"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": [-Infinity]}', "-Infinity is not a JSON number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "more digits than any number needs"),
        (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", "nested deeper"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "nested deeper"),
        (b"[" * 90_000, "nested deeper"),
        (b'{"a":' * 45_000, "nested deeper"),
        (b'{"a": "\x01"}', "not valid JSON"),
        (b'{"a": [' + b",".join([b"[1]"] * 100_000) + b"]}", "100003 brackets, braces and colons"),
        (b'{"a": [' + b",".join([b"1"] * 500_002) + b"]}", "500001 commas"),
        (b"{" + b",".join(b'"%d":1' % key for key in range(4097)) + b"}", "4097 keys"),
    ],
)
def test_refuses_the_rest(body, message):
    """Every other body is a user's fault that is explained, never another exception."""
    with pytest.raises(InvalidInputError, match=message) as caught:
        parse_object(body)
    str(caught.value).encode()
