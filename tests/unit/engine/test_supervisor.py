import asyncio
import logging

import pytest

from eagle3.engine.interface import EngineState
from eagle3.engine.supervisor import Supervisor
from eagle3.errors import ConfigError, EngineUnavailableError, WeightsError
from unit.engine.supervisor_doubles import FakeChild, FakeTime, Launcher, settle


class Watched:
    """A supervisor over scripted children in fake time, with a record of what it reported."""

    def __init__(self, *script: Exception | str | None, **options: float) -> None:
        self.time = FakeTime()
        self.launcher = Launcher(script or (None,))
        self.events: list[str] = []
        self.supervisor: Supervisor[FakeChild] = Supervisor(
            self.launcher,
            start_timeout_s=options.get("start_timeout_s", 100.0),
            max_failed_starts=int(options.get("max_failed_starts", 5)),
            on_ready=lambda child: self.events.append(f"ready {self.launcher.children.index(child)}"),
            on_exit=lambda reason: self.events.append(reason),
            clock=self.time.clock,
            sleep=self.time.sleep,
        )

    async def start(self) -> None:
        await self.supervisor.start()
        await settle()

    @property
    def waits(self) -> list[float]:
        """Waiting times between starts; the other sleeps are start time-outs."""
        return [seconds for seconds in self.time.slept if seconds != 100.0]


async def test_a_child_that_answers_makes_it_ready():
    """READY comes with the child, `wait_ready` returns, nothing is restarted."""
    watched = Watched()
    assert watched.supervisor.state is EngineState.LOADING
    await watched.start()
    await watched.supervisor.wait_ready()
    assert watched.supervisor.state is EngineState.READY
    assert watched.supervisor.child is watched.launcher.children[0]
    assert watched.supervisor.restarts == 0
    assert watched.events == ["ready 0"]
    await watched.supervisor.stop()


async def test_start_twice_launches_once():
    """A second `start` does nothing, before and after the stop."""
    watched = Watched()
    await watched.start()
    await watched.start()
    await watched.supervisor.stop()
    await watched.start()
    assert len(watched.launcher.children) == 1
    assert watched.supervisor.state is EngineState.STOPPED


async def test_a_crash_is_told_once_and_followed_by_a_restart():
    """The requests of the dead child hear the reason before the next child is launched, and READY comes again."""
    watched = Watched()
    await watched.start()
    watched.launcher.children[0].die("exit code 137 (killed)")
    await settle()
    assert watched.events == ["ready 0", "the engine ended: exit code 137 (killed)"]
    assert watched.supervisor.state is EngineState.LOADING
    assert watched.supervisor.child is None
    assert "137" in (watched.supervisor.reason or "")
    assert watched.launcher.children[0].stops == 1
    await watched.time.advance(1.0)
    assert watched.supervisor.state is EngineState.READY
    assert watched.supervisor.reason is None
    assert watched.supervisor.restarts == 1
    assert watched.events[-1] == "ready 1"
    await watched.supervisor.stop()


async def test_failed_starts_wait_longer_each_and_then_give_up(caplog):
    """Waits of 1, 2, 4 and 8 seconds; the fifth failure in a row is FAILED, and `wait_ready` says why."""
    watched = Watched(EngineUnavailableError("no port"))
    with caplog.at_level(logging.ERROR):
        await watched.start()
        for seconds in (1, 2, 4, 8):
            assert watched.supervisor.state is EngineState.LOADING
            await watched.time.advance(seconds)
    assert watched.waits == [1.0, 2.0, 4.0, 8.0]
    assert len(watched.launcher.children) == 5
    assert all(child.stops == 1 for child in watched.launcher.children)
    assert watched.supervisor.state is EngineState.FAILED
    with pytest.raises(EngineUnavailableError, match=r"no port \(5 failures"):
        await watched.supervisor.wait_ready()
    assert "no port" in caplog.text


async def test_waits_are_capped():
    """After the last waiting time it repeats."""
    watched = Watched(EngineUnavailableError("no"), max_failed_starts=9)
    await watched.start()
    for _ in range(8):
        await watched.time.advance(30.0)
    assert watched.waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


