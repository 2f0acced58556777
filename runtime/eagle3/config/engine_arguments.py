"""Command lines and environment of vLLM and SGLang, made from a deployment config; nothing of theirs is typed twice.

Starts nothing and knows no processes. Invariant: every setting of the config either shows in the command or is
named in `EngineCommand.notes`. vLLM counts levels; SGLang's `num_draft_tokens` counts the root as well.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from eagle3.config.speculation import Speculation
from eagle3.errors import ConfigError

_CPU_MEMORY_SHARE = "0.25"


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineCommand:
    """What to run, and what the user should know about it."""

    arguments: tuple[str, ...]
    """The program first."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables to set where they are not set already."""
    notes: tuple[str, ...] = ()
    """Settings that this engine cannot honour."""


def vllm_command(
    config: DeploymentConfig,
    *,
    target: str,
    draft: str | None,
    port: int,
    model_name: str,
    context_tokens: int | None = None,
    bytes_per_token: int | None = None,
    without: frozenset[str] = frozenset(),
) -> EngineCommand:
    """`vllm serve` for a config whose target and draft lie at `target` and `draft`.

    `bytes_per_token` is what one token takes in the cache (it turns `engine.cache_tokens` into bytes); options in
    `without` are left out, for releases that do not have them.
    """
    speculative = vllm_speculative_config(config, draft=draft)
    drafted = 0 if speculative is None else int(speculative["num_speculative_tokens"])
    options: dict[str, str | None] = {
        "--served-model-name": model_name,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": config.dtype,
        "--seed": "0",
        "--max-num-seqs": str(config.limits.concurrency),
        # The budget of a step holds the draft's tokens of every request besides the prompts'.
        "--max-num-batched-tokens": str(config.engine.step_tokens + config.limits.concurrency * (drafted + 1)),
        "--tensor-parallel-size": str(config.engine.tensor_parallel),
        "--enable-prefix-caching" if config.engine.prefix_reuse else "--no-enable-prefix-caching": None,
        "--shutdown-timeout": str(math.ceil(config.limits.drain_s)),
        "--disable-uvicorn-access-log": None,
        "--uvicorn-log-level": "warning",
    }
    if context_tokens is not None:
        options["--max-model-len"] = str(context_tokens)
    if config.device == "cpu":
        # Of the machine's memory, despite its name; vLLM's own 0.92 leaves nothing to others and often does not start.
        options["--gpu-memory-utilization"] = _CPU_MEMORY_SHARE
    if config.engine.cache_tokens is not None and bytes_per_token is not None:
        options["--kv-cache-memory-bytes"] = str(config.engine.cache_tokens * bytes_per_token)
    if speculative is not None:
        options["--speculative-config"] = _compact(speculative)
        options["--per-request-spec-decode-metrics"] = "summary"
    environment = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "HF_HUB_OFFLINE": "1",
        **_threads(config),
    }
    return EngineCommand(
        arguments=(*_program(config, ("vllm",)), "serve", target, *_spell(options, without), *config.engine.arguments),
        environment=environment,
        notes=(*_vllm_notes(config, speculative), *_left_out(options, without)),
    )


def vllm_speculative_config(config: DeploymentConfig, *, draft: str | None) -> dict[str, Any] | None:
    """The object of vLLM's `--speculative-config`; None for plain decoding."""
    if draft is None or config.draft_in_use is None:
        return None
    length = chain_length(config.speculation)
    value: dict[str, Any] = {"method": "eagle3", "model": draft, "num_speculative_tokens": length}
    off, most = config.speculation.off_threshold, config.limits.concurrency
    if off is not None and off < most:
        value["num_speculative_tokens_per_batch_size"] = [[1, off, length], [off + 1, most, 0]]
    return value


def vllm_container_environment(config: DeploymentConfig, *, target: str, draft: str | None) -> dict[str, str]:
    """Environment of vLLM's SageMaker container for the same model and speculation: `SM_VLLM_X` is its option `--x`."""
    environment = {
        "SM_VLLM_MODEL": target,
        "SM_VLLM_DTYPE": config.dtype,
        "SM_VLLM_MAX_NUM_SEQS": str(config.limits.concurrency),
        "SM_VLLM_TENSOR_PARALLEL_SIZE": str(config.engine.tensor_parallel),
        "SM_VLLM_SHUTDOWN_TIMEOUT": str(math.ceil(config.limits.drain_s)),
    }
    speculative = vllm_speculative_config(config, draft=draft)
    if speculative is not None:
        environment["SM_VLLM_SPECULATIVE_CONFIG"] = _compact(speculative)
    return environment


def lmi_container_environment(config: DeploymentConfig, *, target: str, draft: str | None) -> dict[str, str]:
    """Environment of AWS's LMI container (djl-serving) for the same model and speculation."""
    environment = {"HF_MODEL_ID": target, "OPTION_TENSOR_PARALLEL_DEGREE": str(config.engine.tensor_parallel)}
    speculative = vllm_speculative_config(config, draft=draft)
    if speculative is not None:
        environment["OPTION_SPECULATIVE_CONFIG"] = _compact(speculative)
    return environment


