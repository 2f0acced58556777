"""What is wrong with a command that a document shows, as far as this project can know.

Parsers and help are asked, nothing is run. Commands of others are right by definition.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

from documents import ROOT, Command
from eagle3.cli.main import build_parser
from infra.app import STACKS
from infra.settings.load import load_settings

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([\w-]+):", MAKEFILE, flags=re.MULTILINE))
# Commands that the AWS CLI has of its own, beside those of the services' APIs, with their options.
AWS_OWN = {
    ("s3", "sync"): {"delete", "dryrun"}, ("s3", "ls"): {"recursive"}, ("s3", "cp"): set(), ("s3", "rm"): {"recursive"},
    ("ecr", "get-login-password"): set(), ("logs", "tail"): {"since", "filter-pattern", "follow"},
    ("eks", "update-kubeconfig"): {"name"}, ("sso", "login"): {"profile"}, ("configure", "list-profiles"): set(),
}  # fmt: skip
AWS_GLOBAL = {"query", "output", "region", "profile", "max-items", "no-cli-pager"}


def problems(command: Command, *, folder: Path = ROOT) -> list[str]:
    """What is wrong with a command that the project can know; nothing for commands of others."""
    if not command.words:
        return _environment_problems(command)
    program, *rest = command.words
    name = program.rpartition("/")[2]
    found = _environment_problems(command)
    if name == "eagle3":
        return found + _eagle3_problems(rest, inline=command.inline)
    if name == "make":
        return found + _make_problems(rest)
    if name == "npx":
        return found + problems(Command(tuple(word for word in rest if not word.startswith("--no-inst"))))
    if name == "cdktf":
        return found + _cdktf_problems(rest)
    if re.fullmatch(r"python[\d.]*", name):
        return found + _python_problems(rest, folder)
    if name == "aws":
        return found + _aws_problems(rest)
    return found


def _environment_problems(command: Command) -> list[str]:
    """EAGLE3KIT_ENVIRONMENT and EAGLE3KIT_SET are settings that load."""
    values = dict(command.environment)
    if not {"EAGLE3KIT_SET", "EAGLE3KIT_ENVIRONMENT"} & set(values):
        return []
    environment = values.get("EAGLE3KIT_ENVIRONMENT", "dev")
    try:
        load_settings("prod" if environment.endswith(".yaml") else environment, values.get("EAGLE3KIT_SET", ""))
    except Exception as error:
        return [str(error)]
    return []


def _eagle3_problems(words: list[str], *, inline: bool) -> list[str]:
    if inline:
        return _inline_problems(build_parser(), words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            build_parser().parse_args(words)
    except SystemExit as leaving:
        return [said.getvalue().strip().splitlines()[-1]] if leaving.code else []
    return []


def _inline_problems(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Subcommands, flags and choices; in a sentence, arguments may be left out."""
    for place, word in enumerate(words):
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if word.startswith("--"):
            if word.partition("=")[0] not in parser._option_string_actions:
                return [f"no flag {word}"]
        elif groups:
            if word == "…":
                return []
            if word not in groups[0].choices:
                return [f"no command {word}"]
            return _inline_problems(groups[0].choices[word], words[place + 1 :])
        elif place == 0 and not word.isupper() and not word.startswith("-"):
            positional = [action for action in parser._actions if not action.option_strings and action.choices]
            if positional and word not in positional[0].choices:
                return [f"{word} is none of {', '.join(positional[0].choices)}"]
    return []


def _make_problems(words: list[str]) -> list[str]:
    targets = [word for word in words if re.fullmatch(r"[a-z][\w-]*", word)]
    variables = [word.partition("=")[0] for word in words if re.match(r"[A-Z_]+=", word)]
    found = [f"no target {target}" for target in targets if target not in TARGETS]
    return found + [f"no variable {name}" for name in variables if not re.search(rf"\b{name}\b", MAKEFILE)]


def _cdktf_problems(words: list[str]) -> list[str]:
    if not words or not re.fullmatch(r"[a-z]+", words[0]):
        return []
    command, *rest = words
    stacks = [word for word in rest if re.fullmatch(r"[a-z]\w*", word)]
    flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
    found = [f"no stack {stack}" for stack in stacks if stack not in STACKS]
    if shutil.which("npx") is None or not (ROOT / "node_modules/.ready").exists():
        return found
    if f"  cdktf {command}" not in cdktf_help():
        return [*found, f"cdktf has no command {command}"]
    return found + [f"cdktf {command} has no {flag}" for flag in flags if f" {flag} " not in cdktf_help(command)]


@cache
def cdktf_help(*command: str) -> str:
    """What the real command line says about itself."""
    done = subprocess.run(
        ["npx", "--no-install", "cdktf", *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


def _python_problems(words: list[str], folder: Path) -> list[str]:
    if words[:1] == ["-m"]:
        module = words[1]
        return [] if importlib.util.find_spec(module) else [f"no module {module}"]
    if words and words[0].endswith(".py"):
        return [] if (ROOT / words[0]).is_file() or (folder / words[0]).is_file() else [f"no file {words[0]}"]
    return []


def _aws_problems(words: list[str]) -> list[str]:
    given = [word for word in words if not word.startswith("$")]
    if len(given) < 2:
        return []
    service, operation, *rest = given
    flags = [word.removeprefix("--").partition("=")[0] for word in rest if re.match(r"--[a-z]", word)]
    if (service, operation) in AWS_OWN:
        known = AWS_OWN[service, operation]
    else:
        operations = aws_operations(service)
        if operation not in operations:
            return [f"aws {service} has no {operation}"]
        known = operations[operation]
    return [f"aws {service} {operation} has no --{flag}" for flag in flags if flag not in known | AWS_GLOBAL]


@cache
def aws_operations(service: str) -> dict[str, set[str]]:
    """Operations of a service of AWS as its command line spells them, with their parameters."""
    try:
        model = botocore.session.get_session().get_service_model(service)
    except Exception:
        return {}
    found = {}
    for name in model.operation_names:
        shape = model.operation_model(name).input_shape
        members = shape.members if shape is not None else {}
        found[xform_name(name, "-")] = {xform_name(member, "-") for member in members}
    return found
