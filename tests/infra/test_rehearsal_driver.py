"""The rehearsal, with scripted `cdktf` and `terraform`: its order, its claims, its cleanliness."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from eagle3.errors import ConfigError
from infra.rehearsal.driver import rehearse
from infra.rehearsal.failure import RehearsalError, first_error
from infra.rehearsal.graph import find_cycle
from infra.rehearsal.local_aws import Item
from infra.rehearsal.progress import Progress
from rehearsal_doubles import DEPLOYED, DESTROYED, EMPTY_PLAN, REFUSED, Checkout

QUEUE = Item(service="sqs", region="eu-west-1", type="Queue", key="queues/q", name="q")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A scripted checkout; temporary folders go below it, so that what is left of them shows."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "checkout").mkdir()
    return Checkout(tmp_path / "checkout")


def left_behind(checkout):
    return sorted(path.name for path in (checkout.folder.parent / "tmp").iterdir())


def test_a_rehearsal_runs_everything_in_order_and_leaves_nothing(checkout):
    """Synth, provider, deploy, validate, graph, second plan, destroy, leftovers; the report counts what was done."""
    report = rehearse(checkout.request(), checkout.around())
    assert checkout.commands() == [
        "cdktf synth", "terraform init", "cdktf deploy", "terraform validate", "terraform graph", "terraform plan",
        "terraform show", "cdktf destroy",
    ]  # fmt: skip
    assert (report.created, report.changed, report.destroyed) == (2, 0, 2)
    assert report.types == {"aws_sqs_queue": 1, "aws_sns_topic": 1}
    assert report.provider == "stand-in for hashicorp/aws 6.25.0 (hashicorp/aws 6.25.0 cannot be downloaded here)"
    assert list(report.seconds) == [
        "synthesize", "provider", "deploy", "validate", "graph", "plan again", "destroy", "leftovers",
    ]  # fmt: skip
    assert checkout.cloud.stopped
    assert left_behind(checkout) == []
    assert "second plan            no change" in report.as_text()
    assert json.loads(json.dumps(report.as_json()))["destroyed"] == 2


def test_progress_is_whole_lines_where_there_is_no_terminal(checkout):
    """One line a phase and the provider; no bar, no cursor movement."""
    rehearse(checkout.request(), checkout.around())
    lines = checkout.stream.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "synthesize", "provider", "provider", "deploy", "validate", "graph", "plan again", "destroy", "leftovers",
    ]  # fmt: skip
    assert "\x1b" not in checkout.stream.getvalue()
    assert "\r" not in checkout.stream.getvalue()


def test_the_stack_is_made_local(checkout):
    """The copy keeps state in the rehearsal's folder, and its providers have no account of the user's."""
    report = rehearse(checkout.request(keep=True), checkout.around())
    document = json.loads((report.kept / "cdktf.out/stacks/small/cdk.tf.json").read_text(encoding="utf-8"))
    assert document["terraform"]["backend"] == {"local": {"path": str(report.kept / "terraform.tfstate")}}
    assert document["provider"]["aws"][0] == {"region": "eu-west-1", "max_retries": 3}
    assert (report.kept / "rehearsal.log").stat().st_size


def test_commands_see_nothing_of_the_user(checkout):
    """No credentials, profile, home or Terraform settings of the user; AWS is the local one, in the stack's region."""
    rehearse(checkout.request(), checkout.around())
    calls = {f"{call['program']} {call['words'][0]}": call["environment"] for call in checkout.calls()}
    for name in ("cdktf deploy", "terraform plan", "cdktf destroy"):
        seen = calls[name]
        assert "AWS_PROFILE" not in seen
        assert seen["AWS_ACCESS_KEY_ID"] == "rehearsal"
        assert seen["AWS_ENDPOINT_URL"] == checkout.cloud.url
        assert seen["AWS_REGION"] == "eu-west-1"
        assert seen["AWS_EC2_METADATA_DISABLED"] == "true"
        assert seen["HOME"] != "/home/somebody"
        assert not Path(seen["AWS_CONFIG_FILE"]).exists()
        assert seen["CHECKPOINT_DISABLE"] == "1"
        assert seen["CDKTF_DISABLE_PLUGIN_CACHE_ENV"] == "1"
        assert "mine.rc" not in seen["TF_CLI_CONFIG_FILE"]
        assert seen["EAGLE3KIT_STACKS"] == "small"
        assert seen["EAGLE3KIT_ENVIRONMENT"] == "prod"
        assert seen["EAGLE3KIT_SET"] == "state.backend=local"
    # Whether the real provider can be had is asked with the user's own mirrors and proxies.
    assert calls["terraform init"]["TF_CLI_CONFIG_FILE"] == "/home/somebody/mine.rc"
    # Every region that a provider of the stack works in is looked at.
    assert checkout.cloud.asked == [("eu-west-1", "us-east-1")] * 2


