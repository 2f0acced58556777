"""What the server says on standard error when it starts and when it is ready. Knows the config, prints nothing."""

from __future__ import annotations

from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.interface import EngineInfo
from eagle3.server.target_facts import TargetFacts


def starting(config: DeploymentConfig, facts: TargetFacts, *, address: str, keys: int | None) -> list[str]:
    """What runs, with which limits, and where; `keys` is the number of API keys, None for open access."""
    tree, limits = config.speculation, config.limits
    by = " and ".join(config.drafters)
    prompt = facts.context_tokens if limits.max_prompt_tokens is None else limits.max_prompt_tokens
    return [
        "eagle3 serve",
        f"  engine   {config.engine.name}",
        f"  target   {facts.name} ({config.target}), {facts.context_tokens} tokens of context, "
        f"vocabulary {facts.vocab_size}, {config.dtype} on {config.device}",
        f"  draft    {config.draft_in_use or ('none' if config.drafters else 'none: plain decoding')}",
        f"  tree     {f'depth {tree.depth}, top-k {tree.top_k}, {tree.nodes} nodes, by {by}' if by else 'none'}",
        f"  limits   {limits.concurrency} requests in the engine, {limits.queue} waiting, "
        f"{prompt} prompt and {limits.max_output_tokens} output tokens, {limits.max_answers} answers, "
        f"{limits.max_body_bytes} bytes, {limits.timeout_s:g} s",
        f"  access   {'open to everyone' if keys is None else f'{keys} API keys'}",
        f"  address  {address}",
    ]


def ready(info: EngineInfo | None, seconds: float) -> list[str]:
    """That the model answers, and what the engine has to say."""
    name = "the engine" if info is None else info.engine
    notes = () if info is None else info.notes
    return [f"ready after {seconds:.1f} s: {name}", *(f"  note: {note}" for note in notes)]
