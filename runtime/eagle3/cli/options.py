"""Flags that several commands share, and how they become settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from eagle3.config.deployment import EMBEDDED, DeploymentConfig, load_config, parse_config
from eagle3.errors import ConfigError
from eagle3.sampling.params import SamplingParams, describe, sampling_params

Settings = TypeVar("Settings", bound=BaseModel)

_SPECULATION_FLAGS = ("depth", "top_k", "nodes")


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """--config, --target, --draft, --dtype, --device, --threads and the shape of the tree."""
    group = parser.add_argument_group("model")
    group.add_argument("--config", type=Path, metavar="FILE", help="YAML file with these settings; flags override it")
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


def deployment_config(args: argparse.Namespace) -> DeploymentConfig:
    """The config file, if any, with the flags on top; ConfigError for anything out of range."""
    base = load_config(args.config) if args.config else DeploymentConfig()
    values: dict[str, Any] = base.model_dump()
    for name in ("target", "draft", "dtype", "device", "threads"):
        if getattr(args, name) is not None:
            values[name] = getattr(args, name)
    # A target of one's own has no default draft: the embedded draft belongs to the embedded target.
    if values["target"] != EMBEDDED and values["draft"] == EMBEDDED:
        values["draft"] = None
    for name in _SPECULATION_FLAGS:
        if getattr(args, name) is not None:
            values["speculation"][name] = getattr(args, name)
    return parse_config(values, source="flags")


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
    return sampling_params(**given)


def validated(schema: type[Settings], values: dict[str, Any]) -> Settings:
    """Settings of a command from its flags; ConfigError names the first bad one."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe(error)) from error
