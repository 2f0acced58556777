"""Help and refused flags are quick: they import no library, whatever the command; run parts do, when they are run.

The claim is about the set of imported modules, not about seconds, so that a loaded machine cannot break it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from builders import write_byte_model
from eagle3.cli.deferred import Deferred
from eagle3.cli.main import build_parser

# Runs commands one after another in an interpreter that has imported nothing else, and says after each which modules
# outside the standard library are there that were not at its start (some environments import a few with `site`).
_FRESH = """
import contextlib, io, json, sys
before = set(sys.modules)
from eagle3.cli.main import main
for argv in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            code = main(argv)
        except SystemExit as leaving:
            code = leaving.code
    foreign = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
    rooms = {name.split(".")[1] for name in sys.modules if name.startswith("eagle3.")}
    seen = {"foreign": sorted(foreign), "rooms": sorted(rooms), "modules": sorted(sys.modules)}
    print(json.dumps({"code": code, **seen}))
"""


def leaves(parser, path=()):
    """Every command that runs something, and its parser."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield path, parser
    for group in groups:
        for name, child in group.choices.items():
            yield from leaves(child, (*path, name))


LEAVES = dict(leaves(build_parser()))
GROUPS = sorted({path[:length] for path in LEAVES for length in range(len(path))})


def fresh(*commands):
    """What each command exited with and what had been imported after it, in one new interpreter."""
    code = f"import sys; sys.path[:0] = {sys.path!r}\n{_FRESH}"
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(commands), capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_light(report):
    assert report["foreign"] == ["eagle3"], report
    assert set(report["rooms"]) <= {"cli", "config", "errors", "models"}, report


@pytest.mark.parametrize("path", [*GROUPS, *LEAVES], ids=lambda path: " ".join(("eagle3", *path)))
def test_help_imports_no_library(path):
    """`--help` of the program, of a group and of a command: the standard library and the product's flags alone."""
    (report,) = fresh([*path, "--help"])
    assert report["code"] == 0
    assert_light(report)


def test_what_the_parser_refuses_imports_no_library():
    """Unknown commands and flags, missing ones and values of a wrong type are refused before anything is loaded."""
    refused = [[], ["nope"], ["--nope"], ["bench"], ["generate", "--prompt", "a", "--temperature", "warm"]]
    refused += [[*path, "--no-such-flag"] for path in LEAVES]
    for report in fresh(*refused):
        assert report["code"] == 2
        assert_light(report)


def test_a_command_that_runs_is_told_apart():
    """The same measurement does see libraries: a command that gets to its settings has imported what it needs."""
    (report,) = fresh(["generate", "--prompt", "a", "--temperature", "-1"])
    assert report["code"] == 2
    assert {"pydantic", "torch"} <= set(report["foreign"])


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_what_runs_a_command_is_there(path):
    """Every name that a parser defers to is a function of one argument; none is written wrong."""
    run = LEAVES[path].get_default("run")
    assert callable(run.load() if isinstance(run, Deferred) else run)


def test_a_deferred_function_is_called_with_the_arguments(monkeypatch):
    """The function that is named gets what was parsed, and its exit code is handed on; naming it imported nothing."""
    monkeypatch.delitem(sys.modules, "this", raising=False)
    named = Deferred("this:run")
    assert "this" not in sys.modules
    calls = []
    stand_in = argparse.Namespace(run=lambda args: calls.append(args) or 7)
    monkeypatch.setitem(sys.modules, "this", stand_in)
    args = argparse.Namespace(command="x")
    assert (named(args), calls) == (7, [args])
    with pytest.raises(AttributeError):
        Deferred("this:walk").load()


def test_generating_imports_no_more_than_it_runs(tmp_path):
    """From the command to its first token nothing of torch's compiler, transformers' models or the server is loaded."""
    write_byte_model(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8")) | {"model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (report,) = fresh(["generate", "--target", str(tmp_path), "--prompt", "Hi", "--max-new-tokens", "1"])
    assert report["code"] == 0
    assert not {"fastapi", "uvicorn", "matplotlib", "sympy", "accelerate", "boto3"} & set(report["foreign"])
    assert not {"torch._dynamo", "torch.distributed.tensor", "transformers.modeling_utils"} & set(report["modules"])
