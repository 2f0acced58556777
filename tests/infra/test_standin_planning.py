"""What the stand-in provider plans, and values on the wire: unknown, set, changed, replaced."""

from __future__ import annotations

import json
from types import MappingProxyType

import msgpack
from hypothesis import given
from hypothesis import strategies as st

from infra.rehearsal.provider.checks import problems
from infra.rehearsal.provider.names import settled
from infra.rehearsal.provider.planning import Defaults, plan_change, plan_new, settle
from infra.rehearsal.provider.schema import Attribute, Block, Nested
from infra.rehearsal.provider.wire import UNKNOWN, conform, decode, encode, is_unknown, plain

OPTIONAL = Attribute(type="string", optional=True)
OPEN = Attribute(type="string", optional=True, computed=True)
TAGS = Attribute(type=["map", "string"], optional=True)
BLOCK = Block(
    attributes={
        "id": Attribute(type="string", computed=True),
        "name": OPEN,
        "name_prefix": OPEN,
        "size": Attribute(type="number", optional=True),
        "region": OPEN,
        "tags": TAGS,
        "tags_all": Attribute(type=["map", "string"], optional=True, computed=True),
    },
    blocks={
        "net": Nested(
            nesting="list",
            maximum=1,
            block=Block(attributes={"ids": OPTIONAL, "vpc": Attribute(type="string", computed=True)}),
        )
    },
)
DEFAULTS = Defaults(region="us-east-1", tags={"project": "eagle3"})
NOTHING_SET = MappingProxyType(dict.fromkeys(BLOCK.attributes) | {"net": []})


def body(**values):
    return {**NOTHING_SET, **values}


def test_new_resource_leaves_open_what_is_computed():
    """Computed attributes without a value are unknown, in blocks too; others stay as they are set."""
    plan = plan_new(BLOCK, body(name="a", net=[{"ids": "x", "vpc": None}]), DEFAULTS).state
    assert is_unknown(plan["id"])
    assert plan["name"] == "a"
    assert plan["size"] is None
    assert plan["region"] == "us-east-1"
    assert plan["net"][0]["ids"] == "x"
    assert is_unknown(plan["net"][0]["vpc"])


def test_default_tags_are_merged():
    """Tags of the provider are in `tags_all`; the resource's own win; unknown tags leave it unknown."""
    plan = plan_new(BLOCK, body(tags={"project": "mine", "a": "b"}), DEFAULTS)
    assert plan.state["tags_all"] == {"project": "mine", "a": "b"}
    assert plan_new(BLOCK, body(), DEFAULTS).state["tags_all"] == {"project": "eagle3"}
    assert is_unknown(plan_new(BLOCK, body(tags=UNKNOWN), DEFAULTS).state["tags_all"])


def made(**values):
    """A resource as it is in the state."""
    own = values.get("tags") or {}
    return body(**{"id": "1", "name": "a", "region": "us-east-1", "tags_all": {"project": "eagle3", **own}, **values})


def planned(prior, proposed, volatile=()):
    return plan_change(BLOCK, prior, proposed, DEFAULTS, volatile=volatile, immutable=["name", "net.ids"])


def test_same_configuration_changes_nothing():
    """An unchanged resource is planned as it is, volatile attributes and all."""
    assert planned(made(), made(), volatile=["region"]).state == made()


def test_change_in_place_and_change_that_replaces():
    """A size changes in place; a name, or an immutable attribute of a block, does not."""
    assert planned(made(), made(size=3)).replace == ()
    assert planned(made(), made(name="b")).replace == ("name",)
    assert planned(made(net=[{"ids": "a", "vpc": "v"}]), made(net=[{"ids": "b", "vpc": "v"}])).replace == ("net",)
    assert is_unknown(planned(made(), made(size=3), volatile=["name"]).state["name"])


def test_new_default_tags_are_a_change():
    """A tag that the provider adds to everything is planned for resources that are there already."""
    assert planned(made(tags_all={}), made(tags_all={})).state["tags_all"] == {"project": "eagle3"}


def test_outputs_settle_what_was_open():
    """After apply an unknown value is the output of the adapter, or null; what was planned stays."""
    state = settle(BLOCK, plan_new(BLOCK, body(size=2, net=[{"ids": "x", "vpc": None}]), DEFAULTS).state,
                   {"id": 7, "size": 9, "net": [{"vpc": "v"}]})  # fmt: skip
    assert (state["id"], state["size"], state["name"]) == ("7", 2, None)
    assert state["net"] == [{"ids": "x", "vpc": "v"}]


def test_name_is_made_from_its_prefix():
    """A name that is left open is its prefix and a token; one that is set is kept."""
    state = plan_new(BLOCK, body(name_prefix="eagle3-"), DEFAULTS).state
    assert settled(BLOCK, state, lambda: "0f")["name"] == "eagle3-0f"
    assert settled(BLOCK, plan_new(BLOCK, body(name="a"), DEFAULTS).state, lambda: "0f")["name"] == "a"


def test_name_and_prefix_exclude_each_other():
    """Both at once are refused, one alone is not, nor one that is not known yet."""
    assert [each[2] for each in problems("aws_x", BLOCK, body(name="a", name_prefix="b"))] == [("name_prefix",)]
    assert problems("aws_x", BLOCK, body(name_prefix="b")) == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5) | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_wire_keeps_values(value):
    """What is encoded is decoded as it was, unknown values included; without the protocol they are None."""
    assert decode(encode(value)) == value
    assert UNKNOWN not in json.loads(json.dumps([plain(value)]))


def test_refined_unknown_is_kept():
    """An unknown value of which Terraform knows something ("not null") goes back as it came."""
    refined = msgpack.ExtType(12, b"\x81\x01\xc2")
    assert is_unknown(decode(encode({"a": refined}))["a"])
    assert decode(encode({"a": refined})) == {"a": refined}


def test_answers_conform_to_types():
    """Members of an answer become attributes of the schema's types."""
    assert conform("string", True) == "true"
    assert conform("number", "5") == 5
    assert conform(["list", ["object", {"host_id": "string"}]], {"HostId": 4}) == [{"host_id": "4"}]
    assert conform("string", {"not": "simple"}) is None