def test_a_failed_deploy_names_the_resource_and_keeps_the_log(checkout):
    """Address and first error in one line; the log is kept and named, the folder is not; nothing else is tried."""
    checkout.answer("cdktf deploy", REFUSED, 1)
    with pytest.raises(RehearsalError) as failing:
        rehearse(checkout.request(), checkout.around())
    message = str(failing.value)
    assert failing.value.resource == "aws_sqs_queue.Queue"
    assert message.startswith("cdktf deploy small failed at aws_sqs_queue.Queue: Could not create aws_sqs_queue ")
    assert "CreateQueue operation: A queue already exists" in message
    assert "aws_sns_topic" not in message
    [log] = left_behind(checkout)
    assert message.endswith(f"log: {checkout.folder.parent / 'tmp' / log}")
    assert "A queue already exists" in (checkout.folder.parent / "tmp" / log).read_text(encoding="utf-8")
    assert checkout.commands()[-1] == "cdktf deploy"
    assert checkout.cloud.stopped
    assert "deploy: failed" in checkout.stream.getvalue()


def test_a_deploy_that_says_nothing_is_no_success(checkout):
    """Exit code 0 without Terraform's last line proves nothing."""
    checkout.answer("cdktf deploy", "hello")
    with pytest.raises(RehearsalError, match="named no error; its last line: hello"):
        rehearse(checkout.request(), checkout.around())


def test_a_second_plan_with_changes_fails_and_names_them(checkout):
    """What the plan would change is named by address, action and attribute."""
    change = {"actions": ["update"], "before": {"name": "q", "delay": 1}, "after": {"name": "q", "delay": 2}}
    drift = {"address": "aws_sqs_queue.Queue", "change": change}
    checkout.answers["plan"] = {"resource_changes": [drift], "output_changes": {"Url": {"actions": ["create"]}}}
    checkout.answer("terraform plan", "", 2)
    with pytest.raises(RehearsalError) as failing:
        rehearse(checkout.request(), checkout.around())
    assert failing.value.resource == "aws_sqs_queue.Queue"
    assert "aws_sqs_queue.Queue update (delay); output.Url create" in str(failing.value)


def test_a_plan_without_changes_passes(checkout):
    """The pair of the test above: exit code 0 is a plan without changes."""
    checkout.answers["plan"] = EMPTY_PLAN
    checkout.answer("terraform plan", "No changes.")
    assert rehearse(checkout.request(), checkout.around()).created == 2


def test_leftovers_fail(checkout):
    """What the local AWS holds after destroy and did not hold before is named."""
    checkout.cloud.after = frozenset({QUEUE})
    with pytest.raises(RehearsalError, match="after destroy the local AWS still holds sqs Queue q; log:"):
        rehearse(checkout.request(), checkout.around())


@pytest.mark.parametrize(
    ("text", "claim"),
    [("Destroy complete! Resources: 1 destroyed.", "2 were created, 1 destroyed"), ("", "named no error")],
)
def test_an_incomplete_destroy_fails(checkout, text, claim):
    """As many resources go as came."""
    checkout.answer("cdktf destroy", text)
    with pytest.raises(RehearsalError, match=claim):
        rehearse(checkout.request(), checkout.around())


def test_a_resource_that_is_not_created_fails(checkout):
    """Every resource that the stack declares is created."""
    checkout.answer("cdktf deploy", DEPLOYED.replace("2 added", "1 added"))
    checkout.answer("cdktf destroy", DESTROYED.replace("2 destroyed", "1 destroyed"))
    with pytest.raises(RehearsalError, match="declares 2 resources, 1 were created"):
        rehearse(checkout.request(), checkout.around())


