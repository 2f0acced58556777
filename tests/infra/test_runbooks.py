"""Every alarm has its runbook and every runbook its alarm; what they say can be typed."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

from infra.diagnosis.page import Page
from infra.diagnosis.rules import RULES
from infra.observability.alarm_catalogue import ALARMS, BUDGET, runbook_index
from infra.settings.root import ClusterStackSettings, EndpointStackSettings, Settings

FOLDER = Path(__file__).parents[2] / "docs" / "runbooks"
BOOKS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
# Commands that the AWS CLI has of its own, beside those of the services, with their options.
CLI_OWN = {("logs", "tail"): {"since", "filter-pattern"}, ("eks", "update-kubeconfig"): {"name"}}
CLI_GLOBAL = {"query", "output", "max-results", "region"}


def test_each_alarm_has_one_and_each_has_an_alarm():
    """The files are exactly the alarms, and the budget's."""
    assert {path.stem for path in BOOKS} == {alarm.name for alarm in ALARMS} | {BUDGET}


def test_index_is_the_catalogue():
    """The table of the index is generated from the catalogue: names, severity and meaning."""
    assert (FOLDER / "README.md").read_text(encoding="utf-8").endswith(runbook_index())


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_answers_the_questions_of_the_night(path):
    """A runbook says what it means, whether users see it, how to look, what to do first and how to undo it."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {path.stem}\n")
    for part in ("**Means**:", "**Users see it**:", "**Severity**:", "\n## See\n", "\n## Do first\n", "\n## Undo\n"):
        assert part in text
    [severity] = re.findall(r"\*\*Severity\*\*:\s+(page|ticket)", text)
    expected = {alarm.name: alarm.severity for alarm in ALARMS} | {BUDGET: "ticket"}
    assert severity == expected[path.stem]
    assert ("**Ends a deployment**" in text) == any(alarm.name == path.stem and alarm.rollback for alarm in ALARMS)


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_causes_are_those_of_the_rules(path):
    """Each cause that a diagnosis can name is a row of the page, with what to do then, and each row has its rule."""
    steps = Page.read(FOLDER.parents[1], path.stem).steps()
    assert set(steps) == {rule.cause for rule in RULES[path.stem]}
    assert all(len(then) > 10 for then in steps.values())


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_says_how_it_is_diagnosed(path):
    """The first line below "See" is the command that does the looking."""
    text = path.read_text(encoding="utf-8")
    assert f'## See\n\n`eagle3 runbook diagnose {path.stem} --site "$SITE"`' in text


@pytest.mark.parametrize("path", [*BOOKS, FOLDER / "README.md"], ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    """A relative link leads to a file."""
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
        assert (FOLDER / target).exists(), target


@cache
def operation(service, command):
    """Options of an operation of a service, as the AWS CLI writes them."""
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    assert command in names, f"{service} has no {command}"
    shape = model.operation_model(names[command]).input_shape
    return {xform_name(member, "-") for member in (shape.members if shape else ())}


def aws_commands(text):
    """Service, operation and options of every `aws` command, in blocks and between backticks."""
    parts = text.split("```")
    shell = [re.sub(r"\\\n\s*", " ", block) for block in parts[1::2]]
    shell += [code.replace("\n", " ") for prose in parts[::2] for code in re.findall(r"`([^`]+)`", prose)]
    for line in "\n".join(shell).splitlines():
        for command in re.split(r"(?=\baws [a-z])", line):
            if match := re.match(r"aws ([a-z0-9-]+) ([a-z0-9-]+)", command):
                yield match[1], match[2], set(re.findall(r"--([a-z][a-z0-9-]+)", command))


@pytest.mark.parametrize("path", [*BOOKS, FOLDER / "README.md"], ids=lambda path: path.stem)
def test_aws_commands_exist(path):
    """Every `aws` command names an operation that AWS has, with options that it takes."""
    commands = list(aws_commands(path.read_text(encoding="utf-8")))
    assert commands
    for service, command, options in commands:
        allowed = CLI_OWN.get((service, command))
        allowed = (operation(service, command) if allowed is None else allowed) | CLI_GLOBAL
        assert options <= allowed, f"aws {service} {command}: {sorted(options - allowed)}"


@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_settings_that_are_named_exist(path):
    """A key in a runbook is a key of the settings: of the environment, or of a stack."""
    roots = {"alarms", "budget", "deployment", "edge", "endpoint", "network"}
    for dotted in re.findall(r"`([a-z_]+(?:\.[a-z0-9_]+)+)", path.read_text(encoding="utf-8")):
        if dotted.split(".")[0] not in roots:
            continue
        assert any(
            resolves(model, dotted.split(".")) for model in (Settings, EndpointStackSettings, ClusterStackSettings)
        )


def resolves(model, parts):
    """Whether a path of keys leads through the sections to a field."""
    for part in parts:
        field = getattr(model, "model_fields", {}).get(part)
        if field is None:
            return False
        model = field.annotation
    return True
