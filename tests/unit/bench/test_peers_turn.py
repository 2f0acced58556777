"""One turn of a system in a process of its own: what goes in, what comes out, how it fails and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eagle3.bench.peers import turn as turns
from eagle3.bench.peers import worker
from eagle3.bench.peers.turn import take_turn
from peers_doubles import SCRIPTED, scripted_peer, task


@pytest.fixture(autouse=True)
def systems(monkeypatch, tmp_path):
    """Files of systems come from a folder of the test."""
    monkeypatch.setattr(turns, "SYSTEMS", tmp_path)
    return tmp_path


def test_every_prompt_is_answered_once_in_order(systems):
    """Answers come in the order of the prompts, each with a seed of its own; start, versions and notes are kept."""
    turn = take_turn(scripted_peer(systems), task(seed=7), round_number=3, timeout_s=60)
    assert turn.failure is None
    assert [answer.token_ids[:2] for answer in turn.answers] == [(101, 7), (102, 8)]
    assert (turn.system, turn.round, dict(turn.versions), turn.notes) == (
        "scripted", 3, {"scripted": "1.2"}, ("by heart",),
    )  # fmt: skip
    assert 0 < turn.ready_s <= turn.first_token_s <= turn.elapsed_s
    assert turn.peak_memory_mb > 0
    assert all(answer.cycles == 2 and answer.decoded == 3 for answer in turn.answers)


def test_the_clock_of_an_answer_is_the_callers(systems):
    """The whole time of an answer is measured around the system, not told by it."""
    (first, second) = take_turn(scripted_peer(systems, sleep_s=0.2), task(), round_number=1, timeout_s=60).answers
    assert min(first.total_s, second.total_s) >= 0.2
    assert first.decode_s == first.total_s


def test_the_process_sees_its_environment_and_no_setting_of_ours(systems, monkeypatch):
    """EAGLE3_* variables would say a second time what the settings say; the peer's own variables arrive."""
    monkeypatch.setenv("EAGLE3_TARGET", "elsewhere")
    peer = scripted_peer(systems)
    marked = type(peer)(
        name=peer.name, file=peer.file, python=peer.python, settings={}, environment={"MARK": "5"}
    )  # fmt: skip
    (answer, _) = take_turn(marked, task(), round_number=1, timeout_s=60).answers
    assert answer.token_ids[2:] == (0, 5)


def test_a_failing_system_is_a_turn_with_the_reason(systems):
    """What it said last is the reason; there are no answers."""
    turn = take_turn(scripted_peer(systems, fails=True), task(), round_number=1, timeout_s=60)
    assert turn.answers == ()
    assert "ended with code 1" in turn.failure
    assert "out of order" in turn.failure


def test_a_turn_has_an_end(systems):
    """A system that takes too long is ended, and that is its failure."""
    begin_s = time.monotonic()
    turn = take_turn(scripted_peer(systems, sleep_s=60), task(), round_number=1, timeout_s=1)
    assert turn.failure == "took longer than 1 s"
    assert time.monotonic() - begin_s < 30


def test_a_python_that_is_not_there(systems):
    """The reason of the operating system is the failure."""
    peer = scripted_peer(systems)
    nowhere = type(peer)(name="x", file=peer.file, python=systems / "python", settings={})
    assert "cannot be started: No such file" in take_turn(nowhere, task(), round_number=1, timeout_s=60).failure


def test_the_process_ends_when_nobody_waits_for_it(systems, tmp_path):
    """When the pipe closes, it ends at once and leaves no result; so a killed benchmark leaves no process."""
    (systems / "scripted_system.py").write_text(SCRIPTED)
    spec = {
        "system": str(systems / "scripted_system.py"), "settings": {"sleep_s": 120}, "prompts": [[1]], "warm_up": [9],
        "warm_up_tokens": 1, "max_tokens": 2, "temperature": 0.0, "seed": 0, "asked_s": time.monotonic(),
    }  # fmt: skip
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-P", worker.__file__, str(tmp_path / "spec.json"), str(tmp_path / "result.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        time.sleep(0.5)
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(30) == 1
    assert not (tmp_path / "result.json").exists()


def test_the_worker_imports_nothing_of_ours():
    """It runs under Pythons that do not have this package: its imports are the standard library's."""
    code = f"import sys; sys.argv = ['x']; import runpy; runpy.run_path({worker.__file__!r}, run_name='m'); "
    code += "print([n for n in sys.modules if n.partition('.')[0] in ('eagle3', 'torch', 'numpy')])"
    done = subprocess.run([sys.executable, "-P", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert Path(worker.__file__).name == "worker.py"
