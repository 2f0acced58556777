"""What the API says about the target before any engine has loaded it: read from the target's files, without weights."""

from __future__ import annotations

from dataclasses import dataclass

from eagle3.config.deployment import DeploymentConfig
from eagle3.models.embedded import target_name, target_path
from eagle3.models.target_loader import read_architecture


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
    name = config.serving.model_name or target_name(config.target)
    return TargetFacts(name=name, context_tokens=arch.max_position, vocab_size=arch.vocab_size)
