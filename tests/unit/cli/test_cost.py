"""`eagle3 cost` passes its flags on to the estimate of a checkout, and refuses what cannot be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle3.cli.cost import STACKS
from eagle3.cli.main import build_parser, main

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like a checkout, whose estimate says what it was asked."""
    room = tmp_path / "infra" / "estimate"
    room.mkdir(parents=True)
    (tmp_path / "cdktf.json").write_text("{}", encoding="utf-8")
    (room / "__main__.py").write_text("import sys; print(*sys.argv[1:], sep='\\n'); sys.exit(7)", encoding="utf-8")
    return tmp_path


def test_flags_pass_on(checkout, capfd):
    """Every flag reaches the estimate with its value; its exit code is the command's."""
    flags = ["--environment", "prod", "--set", "a.b=1", "--regions", "us-east-1,eu-west-1", "--commitment", "3y"]
    flags += ["--spot-share", "0.25", "--hours-per-day", "8", "--machines", "3", "--tokens-per-second", "1e3"]
    assert main(["cost", "large", "--project", str(checkout), *flags, "--live", "--json"]) == 7
    words = capfd.readouterr().out.splitlines()
    assert words[0] == "large"
    said = " ".join(words[1:])
    for expected in (
        "--environment prod", "--set a.b=1", "--regions=us-east-1,eu-west-1", "--commitment 3y", "--spot-share=0.25",
        "--hours-per-day=8.0", "--machines=3", "--tokens-per-second=1000.0", "--live", "--json",
    ):  # fmt: skip
        assert expected in said


def test_negative_numbers_arrive_as_numbers(checkout, capfd):
    """A negative value is passed on as one, so that the estimate can say what is allowed."""
    assert main(["cost", "small", "--project", str(checkout), "--spot-share=-1"]) == 7
    assert "--spot-share=-1.0" in capfd.readouterr().out


def test_defaults_ask_for_nothing(checkout, capfd):
    """Without flags only what has a default is passed on."""
    assert main(["cost", "small", "--project", str(checkout)]) == 7
    assert capfd.readouterr().out.split() == ["small", "--commitment", "none", "--hours-per-day=24.0"]


def test_this_checkout_estimates(capfd):
    """The real estimate of this repository: one JSON object on stdout, nothing else."""
    assert main(["cost", "small", "--project", str(PROJECT), "--json"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    made = json.loads(captured.out)
    assert made["stack"] == "small"
    assert 800 < made["usd_per_month"] < 1200


def test_outside_of_a_checkout_is_one_error(tmp_path, monkeypatch, capsys):
    """Exit code 2, one line with the remedy."""
    monkeypatch.chdir(tmp_path)
    assert main(["cost", "small"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "cdktf.json with infra/estimate" in captured.err


@pytest.mark.parametrize("words", [[], ["bootstrap"], ["small", "--commitment", "5y"], ["small", "--machines", "x"]])
def test_bad_words_are_refused(capsys, words):
    """No stack, one without a price, an unknown term, no number: exit code 2."""
    with pytest.raises(SystemExit) as leaving:
        main(["cost", *words])
    assert leaving.value.code == 2
    assert capsys.readouterr().out == ""


def test_every_stack_is_taken():
    """The command and the estimate know the same stacks."""
    from infra.estimate.stack import STACKS as ESTIMATED

    assert STACKS == ESTIMATED
    for stack in STACKS:
        assert build_parser().parse_args(["cost", stack]).stack == stack
