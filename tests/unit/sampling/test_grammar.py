"""Answers that match a JSON schema: what may come next, where the text ends, and what is refused."""

from __future__ import annotations

import json
import time

import pytest
import torch

from eagle3.errors import InvalidInputError
from eagle3.sampling.distribution import TokenDistribution
from eagle3.sampling.grammar import Grammar, GrammarCompiler
from eagle3.sampling.params import sampling_params
from eagle3.tree.draft_tree import DraftTree
from eagle3.verify.verification import verify
from grammar_doubles import BYTE_TOKENS, END, OTHER_END, ScriptedMatcher, byte_backend

INF = float("inf")
VOCAB = 40
ENDINGS = frozenset({2, 5})
ANY_OBJECT = '{"type":"object"}'


def scripted(script, *, temperature=0.0, seed=0, fails_at=None, **values):
    """A distribution over a scripted grammar, and its matcher."""
    matcher = ScriptedMatcher(script, VOCAB, fails_at=fails_at)
    grammar = Grammar(matcher, vocab_size=VOCAB, ending_ids=ENDINGS)
    distribution = TokenDistribution(
        sampling_params(json_schema=ANY_OBJECT, temperature=temperature, **values),
        prompt_ids=(1,), vocab_size=VOCAB, ending_ids=ENDINGS, grammar=grammar,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    return distribution, matcher


@pytest.fixture(scope="module")
def backend():
    return byte_backend()


@pytest.fixture(scope="module")
def compiler(backend):
    return GrammarCompiler(backend, BYTE_TOKENS, {END, OTHER_END})


def ids_of(backend, text):
    return backend.backend_tokenizer.encode(text).ids


def allowed(grammar, vocab_size=BYTE_TOKENS):
    return set(torch.isfinite(grammar.apply(torch.zeros(vocab_size))).nonzero().flatten().tolist())


def accepts(compiler, backend, schema, text):
    """Whether a grammar lets the tokens of `text` through and then the end."""
    grammar = compiler.compile(json.dumps(schema))
    for token_id in (*ids_of(backend, text), END):
        if token_id not in allowed(grammar):
            return False
        grammar.advance(token_id)
    return True


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_only_allowed_tokens_come(temperature):
    """Each token is from the set of its place, whatever the logits prefer."""
    script = [{7}, {8, 9}, {30, 31, 39}, {0}]
    for seed in range(20):
        distribution, matcher = scripted(script, temperature=temperature, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        text: list[int] = []
        for allowed_ids in script:
            text.append(distribution.choose(torch.randn(VOCAB, generator=generator), text))
            assert text[-1] in allowed_ids
        assert matcher.consumed == text


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_grammar_that_ended_is_not_asked_again(temperature):
    """R16: a grammar ends at draft token 2 of 4; 2 tokens are kept before the end, and no mask is asked for after."""
    logits = torch.linspace(0.0, 1.0, VOCAB)
    distribution, matcher = scripted([{7}, {8}], temperature=temperature)
    tree = DraftTree(token_ids=(1, 7, 8, 5, 5), parents=(0, 0, 1, 2, 3), scores=(0.0,) * 5)
    emitted = verify(tree, lambda _node, accepted: distribution.choose(logits, accepted)).emitted_ids
    kept = next(place for place, token_id in enumerate(emitted) if token_id in ENDINGS)
    assert emitted[:kept] == (7, 8)
    assert set(emitted[kept:]) <= ENDINGS
    assert matcher.masks == 2
    other, _ = scripted([{9}], temperature=temperature)
    assert other.choose(logits, ()) == 9  # the next request is not touched by it


def test_after_an_ending_token_only_endings_come():
    """Tokens after the end of a block are thrown away; until then `choose` answers with an ending id, unasked."""
    distribution, matcher = scripted([{7}])
    text = [distribution.choose(torch.zeros(VOCAB), ()) for _ in range(5)]
    assert text[0] == 7
    assert set(text[1:]) <= ENDINGS
    assert (matcher.masks, matcher.consumed) == (1, [7])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_probabilities_leave_the_grammar_where_it_is(temperature):
    """Asking for probabilities any number of times advances nothing and costs one mask."""
    distribution, matcher = scripted([{7, 8}, {9}], temperature=temperature)
    for _ in range(3):
        probs = distribution.probabilities(torch.zeros(VOCAB), ())
        assert set(probs.nonzero().flatten().tolist()) <= {7, 8}
    assert (matcher.consumed, matcher.masks) == ([], 1)
    assert distribution.choose(torch.zeros(VOCAB), ()) in {7, 8}
    assert distribution.choose(torch.zeros(VOCAB), (7,)) == 9


def test_masks_are_no_numerical_fault_and_faults_are_no_mask():
    """-inf from a mask passes; -inf in the target's own logits is still refused."""
    from eagle3.errors import NumericalError

    distribution, _ = scripted([{7}, {8}], temperature=1.0, top_k=3, top_p=0.5, min_p=0.1)
    assert distribution.choose(torch.zeros(VOCAB), ()) == 7
    with pytest.raises(NumericalError):
        distribution.choose(torch.zeros(VOCAB).index_fill(0, torch.tensor([9]), -INF), (7,))
    assert distribution.choose(torch.zeros(VOCAB), (7,)) == 8  # the refused row advanced nothing


def test_bias_and_penalties_cannot_lift_a_mask():
    """A bias of 100 on a token that the grammar forbids does not bring it."""
    distribution, _ = scripted(
        [{7}, {8}], logit_bias={3: 100.0, 7: -100.0}, presence_penalty=2.0, repetition_penalty=2.0
    )
    assert [distribution.choose(torch.zeros(VOCAB), ()), distribution.choose(torch.zeros(VOCAB), (7,))] == [7, 8]


def test_a_stop_token_is_text_to_the_grammar():
    """A stop token comes where the grammar allows it and nowhere else; the engine ends the answer there, unfinished."""
    distribution, matcher = scripted([{7}, {8}, {9}], stop_token_ids=(8, 30))
    logits = torch.zeros(VOCAB).index_fill(0, torch.tensor([30]), 9.0)
    assert [distribution.choose(logits, ()) for _ in range(4)] == [7, 8, 9, 2]
    assert matcher.consumed == [7, 8, 9]


def test_a_matcher_that_fails_on_the_way_is_one_clear_error():
    """A limit that the library hits while it goes on refuses this answer; the library's marks are not shown."""
    distribution, _ = scripted([{7}, {8}, {9}], fails_at=2)
    assert distribution.choose(torch.zeros(VOCAB), ()) == 7
    with pytest.raises(InvalidInputError, match=r"any further: Parser Error: too many items$"):
        distribution.choose(torch.zeros(VOCAB), (7,))


def test_a_dead_end_is_an_error_and_no_token():
    """Where no token of the vocabulary goes on, nothing is chosen."""
    distribution, _ = scripted([set()])
    with pytest.raises(InvalidInputError, match="no token of this model"):
        distribution.choose(torch.zeros(VOCAB), ())


def test_grammar_and_schema_come_together():
    """Neither a schema without its grammar nor the reverse: a schema is never silently ignored."""
    for params in (sampling_params(json_schema=ANY_OBJECT), sampling_params()):
        grammar = None if params.json_schema else Grammar(ScriptedMatcher([], 8), vocab_size=8, ending_ids={2})
        with pytest.raises(AssertionError, match="come together"):
            TokenDistribution(
                params, prompt_ids=(), vocab_size=8, ending_ids=frozenset(), generator=torch.Generator(),
                grammar=grammar,
            )  # fmt: skip


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}, "kind": {"enum": ["a", "b"]}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "text", "matches"),
    [
        (PERSON, '{"name":"x"}', True),
        (PERSON, '{"name": "x", "age": 3, "kind": "b"}', True),
        (PERSON, '{\n  "name": "x",\n  "age": 30\n}', True),
        (PERSON, '{"name":"é \\n \\" x"}', True),
        (PERSON, '{"age": 3}', False),
        (PERSON, '{"name": 3}', False),
        (PERSON, '{"name":"x","age":-1}', False),
        (PERSON, '{"name":"x","other":1}', False),
        (PERSON, '{"name":"x"', False),
        (PERSON, '{"name":"x"}}', False),
        ({"type": "object"}, "{}", True),
        ({"type": "object"}, '{"a": [1, 2.5e3, null, true, {"b": "c"}]}', True),
        ({"type": "object"}, "[]", False),
        ({"type": "object"}, " {}", False),
        ({}, "3", True),
        ({"type": "integer"}, "12", True),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, '"x"', True),
        ({"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}, "[[],[[]]]", True),
        ({"type": "number", "multipleOf": 0.25}, "1.25", True),
        ({"type": "number", "multipleOf": 0.25}, "1.3", False),
        ({"type": "object"}, '{"a":' + "\n" * 32 + "1}", True),
        ({"type": "object"}, '{"a":' + "\n" * 33 + "1}", False),
    ],
)
def test_schemas_accept_and_refuse(compiler, backend, schema, text, matches):
    """Texts that match a schema pass to their end, others do not; white space is allowed in reason."""
    assert accepts(compiler, backend, schema, text) is matches


