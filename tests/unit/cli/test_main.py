"""The command's edge: help for everything, one line and the right exit code for anything wrong."""

from __future__ import annotations

import argparse
import json
import os
import re

import pytest

from builders import TINY_CONFIG
from eagle3 import errors
from eagle3.cli.main import build_parser, main
from eagle3.cli.run import generate


def parsers(parser, path=()):
    """Every command and the parser behind it."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                yield from parsers(child, (*path, name))


COMMANDS = dict(parsers(build_parser()))
LEAVES = [path for path, parser in COMMANDS.items() if parser.get_default("run")]


def run(capsys, *argv):
    """Exit code, stdout and stderr of one command."""
    try:
        code = main([str(word) for word in argv])
    except SystemExit as leaving:  # argparse
        code = leaving.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def assert_one_line(err):
    assert err.startswith("eagle3: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_the_commands_are_these():
    """A command that goes missing from the parser is missing here."""
    assert set(LEAVES) == {
        ("demo",), ("generate",), ("serve",), ("bench", "tau"), ("bench", "serve"), ("draft", "inspect"),
        ("draft", "convert"), ("draft", "doctor"), ("data", "build"), ("train",), ("rehearse",), ("cost",),
        ("runbook", "list"), ("runbook", "show"), ("runbook", "diagnose"), ("ask",),
        ("bench", "peers"), ("bench", "quality"), ("tune",),
    }  # fmt: skip


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help(capsys, path):
    """--help goes to stdout and exits with 0; every flag has a text, and percent signs in it are formatted."""
    code, out, err = run(capsys, *path, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: {' '.join(('eagle3', *path))}")
    assert "%(" not in out
    for action in COMMANDS[path]._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction), action.dest


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_flags_are_kebab_case(path):
    """Flags are lower case with hyphens."""
    for action in COMMANDS[path]._actions:
        for flag in action.option_strings:
            assert re.fullmatch(r"-[a-z]|--[a-z]+(-[a-z0-9]+)*", flag)


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in LEAVES], ids=" ".join)
def test_a_command_must_be_named(capsys, path):
    """The bare program, and a bare group, exit with 2 and say what is missing on stderr."""
    code, out, err = run(capsys, *path)
    assert (code, out) == (2, "")
    assert "required" in err


@pytest.mark.parametrize("argv", [["nope"], ["generate"], ["generate", "--prompt", "a", "--no-such-flag"],
                                  ["generate", "--prompt", "a", "--prompts", "b"],
                                  ["generate", "--prompt", "a", "--temperature", "warm"],
                                  ["train", "--data", "d", "--output", "o"]])  # fmt: skip
def test_what_the_parser_refuses_exits_with_2(capsys, argv):
    """Unknown commands and flags, missing and contradicting ones: usage on stderr, nothing on stdout."""
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert "usage: eagle3" in err


GENERATE = ("generate", "--prompt", "hello")
BAD_INPUT = [
    ([*GENERATE, "--temperature", "-1"], "temperature"),
    ([*GENERATE, "--temperature", "nan"], "temperature"),
    ([*GENERATE, "--temperature", "inf"], "temperature"),
    ([*GENERATE, "--top-p", "0"], "top_p"),
    ([*GENERATE, "--top-p", "1.5"], "top_p"),
    ([*GENERATE, "--top-k", "-1"], "top_k"),
    ([*GENERATE, "--min-p", "2"], "min_p"),
    ([*GENERATE, "--repetition-penalty", "0"], "repetition_penalty"),
    ([*GENERATE, "--presence-penalty", "3"], "presence_penalty"),
    ([*GENERATE, "--max-new-tokens", "0"], "max_new_tokens"),
    ([*GENERATE, "--min-new-tokens", "9", "--max-new-tokens", "4"], "min_new_tokens"),
    ([*GENERATE, "--seed", "-1"], "seed"),
    ([*GENERATE, "--stop", ""], "stop"),
    ([*GENERATE, "--logprobs", "21"], "logprobs"),
    ([*GENERATE, "-n", "0"], "n: "),
    ([*GENERATE, "--tree-depth", "0"], "--tree-depth"),
    ([*GENERATE, "--tree-depth", "33"], "--tree-depth"),
    ([*GENERATE, "--tree-nodes", "0"], "--tree-nodes"),
    ([*GENERATE, "--tree-top-k", "0"], "--tree-top-k"),
    ([*GENERATE, "--threads", "0"], "threads"),
    (["generate", "--prompt", ""], "the prompt is empty"),
    (["generate", "--prompt", " \n"], "the prompt is empty"),
    (["generate", "--prompts", "{tmp}/none.jsonl"], "cannot read .*none.jsonl: No such file"),
    (["generate", "--prompts", "{tmp}"], "cannot read"),
    (["generate", "--prompts", "{tmp}/broken.jsonl"], "broken.jsonl, line 2: not valid JSON"),
    (["generate", "--prompts", "{tmp}/empty.jsonl"], "holds no prompts"),
    (["generate", "--prompts", "{tmp}/blank.jsonl"], "blank.jsonl, line 1: prompt must be a text"),
    ([*GENERATE, "--config", "{tmp}/none.yaml"], "cannot read config file"),
    ([*GENERATE, "--config", "{tmp}/unknown.yaml"], "unknown.yaml: speculation.dept.*allowed keys: depth"),
    ([*GENERATE, "--config", "{tmp}/list.yaml"], "must hold a mapping"),
    ([*GENERATE, "--config", "{tmp}/broken.yaml"], "not valid YAML"),
    (["bench", "tau", "--prompts", "{tmp}/none.jsonl"], "cannot read"),
    (["bench", "tau", "--prompts", "{tmp}/good.jsonl", "--limit", "0"], "--limit"),
    (["bench", "tau", "--prompts", "{tmp}/good.jsonl", "--limit", "-1"], "--limit"),
    (["bench", "tau", "--prompts", "{tmp}/good.jsonl", "--target", "{tmp}"], "measures drafting; name a draft"),
    (["demo", "--max-new-tokens", "0"], "max_new_tokens"),
    (["demo", "--target", "{tmp}"], "compares drafting .*; name a draft with --draft"),
    (["data", "build", "--output", "{tmp}/d", "--invent", "-1"], "invent"),
    (["data", "build", "--output", "{tmp}/d", "--invent", "3", "--from-target", "2"], "from_target"),
    (["data", "build", "--output", "{tmp}/d", "--temperature", "0"], "temperature"),
    (["data", "build", "--output", "{tmp}/d", "--seed", "99999999999999999999"], "seed"),
    (["train", "--data", "{tmp}", "--output", "{tmp}/o", "--stages", "1x1", "--held-out", "0"], "held_out"),
    (["train", "--data", "{tmp}", "--output", "{tmp}/o", "--stages", "1x1", "--learning-rate", "nan"], "learning_rate"),
    (["train", "--data", "{tmp}", "--output", "{tmp}/o", "--stages", "1x1", "--seed", "-1"], "seed"),
    *(
        (["train", "--data", "{tmp}", "--output", "{tmp}/o", "--stages", stages], complaint)
        for stages, complaint in [
            ("garbage", "'garbage' is not STEPSxTTT"),
            ("", "'' is not STEPSxTTT"),
            ("10", "'10' is not STEPSxTTT"),
            ("10x", "'10x' is not STEPSxTTT"),
            ("x3", "'x3' is not STEPSxTTT"),
            ("10x2,", "'' is not STEPSxTTT"),
            ("1.5x2", "'1.5x2' is not STEPSxTTT"),
            ("10x2x3", "'10x2x3' is not STEPSxTTT"),
            ("²x1", "'²x1' is not STEPSxTTT"),
            ("0x1", "optimiser_steps"),
            ("1x0", "ttt_steps"),
            ("1x17", "ttt_steps"),
        ]
    ),
]


@pytest.fixture
def files(tmp_path):
    """Input files, sound and not."""
    for name, text in {
        "good.jsonl": '{"prompt": "a"}\n',
        "broken.jsonl": '{"prompt": "a"}\n{"prompt": \n',
        "empty.jsonl": "\n",
        "blank.jsonl": '{"prompt": " "}\n',
        "unknown.yaml": "speculation:\n  dept: 3\n",
        "list.yaml": "- target\n",
        "broken.yaml": "target: [1,\ndraft: {\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("argv", "complaint"), BAD_INPUT, ids=[" ".join(argv) for argv, _ in BAD_INPUT])
def test_bad_input_exits_with_2_and_one_line(capsys, files, argv, complaint):
    """Nothing on stdout, one line on stderr that names what is wrong, no traceback; before any model is loaded."""
    code, out, err = run(capsys, *(word.replace("{tmp}", str(files)) for word in argv))
    assert (code, out) == (2, ""), err
    assert_one_line(err)
    assert re.search(complaint, err), err


def test_missing_weights_exit_with_3(capsys, files):
    """A model, tokenizer or draft that is not there: exit code 3 and one line that names the path."""
    nowhere, hollow = files / "nowhere", files / "hollow"
    hollow.mkdir()
    (hollow / "config.json").write_text(json.dumps(TINY_CONFIG), encoding="utf-8")
    for argv in (
        [*GENERATE, "--target", nowhere],
        [*GENERATE, "--target", hollow],
        ["bench", "tau", "--prompts", files / "good.jsonl", "--target", nowhere, "--draft", nowhere],
        ["draft", "inspect", nowhere],
        ["draft", "convert", nowhere, files / "out", "--format", "nvidia"],
        ["draft", "doctor", "--target", nowhere, "--draft", nowhere],
        ["data", "build", "--output", files / "d", "--target", nowhere, "--invent", "1"],
        ["data", "build", "--output", files / "d", "--target", hollow, "--invent", "1"],
        ["train", "--data", files, "--output", files / "o", "--stages", "1x1", "--target", nowhere],
    ):
        code, out, err = run(capsys, *argv)
        assert (code, out) == (3, ""), (argv, err)
        assert_one_line(err)
        assert str(files) in err, argv
    assert not (files / "d").exists()
    assert not (files / "o").exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInputError("a"), 2),
        (errors.ConfigError("a"), 2),
        (errors.WeightsError("a"), 3),
        (errors.UnsupportedModelError("a"), 3),
        (errors.DraftMismatchError("a"), 3),
        (errors.NumericalError("a"), 4),
        (errors.Eagle3Error("a\nb"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_exit_codes(capsys, monkeypatch, error, code):
    """Each branch of the tree of errors has its code; a message of several lines is printed as one."""

    def raising(_path, _limit):
        raise error

    monkeypatch.setattr(generate, "read_prompts", raising)
    got, out, err = run(capsys, "generate", "--prompts", "x")
    assert (got, out) == (code, "")
    assert_one_line(err)


def test_a_programmers_fault_is_no_users_fault(monkeypatch):
    """An AssertionError is not dressed up as bad input."""

    def raising(_path, _limit):
        raise AssertionError("mine")

    monkeypatch.setattr(generate, "read_prompts", raising)
    with pytest.raises(AssertionError, match="mine"):
        main(["generate", "--prompts", "x"])


def test_a_reader_that_goes_away_is_no_error(capsys, monkeypatch):
    """`eagle3 … | head` ends quietly with the code of a broken pipe."""

    def raising(_path, _limit):
        raise BrokenPipeError

    silenced = []
    monkeypatch.setattr(generate, "read_prompts", raising)
    monkeypatch.setattr(os, "dup2", lambda source, _destination: silenced.append(source))
    monkeypatch.setattr("eagle3.cli.main.sys.stdout.fileno", lambda: 1, raising=False)
    code, _, err = run(capsys, "generate", "--prompts", "x")
    assert (code, err) == (141, "")
    assert len(silenced) == 1
    os.close(silenced[0])