@pytest.mark.parametrize("fault", [ConfigError("no such draft"), WeightsError("truncated")])
async def test_a_permanent_fault_fails_at_once(fault):
    """What another try cannot cure is not tried again; the fault is the cause of what waiters get."""
    watched = Watched(fault)
    waiter = asyncio.ensure_future(watched.supervisor.wait_ready())
    await watched.start()
    assert watched.supervisor.state is EngineState.FAILED
    assert len(watched.launcher.children) == 1
    with pytest.raises(EngineUnavailableError, match=str(fault)) as raised:
        await waiter
    assert raised.value.__cause__ is fault


async def test_a_fault_in_launch_itself_is_handled_alike():
    """`launch` may raise what `wait_ready` may."""

    async def launch() -> FakeChild:
        raise ConfigError("not installed")

    supervisor: Supervisor[FakeChild] = Supervisor(launch, start_timeout_s=1.0)
    await supervisor.start()
    with pytest.raises(EngineUnavailableError, match="not installed"):
        await supervisor.wait_ready()
    assert supervisor.state is EngineState.FAILED


async def test_a_programmers_fault_is_failed_and_logged_not_silent(caplog):
    """An exception that is no Eagle3Error leaves a traceback and the state FAILED, never a task that died unseen."""
    watched = Watched(KeyError("oops"))
    await watched.start()
    assert watched.supervisor.state is EngineState.FAILED
    assert "oops" in (watched.supervisor.reason or "")
    assert "Traceback" in caplog.text
    assert watched.launcher.children[0].stops == 1


async def test_a_child_that_never_answers_is_stopped_after_the_time_out():
    """The start may take `start_timeout_s`, not a second more; the reason names the setting."""
    watched = Watched("never", None)
    await watched.start()
    await watched.time.advance(99.0)
    assert watched.launcher.children[0].stops == 0
    await watched.time.advance(1.0)
    assert watched.launcher.children[0].stops == 1
    assert "start_timeout_s" in (watched.supervisor.reason or "")
    await watched.time.advance(1.0)
    assert watched.supervisor.state is EngineState.READY
    await watched.supervisor.stop()


async def test_a_child_that_ends_while_starting_counts_as_a_failed_start():
    """Its exit is noticed at once, without waiting for the time-out."""
    watched = Watched("never", None)
    await watched.start()
    watched.launcher.children[0].die("exit code 1")
    await settle()
    assert "exit code 1" in (watched.supervisor.reason or "")
    assert watched.events == []
    await watched.time.advance(1.0)
    assert watched.events == ["ready 1"]
    await watched.supervisor.stop()


@pytest.mark.parametrize(("lifetime_s", "expected"), [(59.0, [1.0, 2.0, 4.0]), (60.0, [1.0, 1.0, 1.0])])
async def test_only_a_stable_life_resets_the_count(lifetime_s, expected):
    """A child that lived 60 s starts the waits anew; one that lived 59 s does not."""
    watched = Watched()
    await watched.start()
    for index in range(3):
        await watched.time.advance(lifetime_s)
        watched.launcher.children[index].die("crash")
        await settle()
        await watched.time.advance(30.0)
    assert watched.waits == expected
    assert watched.supervisor.restarts == 3
    await watched.supervisor.stop()


async def test_stop_ends_the_child_and_tells_its_requests():
    """STOPPED, the child stopped, one `on_exit`, waiters get an error; a second stop changes nothing."""
    watched = Watched()
    await watched.start()
    await watched.supervisor.stop()
    await watched.supervisor.stop()
    assert watched.supervisor.state is EngineState.STOPPED
    assert watched.launcher.children[0].stops == 1
    assert watched.events == ["ready 0", "the engine was stopped"]
    with pytest.raises(EngineUnavailableError, match="stopped"):
        await watched.supervisor.wait_ready()


@pytest.mark.parametrize("script", [("never",), (EngineUnavailableError("no"),)])
async def test_stop_while_loading_or_waiting(script):
    """A stop in the middle of a start or of a wait leaves no child behind and wakes whoever waits."""
    watched = Watched(*script)
    waiter = asyncio.ensure_future(watched.supervisor.wait_ready())
    await watched.start()
    await watched.supervisor.stop()
    assert [child.stops for child in watched.launcher.children] == [1]
    with pytest.raises(EngineUnavailableError):
        await waiter


async def test_stop_before_start():
    """A supervisor that never ran can be stopped."""
    watched = Watched()
    await watched.supervisor.stop()
    assert watched.supervisor.state is EngineState.STOPPED
    assert watched.launcher.children == []