def test_d26_a_cycle_in_the_graph_fails(checkout):
    """D26: a graph with a cycle is refused and the cycle is named."""
    checkout.answer("terraform graph", 'digraph {\n"a" -> "b"\n"b" -> "c"\n"c" -> "b"\n}')
    with pytest.raises(RehearsalError, match="the graph has a cycle: b -> c -> b"):
        rehearse(checkout.request(), checkout.around())


@pytest.mark.parametrize("command", ["terraform validate", "terraform graph", "terraform plan", "terraform show"])
def test_every_failing_command_is_named(checkout, command):
    """The phase and the error are in the message."""
    checkout.answer(command, "Error: it does not work\n\nbecause", 1)
    with pytest.raises(RehearsalError, match=f"{command} failed: it does not work because"):
        rehearse(checkout.request(), checkout.around())


def test_settings_that_the_app_refuses_are_bad_input(checkout):
    """The app's own line is the message, and bad input exits with 2."""
    checkout.answer("cdktf synth", "Error: non-zero exit code 2\nCommand output:\n   eagle3-kit: budget is 0\n", 1)
    with pytest.raises(ConfigError, match=r"^budget is 0$"):
        rehearse(checkout.request(), checkout.around())
    assert checkout.cloud.stopped
    assert left_behind(checkout) == []


def test_the_real_provider_is_taken_where_terraform_can_download_it(checkout):
    """A download that works is used; the stand-in is not installed."""
    checkout.answer("terraform init", "- Installing hashicorp/aws v6.25.0...")
    assert rehearse(checkout.request(), checkout.around()).provider == "hashicorp/aws 6.25.0"


def test_the_real_provider_can_be_insisted_on(checkout):
    """Asked for and not to be had: an error with Terraform's reason and the way out."""
    checkout.answer("terraform init", "Error: could not connect\n", 1)
    with pytest.raises(RehearsalError, match="could not connect; try --provider stand-in"):
        rehearse(checkout.request(provider="real"), checkout.around())
    assert "cdktf deploy" not in checkout.commands()


def test_a_registry_that_does_not_answer_is_not_waited_for(checkout, monkeypatch):
    """A download that has not begun after a few seconds is given up."""
    monkeypatch.setattr("infra.rehearsal.provider_source._REACHABLE_S", 0.5)
    checkout.answer("terraform init", "Initializing provider plugins...", 0, sleep_s=60)
    start_s = time.monotonic()
    assert rehearse(checkout.request(), checkout.around()).provider.startswith("stand-in")
    assert time.monotonic() - start_s < 30


def test_the_real_provider_is_not_tried_where_the_local_aws_lacks_something(checkout):
    """What the local AWS lacks is recorded by the stand-in, and would stop the real provider; the report says so."""
    checkout.lacking["aws_sns_topic"] = "no topics here"
    checkout.answer("terraform init", "- Installing hashicorp/aws v6.25.0...")
    report = rehearse(checkout.request(), checkout.around())
    assert report.provider == "stand-in for hashicorp/aws 6.25.0 (the real provider would fail at aws_sns_topic)"
    assert "terraform init" not in checkout.commands()


def test_the_stand_in_can_be_asked_for(checkout):
    """Nothing is asked of a registry then."""
    report = rehearse(checkout.request(provider="stand-in"), checkout.around())
    assert report.provider == "stand-in for hashicorp/aws 6.25.0"
    assert "terraform init" not in checkout.commands()


@pytest.mark.parametrize(("versions", "taken"), [(["5.100.0", "5.9.0"], "5.100.0"), (["5.100.0", "6.25.0"], "6.25.0")])
def test_a_mirror_of_another_version_rewrites_the_copy_and_says_so(checkout, tmp_path, versions, taken):
    """The pinned version is taken if it is there, else the newest, which the report says."""
    for version in versions:
        (tmp_path / "mirror/registry.terraform.io/hashicorp/aws" / version / "linux_amd64").mkdir(parents=True)
    report = rehearse(checkout.request(provider_mirror=tmp_path / "mirror", keep=True), checkout.around())
    document = json.loads((report.kept / "cdktf.out/stacks/small/cdk.tf.json").read_text(encoding="utf-8"))
    assert document["terraform"]["required_providers"]["aws"]["version"] == taken
    assert report.provider.startswith(f"hashicorp/aws {taken}")
    assert ("the stack pins 6.25.0" in report.provider) == (taken != "6.25.0")


