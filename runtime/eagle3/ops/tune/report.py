"""What `eagle3 tune` says: a table, a JSON object, and the settings that `--config` reads. Knows no measuring."""

from __future__ import annotations

from typing import Any

import yaml

from eagle3.ops.tune.tuning import Confirmed, Tuning


def settings_of(tuning: Tuning) -> dict[str, Any]:
    """The settings that the winner is served with; what a deployment sets besides stays its own."""
    winner = tuning.winner
    if winner is None:
        return {"draft": None, "speculation": {"drafters": ["eagle3"]}}
    return {"speculation": winner.model_dump(mode="json")}


def settings_yaml(tuning: Tuning, measured_with: str) -> str:
    """The same as a YAML file; `measured_with` says what it was measured with."""
    best = tuning.confirmed[0]
    said = f"{best.ratio:.2f} x plain decoding" if tuning.winner else "plain decoding is the fastest"
    head = f"# Made by `eagle3 tune` ({measured_with}): {said}, on {tuning.prompts} prompts.\n"
    return head + yaml.safe_dump(settings_of(tuning), sort_keys=False)


def tuning_json(tuning: Tuning) -> dict[str, Any]:
    """Everything as a JSON object."""
    return {
        "prompts": tuning.prompts,
        "tokens": tuning.tokens,
        "candidates": tuning.candidates,
        "verify_ms": {str(rows): round(seconds * 1e3, 3) for rows, seconds in tuning.costs.verify_s.items()},
        "draft_ms": {str(rows): round(seconds * 1e3, 3) for rows, seconds in tuning.costs.draft_s.items()},
        "overhead_ms": {
            "speculative": round(tuning.overheads.speculative_s * 1e3, 3),
            "plain": round(tuning.overheads.plain_s * 1e3, 3),
        },
        "plain_tokens_per_s": round(tuning.plain_tokens_per_s, 2),
        "shapes": [_shape_json(one) for one in tuning.confirmed],
        "settings": settings_of(tuning),
    }


def tuning_table(tuning: Tuning) -> str:
    """Plain text tables: what passes cost, and the shapes that were confirmed beside plain decoding."""
    rows = [
        ("drafters", "depth", "top-k", "nodes", "min-prob", "tau", "predicted", "measured", "tokens/s"),
        *(_row(one) for one in tuning.confirmed),
        ("none (plain)", "-", "-", "-", "-", "1.00", "1.00x", "1.00x", f"{tuning.plain_tokens_per_s:.1f}"),
    ]
    lines = [
        f"  milliseconds of a target pass by rows: {_listed(tuning.costs.verify_s)}",
        f"  milliseconds of a draft pass by rows:  {_listed(tuning.costs.draft_s)}",
        f"  milliseconds of a cycle beside passes: {tuning.overheads.speculative_s * 1e3:.2f} with a tree, "
        f"{tuning.overheads.plain_s * 1e3:.2f} plainly",
        f"  {tuning.candidates} shapes predicted from {tuning.tokens} tokens of {tuning.prompts} answers",
        "",
    ]
    lines += [f"  {row[0]:<16}" + "".join(f"{word:>10}" for word in row[1:]) for row in rows]
    return "\n".join(lines)


def _row(one: Confirmed) -> tuple[str, ...]:
    shape = one.prediction.shape
    drafted = "eagle3" in shape.drafters
    return (
        "+".join(shape.drafters),
        str(shape.depth) if drafted else "-",
        str(shape.top_k) if drafted else "-",
        str(shape.nodes),
        f"{shape.min_probability:g}",
        f"{one.tau:.2f}",
        f"{one.prediction.ratio:.2f}x",
        f"{one.ratio:.2f}x",
        f"{one.tokens_per_s:.1f}",
    )


def _shape_json(one: Confirmed) -> dict[str, Any]:
    replayed = one.prediction.replayed
    return {
        "speculation": one.prediction.shape.model_dump(mode="json"),
        "predicted_ratio": round(one.prediction.ratio, 4),
        "ratio": round(one.ratio, 4),
        "predicted_tau": round(replayed.tau, 4),
        "tau": round(one.tau, 4),
        "nodes_per_cycle": round(replayed.nodes / replayed.cycles, 3),
        "draft_passes_per_cycle": round(replayed.draft_passes / replayed.cycles, 3),
        "tokens_per_s": round(one.tokens_per_s, 2),
    }


def _listed(seconds_at: dict[int, float]) -> str:
    return ", ".join(f"{rows}: {seconds * 1e3:.1f}" for rows, seconds in seconds_at.items())