def sglang_command(
    config: DeploymentConfig,
    *,
    target: str,
    draft: str | None,
    port: int,
    model_name: str,
    context_tokens: int | None = None,
) -> EngineCommand:
    """`python -m sglang.launch_server` for a config whose target and draft lie at `target` and `draft`."""
    options: dict[str, str | None] = {
        "--model-path": target,
        "--served-model-name": model_name,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": config.dtype,
        "--device": config.device.partition(":")[0],
        "--random-seed": "0",
        "--max-running-requests": str(config.limits.concurrency),
        "--chunked-prefill-size": str(config.engine.step_tokens),
        "--tp-size": str(config.engine.tensor_parallel),
        "--log-level": "warning",
        "--enable-metrics": None,
    }
    if context_tokens is not None:
        options["--context-length"] = str(context_tokens)
    if config.engine.cache_tokens is not None:
        options["--max-total-tokens"] = str(config.engine.cache_tokens)
    if not config.engine.prefix_reuse:
        options["--disable-radix-cache"] = None
    options |= sglang_speculation(config, draft=draft)
    notes = _suffix_notes(config, "sglang", draft=draft)
    notes += _probability_notes(config, "sglang") if draft else []
    notes += ["sglang: a request cannot turn speculation off; its text is the same with it"] if draft else []
    if config.speculation.off_threshold is not None:
        notes.append("sglang: speculation.off_threshold is not used; it drafts at every load")
    return EngineCommand(
        arguments=(
            *_program(config, ("python3", "-m", "sglang.launch_server")),
            *_spell(options, frozenset()),
            *config.engine.arguments,
        ),
        environment={"HF_HUB_OFFLINE": "1", **_threads(config)},
        notes=(*notes, "sglang: engine.block_tokens is not used; it has pages of its own"),
    )


def sglang_speculation(config: DeploymentConfig, *, draft: str | None) -> dict[str, str | None]:
    """SGLang's options for the tree: steps are levels, draft tokens are nodes and the root."""
    if draft is None or config.draft_in_use is None:
        return {}
    shape = config.speculation
    if shape.is_chain:
        steps = nodes = chain_length(shape)
    else:
        drafted = shape.top_k + (shape.depth - 1) * shape.top_k**2
        steps, nodes = shape.depth, min(shape.nodes, drafted)
    return {
        "--speculative-algorithm": "EAGLE3",
        "--speculative-draft-model-path": draft,
        "--speculative-num-steps": str(steps),
        "--speculative-eagle-topk": str(shape.top_k),
        "--speculative-num-draft-tokens": str(nodes + 1),
    }


def chain_length(shape: Speculation) -> int:
    """Tokens of the longest chain within a shape."""
    return min(shape.depth, shape.nodes)


def _vllm_notes(config: DeploymentConfig, speculative: Mapping[str, Any] | None) -> list[str]:
    notes = ["vllm: engine.block_tokens is not used; it chooses the size of a block itself"]
    notes += _suffix_notes(config, "vllm", draft=None if speculative is None else speculative["model"])
    if speculative is None:
        return notes
    notes += _probability_notes(config, "vllm")
    shape = config.speculation
    if not shape.is_chain:
        notes.append(
            f"vllm verifies chains, not trees: top_k {shape.top_k} and nodes {shape.nodes} are not used; it drafts a "
            f"chain of {speculative['num_speculative_tokens']}"
        )
    notes.append("vllm: a request cannot turn speculation off; at temperature 0 its text is the same with it")
    notes.append("vllm cannot use min_p and logit_bias while it speculates: such requests are refused")
    if config.device == "cpu":
        notes.append("vllm on a CPU cannot sample while it speculates: a temperature above 0 is refused")
    return notes


def _suffix_notes(config: DeploymentConfig, engine: str, *, draft: str | None) -> list[str]:
    if config.drafters == ("suffix",):
        return [f"{engine}: suffix of speculation.drafters is not used; it decodes plainly"]
    if "suffix" in config.drafters and draft is not None:
        return [f"{engine}: suffix of speculation.drafters is not used; the draft alone guesses"]
    return []


def _probability_notes(config: DeploymentConfig, engine: str) -> list[str]:
    if config.draft_in_use is None or not config.speculation.min_probability:
        return []
    return [f"{engine}: speculation.min_probability is not used; it drafts in full, however sure the draft is"]


def _left_out(options: Mapping[str, str | None], without: frozenset[str]) -> list[str]:
    return [f"this release has no {name}; it is left out" for name in options if name in without]


def _program(config: DeploymentConfig, default: tuple[str, ...]) -> tuple[str, ...]:
    if config.engine.executable is None:
        return default
    try:
        words = tuple(shlex.split(config.engine.executable))
    except ValueError as error:
        raise ConfigError(f"engine.executable {config.engine.executable!r} is not a command: {error}") from error
    if not words:
        raise ConfigError("engine.executable is empty; give a command or leave it out")
    return words


def _spell(options: Mapping[str, str | None], without: frozenset[str]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        if name not in without:
            words += [name] if value is None else [name, value]
    return words


def _threads(config: DeploymentConfig) -> dict[str, str]:
    return {} if config.threads is None else {"OMP_NUM_THREADS": str(config.threads)}


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))
