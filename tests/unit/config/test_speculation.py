"""The shape of a draft tree as configuration."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from eagle3.config.speculation import Speculation


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("depth", 0), ("depth", 33), ("depth", -1), ("depth", 2.5), ("top_k", 0), ("top_k", 65),
        ("nodes", 0), ("nodes", 1025), ("nodes", None), ("width", 3),
    ],
)  # fmt: skip
def test_out_of_range_is_refused(name, value):
    """A size outside its range, or a size that does not exist, is refused by name."""
    with pytest.raises(ValidationError, match=name):
        Speculation(**{name: value})


@pytest.mark.parametrize(("name", "limits"), [("depth", (1, 32)), ("top_k", (1, 64)), ("nodes", (1, 1024))])
def test_limits_are_allowed(name, limits):
    """Both ends of every range are valid."""
    for value in limits:
        assert getattr(Speculation(**{name: value}), name) == value


def test_chain():
    """K = 1 is a chain, K = 2 is not."""
    assert Speculation(top_k=1).is_chain
    assert not Speculation(top_k=2).is_chain


def test_frozen():
    """A shape is shared between requests, so it cannot be changed."""
    with pytest.raises(ValidationError):
        Speculation().depth = 3