def test_ending_tokens_come_only_where_the_text_is_complete(compiler, backend):
    """No ending id inside the text; every one of them where it may end; none but them after its last token."""
    grammar = compiler.compile('{"type":"integer"}')
    assert not allowed(grammar) & {END, OTHER_END}
    grammar.advance(ids_of(backend, "7")[0])
    assert {END, OTHER_END, ids_of(backend, "8")[0]} <= allowed(grammar)
    done = compiler.compile(ANY_OBJECT)
    for token_id in ids_of(backend, "{}"):
        done.advance(token_id)
    assert done.ended
    assert allowed(done) == {END, OTHER_END}


def test_ending_tokens_with_a_text_stay_out_of_strings(backend):
    """An ending id that has ordinary text, as of tokenizers that do not call it special, never comes in a string."""
    letter = ids_of(backend, "z")[0]
    grammar = GrammarCompiler(backend, BYTE_TOKENS, {letter}).compile('{"type":"string"}')
    grammar.advance(ids_of(backend, '"')[0])
    assert ids_of(backend, "y")[0] in allowed(grammar)
    assert letter not in allowed(grammar)


def test_special_tokens_never_come(compiler, backend):
    """Marks of a chat template are no text, not even inside a string."""
    grammar = compiler.compile('{"type":"string"}')
    grammar.advance(ids_of(backend, '"')[0])
    assert not allowed(grammar) & {END, OTHER_END, 258, 259}


