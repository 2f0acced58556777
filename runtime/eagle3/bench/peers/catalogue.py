"""The systems of `bench peers`: ours, Hugging Face's `generate`, llama.cpp and vLLM, each at its best settings.

All read the embedded or named target: the GGUF file where there is one, or what was written from it with the same
numbers. Starts none of them. Invariant: a system that cannot run here is left out with a reason.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eagle3.bench.peers.peer import Line, Peer
from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.upstream_models import UpstreamModels
from eagle3.errors import ConfigError
from eagle3.models.embedded import target_path

LOOKUP_TOKENS = 3
"""Tokens guessed by Hugging Face's prompt lookup: the fastest of 2, 3, 5 and 10 with the embedded target."""
LLAMA_LOOKUP_TOKENS = 2
"""The same for llama.cpp's."""
EXIT_SHARE = 0.9
"""Where the assisting layers of Hugging Face's assisted generation end, as a share of all layers. The embedded target
was not trained to be left early, so no share pays; fewer layers guess worse and cost little less."""
ASSISTANT_TOKENS = 2
"""That they guess in each cycle; the default of 20 was slower."""
CHAIN_TOKENS = 2
"""Drafted by vLLM in each cycle: the fastest of 1, 2 and 3 with the embedded target and its draft."""
_SPARE_TOKENS = 64  # of the context: whatever a system drafts past the last token


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What the systems are made from."""

    config: DeploymentConfig
    """Target, draft, tree, dtype and, for `int8-…`, whether it can be quantised."""
    python: Path
    """Of this environment."""
    llama_python: Path
    vllm_python: Path
    threads: int
    cores: tuple[int, ...]
    """Numbers of the cores that `threads` may be bound to."""
    longest: int
    """Tokens of the longest prompt and its answer."""
    ending_ids: frozenset[int]
    num_layers: int
    """Of the target."""
    compiles: bool
    """Whether vLLM compiles the target before it starts: about a sixth faster, a minute later."""
    export: Callable[[], UpstreamModels]
    """Writes target and draft as directories for vLLM, once."""
    requantised: Callable[[Path], Path]
    """Writes a GGUF file again in Q8_0, once."""


class LeftOut(Exception):  # noqa: N818, no error: a reason
    """Why a system cannot be measured here."""


def line_up(names: Sequence[str], around: Surroundings) -> Line:
    """Peers in the order of the catalogue, and reasons for those that cannot run."""
    peers: list[Peer] = []
    left_out: dict[str, str] = {}
    for name, make in CATALOGUE.items():
        if name in names:
            try:
                peers.append(make(name, around))
            except LeftOut as reason:
                left_out[name] = str(reason)
    return Line(peers=tuple(peers), left_out=left_out)


def check_names(names: Sequence[str]) -> None:
    """ConfigError for a name that no system has."""
    for name in names:
        if name not in CATALOGUE:
            raise ConfigError(f"--system: got {name!r}; the systems are {', '.join(CATALOGUE)}")


def _own(*, drafts: bool, int8: bool) -> Callable[[str, Surroundings], Peer]:
    def make(name: str, around: Surroundings) -> Peer:
        config = around.config if drafts else around.config.without_speculation()
        if drafts and not config.drafters:
            raise LeftOut("the config has no draft; name one with --draft")
        if int8 and (config.dtype != "float32" or config.device != "cpu"):
            raise LeftOut(f"int8 needs dtype float32 on a CPU; got {config.dtype} on {config.device}")
        config = config.model_copy(update={"threads": around.threads, "quantize": "int8" if int8 else None})
        plain = name.replace("speculative", "plain")
        return Peer(
            name=name,
            file="own_system",
            python=around.python,
            settings={"config": config.model_dump_json()},
            environment={"OMP_NUM_THREADS": str(around.threads)},
            same_as=plain if drafts and config.dtype == "float32" else None,
        )

    return make


def _transformers(
    options: Callable[[Surroundings], dict[str, Any]] = lambda around: {},
    generation: Mapping[str, Any] = MappingProxyType({}),
    dtype: str | None = None,
) -> Callable[[str, Surroundings], Peer]:
    def make(name: str, around: Surroundings) -> Peer:
        return Peer(
            name=name,
            file="transformers_system",
            python=around.python,
            settings={
                "target": str(target_path(around.config.target)),
                "dtype": dtype or around.config.dtype,
                "threads": around.threads,
                "ending_ids": sorted(around.ending_ids),
                "options": options(around),
                "generation": dict(generation),
            },
            environment={"OMP_NUM_THREADS": str(around.threads), "HF_HUB_OFFLINE": "1"},
        )

    return make


def _llama_cpp(weights: str, lookup_tokens: int | None = None) -> Callable[[str, Surroundings], Peer]:
    def make(name: str, around: Surroundings) -> Peer:
        model = target_path(around.config.target)
        _installed(around.llama_python, "llama_cpp", "make .venv-llama/.ready", "--llama-python")
        if model.suffix != ".gguf":
            raise LeftOut(f"llama.cpp reads GGUF files; the target is {model}")
        if weights != "Q8_0" and weights not in model.name:
            raise LeftOut(f"the target {model.name} is not in {weights}")
        return Peer(
            name=name,
            file="llama_cpp_system",
            python=around.llama_python,
            settings={
                "model": str(around.requantised(model) if weights == "Q8_0" else model),
                "format": weights,
                "threads": around.threads,
                "context_tokens": around.longest + _SPARE_TOKENS,
                "ending_ids": sorted(around.ending_ids),
                "flash_attention": True,
                "lookup_tokens": lookup_tokens,
            },
        )

    return make


def _vllm(*, drafts: bool, dtype: str | None = None) -> Callable[[str, Surroundings], Peer]:
    def make(name: str, around: Surroundings) -> Peer:
        _installed(around.vllm_python, "vllm", "make .venv-vllm/.ready", "--vllm-python")
        if around.config.device != "cpu":
            raise LeftOut(f"its CPU build is measured; the device is {around.config.device}")
        if drafts and around.config.draft is None:
            raise LeftOut("the config has no draft; name one with --draft")
        models = around.export()
        context_tokens = around.longest + _SPARE_TOKENS
        return Peer(
            name=name,
            file="vllm_system",
            python=around.vllm_python,
            settings={
                "target": str(models.target),
                "draft": str(models.draft) if drafts else None,
                "chain_tokens": CHAIN_TOKENS,
                "dtype": dtype or around.config.dtype,
                "threads": around.threads,
                "eager": not around.compiles,
                "context_tokens": context_tokens,
                "cache_bytes": 4 * context_tokens * models.bytes_per_token + 2**26,
                "ending_ids": sorted(around.ending_ids),
            },
            environment=_vllm_environment(around),
            samples=not drafts,  # its CPU build draws from memory that nobody wrote (engine/vllm.py)
        )

    return make


def _vllm_environment(around: Surroundings) -> Mapping[str, str]:
    cores = ",".join(map(str, around.cores[: around.threads]))
    environment = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "HF_HUB_OFFLINE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_OMP_THREADS_BIND": cores,
        "OMP_NUM_THREADS": str(around.threads),
    }
    # Intel's OpenMP comes with the package; vLLM asks for it to be loaded first, and bound like this.
    intel = around.vllm_python.parents[1] / "lib" / "libiomp5.so"
    if intel.is_file():
        affinity = f"granularity=fine,explicit,proclist=[{cores}]"
        environment |= {
            "LD_PRELOAD": str(intel), "KMP_AFFINITY": affinity, "KMP_BLOCKTIME": "5", "KMP_TPAUSE": "0",
        }  # fmt: skip
    return environment


def _installed(python: Path, package: str, remedy: str, flag: str) -> None:
    if not python.is_file():
        raise LeftOut(f"there is no {python}; run `{remedy}`, or name its Python with {flag}")
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    try:
        missing = subprocess.run([str(python), "-P", "-c", look], capture_output=True, check=False).returncode  # noqa: S603
    except OSError as error:
        raise LeftOut(f"{python} cannot be run: {error.strerror}") from error
    if missing:
        raise LeftOut(f"{python} has no {package}; run `{remedy}`, or name another Python with {flag}")


CATALOGUE: Mapping[str, Callable[[str, Surroundings], Peer]] = {
    "plain": _own(drafts=False, int8=False),
    "speculative": _own(drafts=True, int8=False),
    "int8-plain": _own(drafts=False, int8=True),
    "int8-speculative": _own(drafts=True, int8=True),
    "llama.cpp-q4_1": _llama_cpp("Q4_1"),
    "llama.cpp-q8_0": _llama_cpp("Q8_0"),
    "llama.cpp-q4_1-lookup": _llama_cpp("Q4_1", LLAMA_LOOKUP_TOKENS),
    "hf-plain": _transformers(),
    "hf-prompt-lookup": _transformers(lambda around: {"prompt_lookup_num_tokens": LOOKUP_TOKENS}),
    "hf-assisted": _transformers(
        lambda around: {"assistant_early_exit": round(EXIT_SHARE * around.num_layers)},
        {"num_assistant_tokens": ASSISTANT_TOKENS, "num_assistant_tokens_schedule": "constant"},
    ),
    "hf-plain-bf16": _transformers(dtype="bfloat16"),
    "vllm-plain": _vllm(drafts=False),
    "vllm-eagle3": _vllm(drafts=True),
    "vllm-plain-bf16": _vllm(drafts=False, dtype="bfloat16"),
    "vllm-eagle3-bf16": _vllm(drafts=True, dtype="bfloat16"),
}
"""By name, in the order of the turns."""
QUICK = tuple(name for name in CATALOGUE if not name.endswith("-bf16"))
"""Without those that compute in another type than the target's, which give other texts: time is short."""
