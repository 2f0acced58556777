"""Conversations from JSONL: three shapes in, one turn per answer out, complaints with file and line."""

from __future__ import annotations

import json

import pytest

from eagle3.errors import InvalidInputError
from eagle3.train.conversations import prompt_of, read_jsonl, read_turns


def written(path, *rows):
    """A JSONL file of rows; a row that is a string is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def turns(tmp_path, *rows, answers_needed=False):
    return list(read_turns(written(tmp_path / "data.jsonl", *rows), answers_needed=answers_needed))


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def test_a_messages_row_gives_one_turn_per_answer(tmp_path):
    """Two assistant turns: the second one sees the first, with its answer, as context."""
    row = {
        "messages": [{"role": "system", "content": "Be brief."}, user("a"), assistant("b"), user("c"), assistant("d")]
    }
    first, second = turns(tmp_path, row)
    assert (first.messages, first.answer) == (tuple(row["messages"][:2]), "b")
    assert (second.messages, second.answer) == (tuple(row["messages"][:4]), "d")


@pytest.mark.parametrize("names", [("human", "gpt"), ("user", "assistant")])
def test_a_sharegpt_row_gives_the_same_turns(tmp_path, names):
    """`conversations` with `from` and `value` is the same conversation in other words; extra keys do no harm."""
    human, gpt = names
    row = {
        "id": "x1",
        "conversations": [
            {"from": "system", "value": "s"}, {"from": human, "value": "a"}, {"from": gpt, "value": "b"},
            {"from": human, "value": "c"}, {"from": gpt, "value": "d"},
        ],
    }  # fmt: skip
    first, second = turns(tmp_path, row)
    assert first.messages == ({"role": "system", "content": "s"}, user("a"))
    assert second.messages == (*first.messages, assistant("b"), user("c"))
    assert (first.answer, second.answer) == ("b", "d")


@pytest.mark.parametrize("row", [{"prompt": "hello"}, {"turns": ["hello", "and then?"]}])
def test_a_prompt_row_is_a_turn_without_an_answer(tmp_path, row):
    """`prompt`, and the first of `turns`, are for the target to answer."""
    (turn,) = turns(tmp_path, row)
    assert turn.messages == (user("hello"),)
    assert turn.answer is None


def test_plain_prompts_are_refused_where_answers_are_needed(tmp_path):
    """Training on the data's own answers cannot use a prompt that has none."""
    with pytest.raises(InvalidInputError, match="line 1: the conversation has no assistant turn"):
        turns(tmp_path, {"prompt": "hello"}, answers_needed=True)


def test_rows_keep_the_order_of_the_file(tmp_path):
    """Shapes may be mixed in one file; blank lines are skipped."""
    rows = [{"prompt": "1"}, "", {"messages": [user("2"), assistant("x")]}, "   ", {"turns": ["3"]}]
    assert [turn.messages[-1]["content"] for turn in turns(tmp_path, *rows)] == ["1", "2", "3"]


def test_an_answer_with_no_question_before_it_is_no_turn(tmp_path):
    """An assistant turn that opens a conversation, or follows another, is context and not an answer to train on."""
    row = {"messages": [assistant("hi"), user("a"), assistant("b"), assistant("c")]}
    (turn,) = turns(tmp_path, row)
    assert (turn.messages, turn.answer) == ((assistant("hi"), user("a")), "b")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_only_a_line_feed_ends_a_line(tmp_path, separator):
    """Text may hold what Unicode calls line ends, unescaped as in ShareGPT; they split no row."""
    (turn,) = turns(tmp_path, {"prompt": f"a{separator}b"})
    assert turn.messages[0]["content"] == f"a{separator}b"


def test_carriage_returns_before_line_feeds_do_no_harm(tmp_path):
    """A file from Windows reads the same."""
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"prompt": "a"}\r\n{"prompt": "b"}\r\n')
    assert [row for _, row in read_jsonl(path)] == [{"prompt": "a"}, {"prompt": "b"}]


OK = {"prompt": "fine"}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ('{"prompt": "cut', "not valid JSON"),
        ("[1, 2]", "expected a JSON object; got list"),
        ("3", "expected a JSON object; got int"),
        ({"text": "x"}, "expected a key messages, conversations, prompt or turns; got text"),
        ({}, "got none"),
        ({"messages": [user("a")]}, "no assistant turn"),
        ({"messages": []}, "no assistant turn"),
        ({"conversations": [{"from": "gpt", "value": "b"}]}, "no assistant turn"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "unknown role 'tool'; allowed: .*user"),
        ({"messages": [{"role": "human", "content": ""}]}, "content must be a text that is not empty"),
        ({"conversations": [{"from": "bing", "value": "a"}]}, "unknown from 'bing'; allowed: .*human"),
        ({"conversations": [{"value": "a"}]}, "unknown from None"),
        ({"messages": [user("  "), assistant("b")]}, "content must be a text that is not empty; got '  '"),
        ({"messages": [user("a"), assistant("")]}, "content must be a text that is not empty"),
        ({"messages": [{"role": "user"}]}, "content must be a text that is not empty; got None"),
        ({"messages": [{"role": ["user"], "content": "a"}]}, "unknown role"),
        ({"messages": "a"}, "messages must be a list of objects"),
        ({"messages": ["a"]}, "messages must be a list of objects"),
        ({"prompt": ""}, "prompt must be a text that is not empty"),
        ({"prompt": ["a"]}, "prompt must be a text"),
        ({"turns": []}, "turns must be a list of texts"),
        ({"turns": "a"}, "turns must be a list of texts"),
        ({"turns": [None]}, r"turns\[0\] must be a text"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, row, complaint):
    """Whatever is wrong with the third line, the complaint says so."""
    with pytest.raises(InvalidInputError, match=rf"data\.jsonl, line 3: .*{complaint}") as error:
        turns(tmp_path, OK, "", row, OK)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    """Missing, a directory, not UTF-8: bad input, not a traceback."""
    with pytest.raises(InvalidInputError, match=r"cannot read .*none\.jsonl: No such file"):
        list(read_turns(tmp_path / "none.jsonl", answers_needed=False))
    with pytest.raises(InvalidInputError, match="cannot read"):
        list(read_turns(tmp_path, answers_needed=False))
    (tmp_path / "latin.jsonl").write_bytes('{"prompt": "é"}'.encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"latin\.jsonl is not UTF-8"):
        list(read_turns(tmp_path / "latin.jsonl", answers_needed=False))


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q"},
        {"turns": ["q", "later"]},
        {"messages": [{"role": "system", "content": "s"}, user("q"), assistant("a"), user("later")]},
        {"conversations": [{"from": "human", "value": "q"}]},
    ],
)
def test_the_prompt_of_a_row_is_its_first_user_turn(row):
    """In every shape, with no answer needed."""
    assert prompt_of(row, "here") == "q"


def test_a_row_without_a_user_turn_has_no_prompt():
    """Nothing to answer is bad input."""
    with pytest.raises(InvalidInputError, match="here: no user turn"):
        prompt_of({"messages": [{"role": "system", "content": "s"}]}, "here")
