"""Parsed flags to settings: the deployment config, sampling parameters, the settings of a command."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from eagle3.cli.options import MODEL_FLAGS
from eagle3.config.deployment import DeploymentConfig
from eagle3.config.layers import layered_config
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.sampling.params import SamplingParams, describe, sampling_params

Settings = TypeVar("Settings", bound=BaseModel)


def check_above_zero(values: Mapping[str, float | None]) -> None:
    """ConfigError for the first flag whose value was given and is not above 0."""
    for flag, value in values.items():
        if value is not None and not value > 0:
            raise ConfigError(f"{flag} must be above 0; got {value}")


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
    settings = MODEL_FLAGS | dict(more)
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