@pytest.mark.parametrize("vocab_size", [BYTE_TOKENS + 1, BYTE_TOKENS + 200, BYTE_TOKENS - 4])
def test_vocabulary_of_the_model_may_differ_from_the_tokenizers(backend, vocab_size):
    """Padding of the model's vocabulary never comes, and ids that the model lacks are left out."""
    grammar = GrammarCompiler(backend, vocab_size, {END, 10_000}).compile('{"type":"string"}')
    assert ids_of(backend, '"')[0] in allowed(grammar, vocab_size) < set(range(BYTE_TOKENS))
    grammar.advance(ids_of(backend, '"')[0])
    assert len(allowed(grammar, vocab_size)) > 100
    assert max(allowed(grammar, vocab_size)) < min(vocab_size, BYTE_TOKENS)


def test_grammars_of_one_schema_are_apart(compiler, backend):
    """Two answers to one schema advance on their own, although the schema is compiled once."""
    first, second = compiler.compile(ANY_OBJECT), compiler.compile(ANY_OBJECT)
    before = allowed(second)
    first.advance(ids_of(backend, "{")[0])
    assert allowed(second) == before
    assert allowed(first) != before


def test_schemas_are_compiled_once(backend, monkeypatch):
    """The second answer to a schema compiles nothing."""
    import eagle3.sampling.grammar as module

    compiler = GrammarCompiler(backend, BYTE_TOKENS, {END})
    compiler.compile(ANY_OBJECT)
    monkeypatch.setattr(module, "LLMatcher", None)
    assert not compiler.compile(ANY_OBJECT).ended


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("{", "not JSON"),
        ("", "not JSON"),
        ("[]", "must be a JSON object"),
        ("3", "must be a JSON object"),
        ('{"type":"objekt"}', "Invalid type: objekt"),
        ('{"type":"object"}}, {"lark_grammar": "start: /.*/"', "not JSON"),
        ('{"not":{}}', "not"),
        ('{"x-guidance":{"lenient":true},"not":{}}', "not"),
        ('{"uniqueItems":true}', "uniqueItems"),
        ('{"type":"string","pattern":"("}', "pattern: unclosed group"),
        ('{"type":"string","format":"colour"}', "colour"),
        ('{"$ref":"#/$defs/none"}', "none"),
        ('{"$ref":"http://127.0.0.1/schema"}', "127.0.0.1"),
        ('{"$ref":"#"}', "nothing matches"),
        ("false", "must be a JSON object"),
        ("true", "must be a JSON object"),
        ('{"type":"integer","minimum":5,"maximum":3}', "minimum"),
        ('{"oneOf":[{"type":"object"},{"type":"object","properties":{"a":{}}}]}', "use anyOf"),
        ('{"x-guidance":{"coerce_one_of":true},"oneOf":[{"type":"object"},{"type":"object"}]}', "use anyOf"),
        ('{"const":"\\ud800"}', "hex escape"),
    ],
)
def test_schemas_that_cannot_be_used_say_why(compiler, schema, reason):
    """Broken JSON, broken schemas and unsupported keywords are one line each: no crash, no traceback."""
    with pytest.raises(InvalidInputError, match="json_schema") as caught:
        compiler.compile(schema)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def chained(count):
    return {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(count)} | {f"a{count}": {"type": "string"}}


