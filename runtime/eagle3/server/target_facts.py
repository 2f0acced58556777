"""What the API says about the target before any engine has loaded it: read from the target's files, without weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eagle3.config.deployment import EMBEDDED, DeploymentConfig
from eagle3.models.embedded import target_path
from eagle3.models.target_loader import read_architecture

_EMBEDDED_NAME = "SmolLM2-135M-Instruct"


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetFacts:
    """Name and sizes of a target."""

    name: str
    """As the API calls it."""
    context_tokens: int
    """Prompt and answer together."""
    vocab_size: int
    """Token ids, padding rows of the embedding included."""


def read_facts(config: DeploymentConfig) -> TargetFacts:
    """Facts of the target that a config names; WeightsError or ConfigError when its files say nothing readable."""
    path = target_path(config.target)
    arch = read_architecture(path)
    name = config.serving.model_name or (_EMBEDDED_NAME if config.target == EMBEDDED else _file_name(path))
    return TargetFacts(name=name, context_tokens=arch.max_position, vocab_size=arch.vocab_size)


def _file_name(path: Path) -> str:
    resolved = path.resolve()
    return resolved.stem if resolved.suffix == ".gguf" else resolved.name
