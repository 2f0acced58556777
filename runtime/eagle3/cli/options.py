"""Flags that several commands share, and how they become settings."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from eagle3.config.deployment import EMBEDDED, DeploymentConfig
from eagle3.config.layers import layered_config
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.sampling.params import SamplingParams, describe, sampling_params

Settings = TypeVar("Settings", bound=BaseModel)

# Setting: (attribute of the parsed arguments, flag).
_MODEL_FLAGS = {
    "target": ("target", "--target"),
    "draft": ("draft", "--draft"),
    "dtype": ("dtype", "--dtype"),
    "device": ("device", "--device"),
    "threads": ("threads", "--threads"),
    "speculation.depth": ("depth", "--tree-depth"),
    "speculation.top_k": ("top_k", "--tree-top-k"),
    "speculation.nodes": ("nodes", "--tree-nodes"),
}


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """--config, --target, --draft, --dtype, --device, --threads and the shape of the tree."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file of settings; EAGLE3_* variables and flags override it"
    )
    group.add_argument(
        "--target", metavar="PATH", help=f"model directory or .gguf file (default: {EMBEDDED}, SmolLM2-135M-Instruct)"
    )
    group.add_argument("--draft", metavar="PATH", help="EAGLE-3 draft directory (default: the one of the target)")
    group.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="of the weights (default: float32)")
    group.add_argument("--device", metavar="DEVICE", help="torch device (default: cpu)")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: torch's choice)")
    shape = parser.add_argument_group("draft tree")
    shape.add_argument("--tree-depth", dest="depth", type=int, metavar="N", help="levels below the root (default: 5)")
    shape.add_argument("--tree-top-k", dest="top_k", type=int, metavar="N", help="children per node (default: 6)")
    shape.add_argument("--tree-nodes", dest="nodes", type=int, metavar="N", help="nodes per cycle (default: 16)")


def deployment_config(
    args: argparse.Namespace,
    environ: Mapping[str, str] = os.environ,
    *,
    more: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> DeploymentConfig:
    """The config file, if any, the EAGLE3_* variables over it, the flags on top; ConfigError names what is bad.

    `more` are settings that a command has flags for besides those of `add_model_flags`, as in
    {"serving.port": ("port", "--port")}: the setting, its attribute in `args`, the flag.
    """
    flags: dict[str, Any] = {}
    settings = _MODEL_FLAGS | dict(more)
    for setting, (attribute, _) in settings.items():
        if (value := getattr(args, attribute)) is not None:
            *sections, key = setting.split(".")
            place = flags
            for section in sections:
                place = place.setdefault(section, {})
            place[key] = value
    names = {setting: flag for setting, (_, flag) in settings.items()}
    return layered_config(args.config, environ, flags, flag_names=names)


def without_reuse(config: DeploymentConfig) -> DeploymentConfig:
    """The same with no reuse of prompts: of two answers to one prompt, the second would have it for nothing."""
    return config.model_copy(update={"engine": config.engine.model_copy(update={"prefix_reuse": False})})


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    """One flag for each sampling parameter."""
    group = parser.add_argument_group("sampling")
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="tokens generated at most (default: 128)")
    group.add_argument("--min-new-tokens", type=int, metavar="N", help="tokens before the text may end (default: 0)")
    group.add_argument("--temperature", type=float, metavar="T", help="0 takes the most probable token (default: 0)")
    group.add_argument("--top-k", dest="sample_top_k", type=int, metavar="N", help="tokens kept; 0: all (default: 0)")
    group.add_argument("--top-p", type=float, metavar="P", help="probability mass kept, above 0 up to 1 (default: 1)")
    group.add_argument("--min-p", type=float, metavar="P", help="least share of the top probability (default: 0)")
    group.add_argument("--repetition-penalty", type=float, metavar="R", help="above 0; 1 is none (default: 1)")
    group.add_argument("--presence-penalty", type=float, metavar="R", help="-2 to 2 (default: 0)")
    group.add_argument("--frequency-penalty", type=float, metavar="R", help="-2 to 2 (default: 0)")
    group.add_argument("--seed", type=int, metavar="N", help="makes sampled text repeatable (default: random)")
    group.add_argument("--stop", action="append", metavar="TEXT", help="text that ends the answer; may be repeated")
    group.add_argument("--stop-token-id", action="append", type=int, metavar="ID", help="may be repeated")
    group.add_argument("--ignore-eos", action="store_true", default=None, help="go on past end-of-text tokens")
    group.add_argument("--logprobs", type=int, metavar="N", help="report N alternatives per token (0 to 20)")
    group.add_argument("--json-schema", type=Path, metavar="FILE", help="JSON schema that the answer must match")
    group.add_argument("-n", type=int, metavar="N", help="answers per prompt (default: 1)")


def params_from(args: argparse.Namespace) -> SamplingParams:
    """Sampling parameters from the flags that were given; InvalidInputError for anything out of range."""
    names = {
        name: name
        for name in (
            "max_new_tokens", "min_new_tokens", "temperature", "top_p", "min_p", "repetition_penalty",
            "presence_penalty", "frequency_penalty", "seed", "stop", "ignore_eos", "logprobs", "n",
        )
    } | {"sample_top_k": "top_k", "stop_token_id": "stop_token_ids"}  # fmt: skip
    given = {name: getattr(args, flag) for flag, name in names.items() if getattr(args, flag) is not None}
    if args.json_schema is not None:
        given["json_schema"] = _read_text(args.json_schema)
    return sampling_params(**given)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 text: {error}") from error


def validated(schema: type[Settings], values: dict[str, Any]) -> Settings:
    """Settings of a command from its flags; ConfigError names the first bad one."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe(error)) from error
