from __future__ import annotations

import gzip

import pytest

from eagle3.errors import InvalidInputError
from eagle3.server.body_limit import gunzip
from eagle3.server.errors import PayloadTooLargeError


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_accepts_up_to_the_limit(size: int) -> None:
    """The limit itself is allowed."""
    assert gunzip(gzip.compress(b"x" * size), 1000) == b"x" * size


@pytest.mark.parametrize("size", [1001, 50_000_000])
def test_refuses_beyond_the_limit(size: int) -> None:
    """One byte more is not, nor is a bomb, in one member or in two."""
    with pytest.raises(PayloadTooLargeError, match="1000"):
        gunzip(gzip.compress(b"x" * size), 1000)
    with pytest.raises(PayloadTooLargeError, match="1000"):
        gunzip(gzip.compress(b"x" * 600) + gzip.compress(b"x" * 401), 1000)


def test_accepts_several_members_and_padding() -> None:
    """As gzip itself does."""
    assert gunzip(gzip.compress(b"ab") + gzip.compress(b"cd") + b"\0\0", 1000) == b"abcd"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not gzip",
        gzip.compress(b"x" * 100)[:-1],
        gzip.compress(b"x")[:-4] + b"\1\2\3\4",
        gzip.compress(b"x") + b"rest",
        gzip.compress(b"") * 100,
    ],
    ids=["nothing", "other", "truncated", "wrong length", "trailing", "very many members"],
)
def test_refuses_what_is_no_gzip(data: bytes) -> None:
    """Every fault is the client's, told in words."""
    with pytest.raises(InvalidInputError, match="gzip"):
        gunzip(data, 1000)
