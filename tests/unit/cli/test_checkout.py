"""Commands of a checkout: it is found, the module runs there, and output, exit code and signals pass through."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from eagle3.cli.checkout import add_settings_options, find_project, run_in_checkout, settings_words
from eagle3.errors import ConfigError


@pytest.fixture
def checkout(tmp_path):
    """A folder that looks like a checkout with the rooms `one` and `two`; `one` says what it was asked."""
    project = tmp_path / "checkout"
    for room in ("one", "two"):
        (project / "infra" / room).mkdir(parents=True)
        (project / "infra" / room / "__main__.py").write_text("", encoding="utf-8")
    (project / "cdktf.json").write_text("{}", encoding="utf-8")
    return project


def test_a_checkout_is_found_from_below(checkout):
    """Any folder inside a checkout will do, and the folder given is taken as it is."""
    deep = checkout / "docs" / "adr"
    deep.mkdir(parents=True)
    assert find_project(None, deep, "one") == find_project(None, checkout, "two") == checkout
    assert find_project(checkout, deep.parents[3], "one") == checkout


def test_a_checkout_without_the_room_is_none(checkout, tmp_path):
    """An older checkout, another project's cdktf.json, and a folder without any are refused with the remedy."""
    for given, room in ((checkout, "three"), (tmp_path, "one")):
        with pytest.raises(ConfigError, match=rf"no checkout of .*\(cdktf.json with infra/{room}\).*--project"):
            find_project(given, tmp_path, room)
    with pytest.raises(ConfigError, match="the folders above it are no checkout"):
        find_project(None, Path("/"), "one")


def test_settings_pass_on_in_their_order():
    """--set may be repeated and keeps its order; without flags nothing is passed on."""
    parser = argparse.ArgumentParser()
    add_settings_options(parser)
    assert settings_words(parser.parse_args([])) == []
    given = parser.parse_args(["--set", "a=1", "--environment", "prod", "--set", "b=2"])
    assert settings_words(given) == ["--set", "a=1", "--set", "b=2", "--environment", "prod"]


def test_the_room_runs_in_the_checkout(checkout, capfd):
    """The module's folder, words, output and exit code are those of the call."""
    (checkout / "infra" / "one" / "__main__.py").write_text(
        "import os, sys; print(os.getcwd(), *sys.argv[1:]); sys.exit(5)", encoding="utf-8"
    )
    assert run_in_checkout(checkout, "one", ["a", "b c"]) == 5
    assert capfd.readouterr().out == f"{checkout} a b c\n"


def test_a_killed_room_says_so_by_its_exit_code(checkout):
    """As in a shell: 128 and the number of the signal."""
    (checkout / "infra" / "one" / "__main__.py").write_text(
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", encoding="utf-8"
    )
    assert run_in_checkout(checkout, "one", []) == 137