def test_an_empty_mirror_is_bad_input(checkout, tmp_path):
    """A folder without a provider for this machine."""
    with pytest.raises(ConfigError, match="no provider for linux_amd64"):
        rehearse(checkout.request(provider_mirror=tmp_path), checkout.around())


def remove(path):
    path.unlink()


@pytest.mark.parametrize(
    ("name", "break_it", "message"),
    [
        ("terraform", lambda c: remove(c.programs / "terraform"), r"no terraform on the PATH; install Terraform 1.10"),
        ("node", lambda c: remove(c.programs / "node"), r"no node on the PATH; install Node.js 20.9"),
        ("cdktf", lambda c: remove(c.folder / "node_modules/.bin/cdktf"), "run `npm ci`"),
        ("cdktf.json", lambda c: remove(c.folder / "cdktf.json"), "run this in a checkout"),
        ("old terraform", lambda c: c.answer("terraform version", '{"terraform_version": "1.9.8", "platform": "x"}'),
         r"Terraform must be 1.10 or newer; got 1.9.8"),
        ("old node", lambda c: c.answer("node --version", "v18.1.0"), r"Node.js must be 20.9 or newer; got v18.1.0"),
        ("no terraform", lambda c: c.answer("terraform version", "I am a teapot"), "is no Terraform"),
        ("app", lambda c: (c.folder / "cdktf.json").write_text('{"app": ".venv/bin/python -m infra"}', "utf-8"),
         "run `make venv`"),
        ("no app", lambda c: (c.folder / "cdktf.json").write_text("[]", "utf-8"), "names no `app`"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value[:3] else None,
)  # fmt: skip
def test_what_is_missing_is_one_error(checkout, monkeypatch, name, break_it, message):
    """Each tool that is missing, too old or something else is bad input with its remedy, before anything starts."""
    break_it(checkout)
    around = checkout.around()
    monkeypatch.setattr(Checkout, "environ", {"PATH": str(checkout.programs)})
    surroundings = type(around)(
        environ={"PATH": str(checkout.programs)},
        progress=around.progress,
        start_aws=around.start_aws,
        install_stand_in=around.install_stand_in,
        lacking=around.lacking,
    )
    with pytest.raises(ConfigError, match=message):
        rehearse(checkout.request(), surroundings)
    assert checkout.commands() == []
    assert not checkout.cloud.stopped
    assert left_behind(checkout) == []


def test_a_missing_package_is_one_error(checkout, monkeypatch):
    """Without the packages of the extra `infra` there is one line that names it."""
    monkeypatch.setattr("infra.rehearsal.tools._PACKAGES", {"no_such_module": "moto[server]"})
    with pytest.raises(ConfigError, match=r"moto\[server\] is missing; run `make venv`, or `pip install"):
        rehearse(checkout.request(), checkout.around())


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition, seconds=30.0):
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about"
        time.sleep(0.05)


@pytest.mark.parametrize("phase", ["synth", "deploy"])
def test_an_interrupted_rehearsal_stops_what_it_started(checkout, phase):
    """Ctrl-C in the middle: the command is gone, the local AWS is stopped, nothing is left on disk."""
    checkout.answer(f"cdktf {phase}", DEPLOYED if phase == "deploy" else "", 0, sleep_s=120)

    def interrupt():
        wait_for(lambda: f"cdktf {phase}" in checkout.commands())
        os.kill(os.getpid(), signal.SIGINT)

    # A process started in the background of a shell ignores Ctrl-C, and so would this one.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            rehearse(checkout.request(), checkout.around())
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert not alive(checkout.calls()[-1]["pid"])
    assert checkout.cloud.stopped
    assert left_behind(checkout) == []


def test_a_rehearsal_that_takes_too_long_is_stopped(checkout):
    """The limit holds for all of it; the command that used it up is named."""
    checkout.answer("cdktf deploy", "small  Plan: 2 to add, 0 to change, 0 to destroy.", 0, sleep_s=120)
    with pytest.raises(RehearsalError, match="cdktf deploy had not ended after"):
        rehearse(checkout.request(timeout_s=4.0), checkout.around())
    assert not alive(checkout.calls()[-1]["pid"])
    assert checkout.cloud.stopped


def test_grandchildren_are_stopped_too(tmp_path):
    """What a command started itself, and left behind, goes with it."""
    from infra.rehearsal.process import Commands

    script = "import subprocess, sys; print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid)"
    with (tmp_path / "log").open("w") as log:
        commands = Commands(log=log, deadline_s=time.monotonic() + 30)
        done = commands.run([sys.executable, "-c", script], folder=tmp_path, environment=dict(os.environ))
    wait_for(lambda: not alive(int(done.lines[0])))


@pytest.mark.parametrize(
    ("words", "code"), [(["huge"], 2), (["small", "--timeout-s", "0"], 2), (["small", "--provider", "x"], 2)]
)
def test_bad_words_exit_with_2(tmp_path, words, code):
    """An unknown stack, a limit of nothing, an unknown provider: exit code 2, nothing on stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "infra.rehearsal", *words],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr


def test_the_two_commands_have_the_same_flags():
    """`eagle3 rehearse` and what it runs agree on flags, defaults and choices; --project is the first one's own."""
    from eagle3.cli.main import build_parser as product
    from infra.rehearsal.cli import build_parser as own

    def flags(parser):
        return {
            (action.dest, tuple(action.option_strings), str(action.default), tuple(action.choices or ()), action.help)
            for action in parser._actions
            if action.dest not in ("help", "project")
        }

    [commands] = [action for action in product()._actions if action.dest == "command"]
    assert flags(commands.choices["rehearse"]) == flags(own())


def test_a_graph_without_a_cycle_has_none():
    """Diamonds and repeated edges are no cycles; a node that leads to itself is one."""
    assert find_cycle(['"a" -> "b"', '"a" -> "c"', '"b" -> "d"', '"c" -> "d"', '"a" -> "b"']) == ()
    assert find_cycle(['"a" -> "a"']) == ("a", "a")


def test_the_first_error_is_found_in_colours_and_boxes():
    """Terraform's boxes and colours are taken off, and places in generated files left out."""
    lines = [
        "\x1b[31m╷\x1b[0m",
        "\x1b[31m│\x1b[0m \x1b[1mError: \x1b[0mInvalid reference",
        "│ ",
        "│   on cdk.tf.json line 3, in resource.aws_sqs_queue.Queue:",
        '│    3: "name": 1',
        "│ ",
        "│ No such thing",
        "╵",
    ]
    error = first_error(lines)
    assert (error.text, error.resource) == ("Invalid reference No such thing", None)
    assert first_error(["all is well"]) is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_a_bar_on_a_terminal(checkout):
    """A terminal gets the time while nothing is countable, and resources done of resources planned while deploying."""
    checkout.stream = Terminal()
    checkout.answer("cdktf deploy", DEPLOYED, 0, sleep_s=1.5)
    rehearse(checkout.request(), checkout.around())
    shown = checkout.stream.getvalue()
    assert "\rdeploy [00:0" in shown
    assert "2/2" in shown
    assert "deploy: done" in shown


def test_an_error_passes_through_a_phase_and_is_shown():
    """A failed phase is told as failed, an interrupted one as stopped, and neither counts as done."""
    stream = io.StringIO()
    progress = Progress(stream, clock=iter(range(10)).__next__)
    with pytest.raises(RehearsalError), progress.phase("deploy"):
        raise RehearsalError("no")
    with pytest.raises(KeyboardInterrupt), progress.phase("destroy"):
        raise KeyboardInterrupt
    with progress.phase("leftovers"):
        progress.advance()
    assert stream.getvalue() == "deploy: failed (1.0 s)\ndestroy: stopped (1.0 s)\nleftovers: done (1.0 s)\n"
    assert progress.seconds == {"leftovers": 1}
