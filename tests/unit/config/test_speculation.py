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
        ("drafters", ()), ("drafters", ("medusa",)), ("drafters", "eagle3"), ("drafters", ("suffix", "suffix")),
        ("drafters", None), ("suffix_min_match", 0), ("suffix_min_match", 65), ("suffix_tokens", 0),
        ("suffix_tokens", 33), ("min_probability", -0.01), ("min_probability", 1.0),
    ],
)  # fmt: skip
def test_out_of_range_is_refused(name, value):
    """A size outside its range, or a size that does not exist, is refused by name."""
    with pytest.raises(ValidationError, match=name):
        Speculation(**{name: value})


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("depth", (1, 32)), ("top_k", (1, 64)), ("nodes", (1, 1024)), ("suffix_min_match", (1, 64)),
        ("suffix_tokens", (1, 32)), ("min_probability", (0.0, 0.999)),
        ("drafters", (("eagle3",), ("suffix",), ("suffix", "eagle3"))),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("drafters", "with_draft", "without"),
    [
        (("eagle3",), ("eagle3",), ()),
        (("eagle3", "suffix"), ("eagle3", "suffix"), ()),
        (("suffix",), ("suffix",), ("suffix",)),
    ],
)
def test_without_the_draft_that_should_guess_nobody_does(drafters, with_draft, without):
    """`draft: null` decodes plainly, unless suffix was asked for alone: it needs no draft."""
    shape = Speculation(drafters=drafters)
    assert shape.working_drafters(has_draft=True) == with_draft
    assert shape.working_drafters(has_draft=False) == without


def test_slots_are_reserved_for_what_is_drafted():
    """Root and nodes always; levels only where a draft runs them."""
    assert Speculation(depth=5, top_k=6, nodes=8).reserved_slots == 24
    assert Speculation(depth=5, top_k=6, nodes=8, drafters=("suffix",)).reserved_slots == 9
    assert Speculation(depth=5, top_k=6, nodes=30).reserved_slots == 31
