"""The profile of our cycles as a JSON object and as Markdown. Knows profiles only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from eagle3.bench.peers.floors import Floors
from eagle3.bench.peers.profile import Profile


def profile_json(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """Seconds of an average cycle and of its parts, with the floors."""
    return [{**asdict(profile), "overhead": profile.overhead} for profile in profiles]


def profile_markdown(profiles: Sequence[Profile]) -> str:
    """One table a system."""
    if not profiles:
        return ""
    blocks = ["### Where a cycle's time goes", _floors(profiles[0].floors)]
    return "\n\n".join(blocks + [_table(profile) for profile in profiles])


def _floors(floors: Floors) -> str:
    int8 = "" if floors.int8_flop_per_s is None else f", {floors.int8_flop_per_s / 1e9:.0f} GFLOP/s in int8"
    return (
        f"Measured: {floors.bytes_per_s / 1e9:.1f} GB/s read from memory, {floors.flop_per_s / 1e9:.0f} GFLOP/s in "
        f"float32{int8}. A floor is the time to read the weights of each product once or to make its sums, whichever "
        "is longer."
    )


def _table(profile: Profile) -> str:
    tau = profile.tokens / profile.cycles if profile.cycles else 0.0
    floor_ms = 1e3 * sum(part.floor_s or 0.0 for part in profile.parts)
    lines = [
        f"**{profile.system}**: {profile.cycle_s * 1e3:.1f} ms a cycle (floor {floor_ms:.1f}), {tau:.2f} tokens, "
        f"{profile.rows:.1f} rows, {profile.cycles} cycles; tree, cache and Python take {profile.overhead:.0%}.",
        "",
        "| part | ms | share | calls | floor ms |",
        "|---|---:|---:|---:|---:|",
    ]
    for part in profile.parts:
        floor = "-" if part.floor_s is None else f"{part.floor_s * 1e3:.2f}"
        share = part.seconds / profile.cycle_s if profile.cycle_s else 0.0
        lines.append(f"| {part.name} | {part.seconds * 1e3:.2f} | {share:.0%} | {part.calls:.1f} | {floor} |")
    return "\n".join(lines)
