"""Requests that no friendly client would send, from a seed: mutated JSON, wrong types, broken bytes and headers."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Iterator
from typing import Any

from serving_doubles import GOOD, MODEL, raw_request

CHAT: dict[str, Any] = {
    "model": MODEL,
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
    ],
    "max_tokens": 4,
    "n": 2,
    "stop": ["x"],
    "logprobs": True,
    "top_logprobs": 2,
    "stream": False,
    "stream_options": None,
    "response_format": {"type": "text"},
    "logit_bias": {"5": 1},
    "seed": 3,
    "temperature": 0.5,
    "top_p": 0.9,
}
COMPLETION: dict[str, Any] = GOOD | {
    "max_tokens": 4,
    "n": 2,
    "stop": "x",
    "stream": True,
    "stream_options": {"include_usage": True},
    "logprobs": 1,
    "echo": False,
    "seed": 1,
    "logit_bias": {"5": -1},
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "min_p": 0.1,
    "top_k": 5,
}
_SEEDS = (("/v1/completions", COMPLETION), ("/v1/chat/completions", CHAT), ("/invocations", COMPLETION),
          ("/invocations", CHAT))  # fmt: skip
_RAW_VALUES = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1e308", b"-0", b"00", b"0x10", b"1" * 5000,
    b"-" + b"9" * 400,
    b'"\\ud800"', b'"\\udfff\\ud800"', b'"\\u0000"', b'"\x01\x02"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\xc0\x80"',
    b"'x'", b"{}{}", b"[" * 2000, b"[" * 200 + b"]" * 200, b'{"a":' * 500 + b"1" + b"}" * 500, b"true", b"null", b"nul",
    b'"' + b"a" * 20000 + b'"', b'{"a":1,"a":2}', b"/* c */ 1", b"1,", b'"<|im_start|>system"', b"\xef\xbb\xbf1",
)  # fmt: skip


def _values(rng: random.Random) -> Any:
    return rng.choice(
        [
            None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**400, 0.1, -0.5, 1e308, 1e-320, "", " ", "x",
            "\x00", "\x1b[31m", "\u202e", "😀" * 50, "a" * 3000, "<|im_end|>", "user", "system", "tool", "5",
            "json_schema",
            [], {}, [[]], [None], [1, "a"], [0] * 600, [-1], [259, 260], ["x"] * 40, [[1, 2], [3]], [{}],
            {"a": {"b": []}},
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
            {"type": "json_object"}, {"role": "user", "content": "x"}, {"5": "x"}, {"-1": 1}, {"x": 1}, {"5": 1e9},
            {"include_usage": "yes"}, {"__proto__": 1}, {"\x00": 1},
        ]
    )  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _mutated(rng: random.Random, body: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(body)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(_places(made)) or [()])
        if not path:
            break
        holder: Any = made
        for key in path[:-1]:
            holder = holder[key]
        match rng.randrange(4):
            case 0:
                del holder[path[-1]]
            case 1 if isinstance(holder, dict):
                holder[rng.choice(("x", "", "\x00", "n ", "prompt", "messages", "__class__", "tools"))] = _values(rng)
            case _:
                holder[path[-1]] = _values(rng)
    return made


def _with_raw_value(rng: random.Random, body: dict[str, Any]) -> bytes:
    marker = "RAW-VALUE"
    made = dict(body)
    made[rng.choice(list(made))] = marker
    return json.dumps(made).encode().replace(b'"RAW-VALUE"', rng.choice(_RAW_VALUES), 1)


def _broken(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    match rng.randrange(4):
        case 0:
            return bytes(out[: rng.randrange(len(out))])
        case 1:
            for _ in range(rng.randrange(1, 6)):
                out[rng.randrange(len(out))] = rng.randrange(256)
        case 2:
            out[rng.randrange(len(out)) : rng.randrange(len(out))] = rng.randbytes(rng.randrange(20))
        case _:
            return rng.randbytes(rng.randrange(200))
    return bytes(out)


def _headers(rng: random.Random, body: bytes) -> tuple[bytes, dict[str, str]]:
    match rng.randrange(9):
        case 0:
            kind = rng.choice(("text/plain", "application/xml", "", "application/json; charset=utf-16", ";;;", "\x80"))
            return body, {"content-type": kind}
        case 1:
            return gzip.compress(body), {"content-encoding": "gzip"}
        case 2:
            return gzip.compress(body)[: rng.randrange(20)], {"content-encoding": "gzip"}
        case 3:
            return body, {"content-encoding": rng.choice(("br", "gzip, gzip", "deflate", "x" * 200, "gzip"))}
        case 4:
            attributes = rng.choice(("speculate=maybe", "timeout-s=-1", "x" * 2000, "timeout-s=nan", "\x80", ",,=,"))
            return body, {"x-amzn-sagemaker-custom-attributes": attributes}
        case 5:
            return body, {"x-request-timeout-s": rng.choice(("-1", "nan", "1e999", "abc", "", "0", "5"))}
        case 6:
            return body, {"accept": rng.choice(("image/png", "", "*/*;q=0", "text/event-stream", "\x80"))}
        case 7:
            return body, {"accept-encoding": rng.choice(("gzip", "br;q=1", "gzip;q=0", "\x80"))}
        case _:
            return body, {"authorization": rng.choice(("Bearer", "Bearer \x80", "x" * 5000))}


def hostile_requests(count: int, seed: int) -> Iterator[bytes]:
    """Whole HTTP requests whose framing is right, so that a connection can carry many."""
    rng = random.Random(seed)
    for _ in range(count):
        path, body = rng.choice(_SEEDS)
        headers: dict[str, str] = {}
        match rng.randrange(10):
            case 0 | 1:
                data = _with_raw_value(rng, body)
            case 2 | 3:
                data = _broken(rng, json.dumps(body).encode())
            case 4:
                data, headers = _headers(rng, json.dumps(body).encode())
            case 5:
                data = json.dumps(_values(rng)).encode()
            case _:
                data = json.dumps(_mutated(rng, body), ensure_ascii=rng.random() < 0.5).encode("utf-8", "replace")
        yield raw_request(data, path=path, headers=headers, encoding="latin-1")


def misframed_requests(count: int, seed: int) -> Iterator[bytes]:
    """Requests whose length or transfer coding contradicts what is sent; each needs a connection of its own."""
    rng = random.Random(seed)
    for _ in range(count):
        data = json.dumps(rng.choice((COMPLETION, CHAT))).encode()
        size = len(data)
        framing = rng.choice(
            (
                {"content-length": f"{size}\r\ncontent-length: {size + 1}"},
                {"content-length": f"{size}, {size}"},
                {"content-length": str(-size)},
                {"content-length": f"+{size}"},
                {"content-length": "9" * 40},
                {"content-length": f"{size}", "transfer-encoding": "chunked"},
                {"content-length": str(size + 1_000_000_000)},
                {"content-length": "1e3"},
                {"transfer-encoding": "gzip, identity"},
            )
        )
        yield raw_request(data, headers=framing)
