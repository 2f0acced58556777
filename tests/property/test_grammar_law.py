"""Laws of answers under a JSON schema, on random logits."""

from __future__ import annotations

import json

import jsonschema_rs
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.grammar import Grammar, GrammarCompiler
from eagle3.sampling.params import sampling_params
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import verify
from grammar_doubles import BYTE_TOKENS, END, OTHER_END, ScriptedMatcher, byte_backend

BACKEND = byte_backend().backend_tokenizer
ENDINGS = frozenset({END, OTHER_END})
COMPILER = GrammarCompiler(byte_backend(), BYTE_TOKENS, ENDINGS)
LONGEST = 3000

leaves = st.one_of(
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"enum": ["x", 1, None]}, {"const": "né\n"}]),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 6)),
    st.builds(lambda low: {"type": "integer", "minimum": low, "maximum": low + 57}, st.integers(-99, 99)),
    st.just({"type": "string", "pattern": "^[a-c]{1,3}$"}),
)  # fmt: skip


def deeper(inner):
    objects = st.dictionaries(st.sampled_from(["a", "b", 'q"', "é"]), inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(
            lambda properties: {
                "type": "object", "properties": properties, "required": [*properties][:2], "additionalProperties": False
            },
            objects,
        ),
        st.builds(lambda items: {"type": "array", "items": items, "maxItems": 3}, inner),
        st.builds(lambda members: {"anyOf": members}, st.lists(inner, min_size=1, max_size=2)),
    )  # fmt: skip


schemas = st.recursive(leaves, deeper, max_leaves=5)


def random_row(prefix, seed):
    """Logits that are a function of the text so far, as a model's are; endings are a little more likely."""
    generator = torch.Generator().manual_seed(hash((seed, tuple(prefix))) % 2**63)
    row = torch.randn(BYTE_TOKENS, generator=generator) * 2
    row[[*ENDINGS]] += 2.0
    return row


def sampler(schema, seed, **values):
    text = json.dumps(schema)
    return TokenDistribution(
        sampling_params(json_schema=text, max_new_tokens=LONGEST, **values),
        prompt_ids=(), vocab_size=BYTE_TOKENS, ending_ids=ENDINGS, grammar=COMPILER.compile(text),
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip


def up_to_the_end(token_ids):
    return next((token_ids[: place + 1] for place, token_id in enumerate(token_ids) if token_id in ENDINGS), token_ids)


def plain(schema, seed, **values):
    distribution, text = sampler(schema, seed, **values), []
    while not (text and text[-1] in ENDINGS) and len(text) < LONGEST:
        text.append(distribution.choose(random_row(text, seed), text))
    return text


@settings(deadline=None, max_examples=60)
@given(
    schema=schemas,
    seed=st.integers(0, 2**31),
    temperature=st.sampled_from([0.0, 0.5, 1.0, 5.0]),
    top_p=st.sampled_from([1.0, 0.8]),
)
def test_sampled_json_matches_its_schema(schema, seed, temperature, top_p):
    """Whatever the logits are, a finished answer is JSON and valid by an independent validator."""
    text = plain(schema, seed, temperature=temperature, top_p=top_p)
    assert text[-1] in ENDINGS
    answer = json.loads(BACKEND.decode(text[:-1]))
    assert jsonschema_rs.is_valid(schema, answer)


@settings(deadline=None, max_examples=40)
@given(schema=schemas, seed=st.integers(0, 2**31), temperature=st.sampled_from([0.0, 1.0]), data=st.data())
def test_speculative_decoding_gives_the_answer_of_plain_decoding(schema, seed, temperature, data):
    """Chains that are right, wrong or run past the end change no token of the answer."""
    expected = plain(schema, seed, temperature=temperature)
    distribution, text = sampler(schema, seed, temperature=temperature), [0]
    while not any(token_id in ENDINGS for token_id in text[1:]):
        ahead = (*expected[len(text) - 1 :], *[7] * 6)[: data.draw(st.integers(0, 6))]
        wrong = data.draw(st.integers(0, 9))
        drafted = tuple((token_id + (place == wrong)) % BYTE_TOKENS for place, token_id in enumerate(ahead))
        tree = DraftTree(
            token_ids=(text[-1], *drafted), parents=(0, *range(len(drafted))), scores=(0.0,) * (len(drafted) + 1)
        )
        tail = text[1:]
        text += verify(
            tree,
            lambda _node, done: distribution.choose(random_row([*tail, *done], seed), [*tail, *done]),  # noqa: B023
        ).emitted_ids
    assert up_to_the_end(text[1:]) == expected


@settings(deadline=None, max_examples=60)
@given(
    script=st.lists(st.sets(st.integers(3, 39), min_size=1, max_size=5), min_size=1, max_size=5),
    seed=st.integers(0, 2**31),
    values=st.fixed_dictionaries(
        {},
        optional={
            "temperature": st.floats(0.0, 50.0), "top_k": st.integers(0, 50), "top_p": st.floats(0.01, 1.0),
            "min_p": st.floats(0.0, 1.0), "repetition_penalty": st.floats(0.1, 10.0),
            "logit_bias": st.dictionaries(st.integers(0, 39), st.floats(-100.0, 100.0), max_size=5),
        },
    ),
)  # fmt: skip
def test_masked_tokens_never_come(script, seed, values):
    """For any parameters, a token that the grammar forbids has probability 0 and is not chosen."""
    grammar = Grammar(ScriptedMatcher(script, 40), vocab_size=40, ending_ids={1, 2})
    distribution = TokenDistribution(
        sampling_params(json_schema="{}", **values), prompt_ids=(4, 5), vocab_size=40, ending_ids=frozenset({1, 2}),
        generator=torch.Generator().manual_seed(seed), grammar=grammar,
    )  # fmt: skip
    logits = torch.Generator().manual_seed(seed)
    text: list[int] = []
    for allowed in [*script, {1, 2}, {1, 2}]:
        row = torch.randn(40, generator=logits) * 10
        support = set(distribution.probabilities(row, text).nonzero().flatten().tolist())
        text.append(distribution.choose(row, text))
        assert {text[-1]} <= support <= set(allowed)
