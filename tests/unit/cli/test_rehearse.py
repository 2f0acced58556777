"""`eagle3 rehearse` finds a checkout, runs the rehearsal there, and is transparent to output, exit code and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from eagle3.cli.checkout import find_project
from eagle3.cli.main import main
from eagle3.errors import ConfigError

RUNTIME = Path(__file__).parents[3] / "runtime"


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like a checkout, whose rehearsal says what it was asked."""
    rehearsal = tmp_path / "checkout" / "infra" / "rehearsal"
    rehearsal.mkdir(parents=True)
    (tmp_path / "checkout" / "cdktf.json").write_text("{}", encoding="utf-8")
    (rehearsal / "__main__.py").write_text(
        "import os, sys; print(os.getcwd(), *sys.argv[1:]); print('progress', file=sys.stderr); sys.exit(7)", "utf-8"
    )
    return tmp_path / "checkout"


def command(*words, cwd):
    """A process that runs the eagle3 command."""
    return subprocess.Popen(
        [sys.executable, "-m", "eagle3.cli.main", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(RUNTIME), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_flags_output_and_exit_code_pass_through(checkout, tmp_path):
    """The rehearsal runs in the checkout with every flag; what it says and exits with is what the command does."""
    flags = ["--environment", "prod", "--set", "a.b=1", "--set", "c=[x, y]", "--provider", "real", "--keep", "--json"]
    process = command(
        "rehearse", "large", "--project", checkout, *flags, "--provider-mirror", "m", "--timeout-s", "60", cwd=tmp_path
    )
    out, err = process.communicate(timeout=60)
    assert process.returncode == 7
    assert err == "progress\n"
    words = out.split()
    assert words[:2] == [str(checkout), "large"]
    said = " ".join(words[2:])
    for expected in (
        "--environment prod", "--set a.b=1", "--set c=[x, y]", "--provider real", "--keep", "--json", "--timeout-s 60",
        f"--provider-mirror {tmp_path / 'm'}",
    ):  # fmt: skip
        assert expected in said


def test_a_checkout_is_found_from_below(checkout):
    """Any folder inside a checkout will do, and the folder given is taken as it is."""
    deep = checkout / "docs" / "adr"
    deep.mkdir(parents=True)
    assert find_project(None, deep, "rehearsal") == find_project(None, checkout, "rehearsal") == checkout
    assert find_project(checkout, deep.parents[3], "rehearsal") == checkout


@pytest.mark.parametrize("given", [None, "elsewhere"])
def test_outside_of_a_checkout_is_one_error(tmp_path, monkeypatch, capsys, given):
    """No cdktf.json here or above, or in the folder given: exit code 2, one line with the remedy."""
    monkeypatch.chdir(tmp_path)
    code = main(["rehearse", "small", *(["--project", given] if given else [])])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1
    assert "--project" in captured.err


def test_another_projects_cdktf_json_is_no_checkout(tmp_path):
    """A folder with cdktf.json and without our rehearsal is refused; it is not searched for modules."""
    (tmp_path / "cdktf.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="no checkout of eagle3-kit"):
        find_project(tmp_path, tmp_path, "rehearsal")


@pytest.mark.parametrize("words", [["rehearse"], ["rehearse", "huge"], ["rehearse", "small", "--provider", "fake"]])
def test_bad_words_are_refused(capsys, words):
    """No stack, an unknown one, or an unknown provider: exit code 2."""
    with pytest.raises(SystemExit) as leaving:
        main(words)
    assert leaving.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_rehearsal_once(checkout, number):
    """The rehearsal gets the signal once, is waited for while it cleans up, and decides the exit code."""
    (checkout / "infra" / "rehearsal" / "__main__.py").write_text(
        textwrap.dedent("""
            import signal, sys, time
            got = []
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, frame: got.append(number))
            print("ready")
            while not got:
                time.sleep(0.02)
            time.sleep(0.3)
            print(*map(int, got))
            sys.exit(130)
        """),
        encoding="utf-8",
    )
    process = command("rehearse", "small", cwd=checkout)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, f"{int(number)}\n", "")


def test_a_rehearsal_that_is_killed_says_so_by_its_exit_code(checkout):
    """As in a shell: 128 and the number of the signal."""
    (checkout / "infra" / "rehearsal" / "__main__.py").write_text(
        "import os; print(os.getpid(), flush=True); import time; time.sleep(60)", encoding="utf-8"
    )
    process = command("rehearse", "small", cwd=checkout)
    child = int(process.stdout.readline())
    time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGKILL
