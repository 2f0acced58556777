"""Measures speculative decoding on a set of prompts: tau, acceptance by depth, time against plain decoding.

Both ways run in one process, prompt by prompt in turn, so a ratio compares like with like on a noisy machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagle3.engine.answer import Answer
from eagle3.engine.llm import LLM
from eagle3.engine.stats import DecodeStats
from eagle3.models.tokenizer import Message
from eagle3.sampling.params import SamplingParams


@dataclass(slots=True)
class Comparison:
    """Counters over all prompts; `plain` stays empty unless plain decoding was asked for."""

    speculative: DecodeStats = field(default_factory=DecodeStats)
    plain: DecodeStats = field(default_factory=DecodeStats)
    prompts: int = 0
    identical: int = 0
    """Prompts whose token ids were the same both ways."""

    def add(self, speculative: Answer, plain: Answer | None) -> None:
        """Count one prompt."""
        self.prompts += 1
        self.speculative.add(speculative.stats)
        if plain is not None:
            self.plain.add(plain.stats)
            self.identical += speculative.token_ids == plain.token_ids

    @property
    def speedup(self) -> float | None:
        """Tokens per second of speculative over plain decoding, None where plain decoding did not run."""
        return self.speculative.tokens_per_s / self.plain.tokens_per_s if self.plain.output_tokens else None


def compare(
    llm: LLM,
    conversations: Sequence[Sequence[Message]],
    params: SamplingParams,
    *,
    with_plain: bool,
    on_prompt: Callable[[Comparison], None],
) -> Comparison:
    """Answer every conversation; `on_prompt` sees the counters after each."""
    result = Comparison()
    for messages in conversations:
        speculative = llm.chat(messages, params)[0]
        plain = llm.chat(messages, params, speculate=False)[0] if with_plain else None
        result.add(speculative, plain)
        on_prompt(result)
    return result


def as_json(stats: DecodeStats) -> dict[str, Any]:
    """Counters and the ratios read from them, with the keys of `eagle3 generate --json`."""
    return {
        "output_tokens": stats.output_tokens,
        "num_cycles": stats.cycles,
        "drafted_nodes": stats.drafted,
        "tau": round(stats.tau, 4),
        "acceptance_by_depth": [round(share, 4) for share in stats.acceptance_by_depth],
        "prefill_ms": round(stats.prefill_s * 1e3, 2),
        "draft_ms": round(stats.draft_s * 1e3, 2),
        "verify_ms": round(stats.verify_s * 1e3, 2),
        "tokens_per_s": round(stats.tokens_per_s, 2),
    }


def comparison_json(result: Comparison) -> dict[str, Any]:
    """The whole comparison as a JSON object."""
    report: dict[str, Any] = {"prompts": result.prompts, **as_json(result.speculative)}
    if result.speedup is not None:
        report |= {
            "plain": as_json(result.plain),
            "speedup": round(result.speedup, 3),
            "identical_prompts": result.identical,
        }
    return report


def comparison_table(result: Comparison) -> str:
    """Plain text table of speculative beside plain decoding."""
    spec, plain = result.speculative, result.plain

    def per_cycle(seconds: float, stats: DecodeStats) -> str:
        return f"{seconds * 1e3 / stats.cycles:.1f}" if stats.cycles else "-"

    rows = [
        ("", "EAGLE-3", "plain"),
        ("output tokens", str(spec.output_tokens), str(plain.output_tokens)),
        ("cycles (target passes)", str(spec.cycles), str(plain.cycles)),
        ("tau (tokens per cycle)", f"{spec.tau:.2f}", f"{plain.tau:.2f}"),
        ("draft ms per cycle", per_cycle(spec.draft_s, spec), per_cycle(plain.draft_s, plain)),
        ("verify ms per cycle", per_cycle(spec.verify_s, spec), per_cycle(plain.verify_s, plain)),
        ("tokens per second", f"{spec.tokens_per_s:.1f}", f"{plain.tokens_per_s:.1f}"),
    ]
    lines = [f"  {name:<24}{left:>10}{right:>10}" for name, left, right in rows]
    depths = "  ".join(f"{depth}: {share:.0%}" for depth, share in enumerate(spec.acceptance_by_depth, start=1))
    lines.append(f"  acceptance by depth     {depths or '-'}")
    if result.speedup is not None:
        lines.append(f"  speed ratio             {result.speedup:.2f}x (same process, same run)")
    return "\n".join(lines)
