import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from eagle3.engine import leash
from eagle3.engine.process_child import ProcessChild

GRANDCHILD = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "


async def launch(code: str, *, kill_after_s: float = 10.0, **environment: str) -> ProcessChild:
    """A Python program on a leash."""
    return await ProcessChild.launch(
        [sys.executable, "-I", "-c", code], name="child", environment=environment, kill_after_s=kill_after_s
    )


def group_of(child: ProcessChild) -> list[psutil.Process]:
    """Live processes of the child's group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == child.pid and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("", "exit code 0"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "exit code 137 (killed)"),
        ("import os; os.kill(os.getpid(), 11)", "exit code 139 (crashed)"),
        ("raise ValueError('no such file')", "exit code 1; it said: ValueError: no such file"),
    ],
)
async def test_why_it_ended(code, reason):
    """The exit code, the signal by name, and the last error of the output."""
    child = await launch(code)
    assert await asyncio.wait_for(child.wait_exit(), 10) == reason


async def test_output_goes_to_the_log_by_its_level_and_the_tail_is_bounded(caplog):
    """Warnings and errors are logged as such, the rest stays quiet; a line without end does no harm."""
    child = await launch(
        "import sys\n"
        "for i in range(100): print('INFO line', i)\n"
        "print('WARNING low memory')\n"
        "sys.stdout.write('x' * 1_000_000 + '\\n'); print('done')"
    )
    await asyncio.wait_for(child.wait_exit(), 10)
    assert [record.getMessage() for record in caplog.records] == ["child: WARNING low memory"]
    assert child.tail[-1] == "done"
    assert len(child.tail) <= 60


async def test_environment_adds_what_is_not_set(monkeypatch):
    """A variable that the user has set keeps its value."""
    monkeypatch.setenv("EAGLE3_TEST_SET", "theirs")
    child = await launch(
        "import os; print(os.environ['EAGLE3_TEST_SET'], os.environ['EAGLE3_TEST_NEW'])",
        EAGLE3_TEST_SET="ours",
        EAGLE3_TEST_NEW="new=1",
    )
    await asyncio.wait_for(child.wait_exit(), 10)
    assert list(child.tail) == ["theirs new=1"]


async def test_stop_is_gentle_first():
    """SIGTERM reaches the program itself, which may clean up."""
    child = await launch(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0)))\n"
        "print('up', flush=True); time.sleep(60)"
    )
    while not child.tail:
        await asyncio.sleep(0.02)
    await asyncio.wait_for(child.stop(), 5)
    assert list(child.tail) == ["up", "bye"]
    assert child.exit_code == 0
    await child.stop()


async def test_stop_kills_what_does_not_listen():
    """A program that ignores SIGTERM is gone after `kill_after_s`, with everything that it started."""
    child = await launch(
        GRANDCHILD + "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); "
        "time.sleep(60)",
        kill_after_s=0.3,
    )
    while not child.tail:
        await asyncio.sleep(0.02)
    assert len(group_of(child)) == 3  # leash, program, grandchild
    await asyncio.wait_for(child.stop(), 5)
    assert group_of(child) == []
    assert child.exit_code == 128 + signal.SIGKILL


async def test_what_it_started_goes_with_it():
    """A grandchild that outlives the program is killed, although it holds the output open."""
    child = await launch(GRANDCHILD)
    assert await asyncio.wait_for(child.wait_exit(), 10) == "exit code 0"
    assert group_of(child) == []


def test_it_dies_with_its_starter(tmp_path: Path):
    """SIGKILL of the process that launched it: program and grandchildren are gone within seconds."""
    pids = tmp_path / "pids"
    program = f"import os; open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); import time; time.sleep(60)"
    starter = textwrap.dedent(f"""
        import asyncio, sys
        from eagle3.engine.process_child import ProcessChild
        async def main():
            await ProcessChild.launch([sys.executable, "-I", "-c", {program!r}], name="c", environment={{}})
            await asyncio.sleep(60)
        asyncio.run(main())
    """)
    runtime = str(Path(leash.__file__).parents[2])
    process = subprocess.Popen([sys.executable, "-c", starter], env={**os.environ, "PYTHONPATH": runtime})
    deadline = time.monotonic() + 60
    while not (pids.exists() and pids.read_text().endswith(" ")) and time.monotonic() < deadline:
        time.sleep(0.05)
    pid = int(pids.read_text())
    assert psutil.pid_exists(pid)
    process.kill()
    process.wait()
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(pid)