HOSTILE = {
    "products of alternatives": {
        "allOf": [
            {"anyOf": [{"properties": {f"{letter}{n}": {"const": n}}, "required": [f"{letter}{n}"]} for letter in "pq"]}
            for n in range(30)
        ]
    },
    "deep references": {"$defs": chained(1500), "$ref": "#/$defs/a0"},
    "doubling references": {
        "$defs": {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)} | {"a40": {}},
        "$ref": "#/$defs/a0",
    },
    "long arrays of long arrays": {
        "type": "array", "minItems": 50_000, "items": {"type": "array", "minItems": 50_000, "items": {"minItems": 9999}}
    },
    "nested repetitions": {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"},
    "exponential automaton": {"type": "string", "pattern": "^.*a.{200}$"},
    "many properties": {"type": "object", "properties": {f"p{n}": {} for n in range(3000)}},
    "big numbers": {"type": "integer", "minimum": -(10**300), "maximum": 10**300},
    "many values": {"enum": [f"v{n}" for n in range(5000)]},
    "biggest multiple": {"type": "integer", "multipleOf": 49_999},
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_take_bounded_time(compiler, name):
    """Schemas made to blow up are compiled or refused within seconds, and so is each token after."""
    generator = torch.Generator().manual_seed(0)
    started = time.perf_counter()
    try:
        grammar = compiler.compile(json.dumps(HOSTILE[name]))
        for _ in range(30):
            scores = grammar.apply(torch.rand(BYTE_TOKENS, generator=generator))
            grammar.advance(int(scores.argmax()))
    except InvalidInputError as error:
        assert "json_schema" in str(error)  # noqa: PT017
    assert time.perf_counter() - started < 10.0


def test_models_without_what_a_grammar_needs_are_refused(backend):
    """No ending token, or no fast tokenizer: the message says which."""
    with pytest.raises(InvalidInputError, match="end-of-text token"):
        GrammarCompiler(backend, BYTE_TOKENS, ()).compile(ANY_OBJECT)
    with pytest.raises(InvalidInputError, match="fast tokenizer"):
        GrammarCompiler(object(), BYTE_TOKENS, {END}).compile(ANY_OBJECT)


@pytest.mark.slow
def test_the_embedded_tokenizer_writes_json():
    """R16 on the real vocabulary: a drafted block that runs past the closing brace keeps the tokens up to it."""
    from eagle3.models.embedded import target_path
    from eagle3.models.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(target_path("embedded"))
    vocab_size = 49_152
    compiler = GrammarCompiler(tokenizer.backend, vocab_size, tokenizer.ending_ids)
    text = '{"name": "Ada", "age": 36}'
    ids = tokenizer.encode_plain(text)
    for extra in (1, 4):
        drafted = (*ids, *([17] * extra))
        distribution = TokenDistribution(
            sampling_params(json_schema=json.dumps(PERSON)),
            prompt_ids=(1,), vocab_size=vocab_size, ending_ids=tokenizer.ending_ids,
            generator=torch.Generator(), grammar=compiler.compile(json.dumps(PERSON)),
        )  # fmt: skip
        tree = DraftTree(token_ids=(1, *drafted), parents=(0, *range(len(drafted))), scores=(0.0,) * (len(drafted) + 1))
        rows = torch.nn.functional.one_hot(torch.tensor([*drafted, 17]), vocab_size).float()
        emitted = verify(tree, lambda node, done: distribution.choose(rows[node], done)).emitted_ids  # noqa: B023
        assert tokenizer.decode(emitted) == text
        assert emitted[len(ids)] in tokenizer.ending_ids
