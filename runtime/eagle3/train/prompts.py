"""Invents prompts where there is no data: templates filled with random words, and turns sampled from the target.

Templates live in prompt_templates.yaml beside this file. Both ways are deterministic for a seed; neither
knows how an answer is made.
"""

from __future__ import annotations

import random
import re
from importlib import resources
from typing import Any

import yaml

_SLOT = re.compile(r"\{(\w+)\}")


def templated_prompts(count: int, rng: random.Random) -> list[str]:
    """`count` distinct prompts, categories drawn evenly; fewer only when the templates run out of variety."""
    text = resources.files("eagle3.train").joinpath("prompt_templates.yaml").read_text(encoding="utf-8")
    source: dict[str, Any] = yaml.safe_load(text)
    categories: list[list[str]] = list(source["templates"].values())
    slots: dict[str, list[str]] = source["slots"]
    ranges: dict[str, list[int]] = source["ranges"]

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        if name in ranges:
            return str(rng.randint(*ranges[name]))
        # topic2 draws from topic when it has no list of its own: a second, independent word.
        return str(rng.choice(slots.get(name) or slots[name.rstrip("0123456789")]))

    prompts: dict[str, None] = {}
    for _ in range(count * 20):
        if len(prompts) == count:
            break
        prompts[_SLOT.sub(fill, rng.choice(rng.choice(categories)))] = None
    return list(prompts)
