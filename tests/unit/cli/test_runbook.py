"""`eagle3 runbook` runs in a checkout and passes on every flag, its output and its exit code."""

from __future__ import annotations

import pytest

from eagle3.cli.main import main

ECHO = "import sys; print(*sys.argv[1:]); print('asked', file=sys.stderr); sys.exit(3)"


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like a checkout, whose diagnosis says what it was asked."""
    room = tmp_path / "infra" / "diagnosis"
    room.mkdir(parents=True)
    (tmp_path / "cdktf.json").write_text("{}", encoding="utf-8")
    (room / "__main__.py").write_text(ECHO, encoding="utf-8")
    return tmp_path


CASES = (
    "list",
    "list --json",
    "show no-data",
    "show no-data --site a-b-small",
    "diagnose budget",
    "diagnose no-data --site a-b-small --region r --profile p --url http://h --since 2h --json",
    "diagnose no-data --context c --namespace n --kubeconfig /k/c --between-s 2.5",
)


@pytest.mark.parametrize("words", CASES)
def test_passes_through(words, checkout, capfd):
    """What is given is passed on, and nothing else: defaults are the room's."""
    assert main(["runbook", *words.split(), "--project", str(checkout)]) == 3
    out, err = capfd.readouterr()
    assert out.strip() == words
    assert err == "asked\n"


def test_relative_kubeconfig_is_that_of_the_caller(checkout, capfd, monkeypatch, tmp_path):
    """A relative path is meant from where the command was typed, not from the checkout."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["runbook", "diagnose", "no-data", "--kubeconfig", "k", "--project", str(checkout)]) == 3
    assert str(tmp_path / "elsewhere" / "k") in capfd.readouterr().out


def test_outside_a_checkout(tmp_path, capfd, monkeypatch):
    """Without a checkout it is one line and exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert main(["runbook", "list"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "no checkout of eagle3-kit" in err


@pytest.mark.parametrize("words", ["", "explain", "show", "diagnose"])
def test_incomplete(words, capfd):
    """An action and an alarm are asked for by the parser."""
    with pytest.raises(SystemExit) as ended:
        main(["runbook", *words.split()])
    assert ended.value.code == 2
