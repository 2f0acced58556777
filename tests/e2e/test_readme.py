"""The README's commands are the ones that the program has, and those that need nothing of the reader run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from eagle3.cli.main import build_parser, main
from serve_process import serving

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    shlex.split(line, comments=True)
    for language, block in BLOCKS
    if language == "sh"
    for line in block.splitlines()
    if line.startswith(".venv/bin/eagle3")
]
PLACEHOLDERS = ("PATH", "SOURCE", "MODEL", "data/mine", "PROMPTS.jsonl")


def needs_the_reader(command):
    return any(word in PLACEHOLDERS for word in command) or {"serve", "rehearse", "ask"} & set(command)


def test_readme_has_commands():
    """The README shows commands of the program; an empty list would make the tests below pass for nothing."""
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_command_is_understood(command):
    """Every command of the README parses: no flag in it is made up or gone."""
    assert build_parser().parse_args(command[1:]).run


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^make ([\w-]+)", README, flags=re.MULTILINE))))
def test_make_target_exists(target):
    """Every make target that the README names is in the Makefile."""
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_link_leads_somewhere(link):
    """Every relative link of the README names a file that is there."""
    assert link.startswith("https://") or (ROOT / link).exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if not needs_the_reader(c)], ids=" ".join)
def test_command_runs(command, capfd):
    """Commands that need no file of the reader's exit with 0 and print something."""
    assert main(command[1:]) == 0
    assert capfd.readouterr().out.strip()


def python_example(name):
    [example] = [block for language, block in BLOCKS if language == "python" and name in block]
    return example


@pytest.mark.slow
def test_python_example_runs(capsys):
    """The README's Python example runs as it stands."""
    exec(compile(python_example("eagle3 import"), "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.slow
def test_served_example_runs(capsys):
    """The README's server answers the README's client, word by word."""
    with serving() as server:
        server.wait_ready()
        example = python_example("openai import").replace("http://127.0.0.1:8080", server.url)
        assert server.url in example
        exec(compile(example, "README.md", "exec"), {})
    assert "Mars" in capsys.readouterr().out
