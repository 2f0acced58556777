"""The report of a race: JSON with everything that was measured, and Markdown tables of what it comes to.

Knows results only. Token ids are compared before and not written: they are most of the size and none of the result.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from eagle3.bench.peers.peer import Line
from eagle3.bench.peers.race import SectionResult
from eagle3.bench.peers.result import BASES, Spread, Summary, summarise
from eagle3.bench.peers.turn import Turn


def report_json(results: Sequence[SectionResult], line: Line, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Everything so far; `failures` and `unequal` are 0 in a run to be trusted."""
    sections = [(result, summarise(result, line.peers)) for result in results]
    return {
        "machine": machine(),
        "plan": dict(plan),
        "versions": _by_system(results, lambda turn: dict(turn.versions or {})),
        "notes": _by_system(results, lambda turn: list(turn.notes)),
        "left_out": dict(line.left_out),
        "failures": sum(summary.failure is not None for _, summaries in sections for summary in summaries),
        "unequal": sum(summary.unequal_to is not None for _, summaries in sections for summary in summaries),
        "sections": [
            {
                "prompts": result.section.prompts_name,
                "num_prompts": len(result.section.task.prompts),
                "temperature": result.section.task.temperature,
                "max_tokens": result.section.task.max_tokens,
                "systems": [summary.as_json() for summary in summaries],
                "turns": [_turn_json(turn) for turn in result.turns],
            }
            for result, summaries in sections
        ],
    }


def machine() -> dict[str, Any]:
    """What it was measured on."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(),
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def report_markdown(results: Sequence[SectionResult], line: Line, *, rounds: int) -> str:
    """A table for each section that has turns, then who was left out, what failed, and the versions."""
    blocks = [_section_markdown(each, summarise(each, line.peers), rounds) for each in results if each.turns]
    blocks.append(_versions(results))
    if line.left_out:
        blocks.append("Left out:\n\n" + "\n".join(f"- {name}: {reason}" for name, reason in line.left_out.items()))
    return "\n\n".join(block for block in blocks if block)


_Column = tuple[str, Callable[[Summary], str]]


def _section_markdown(result: SectionResult, summaries: Sequence[Summary], rounds: int) -> str:
    bases = [base for base in BASES if any(base in (summary.decode_ratios or {}) for summary in summaries)]
    task = result.section.task
    columns: list[_Column] = [
        ("system", lambda row: row.system),
        ("decode tokens/s", lambda row: _spread(row.decode_tokens_per_s)),
        ("request tokens/s", lambda row: _spread(row.request_tokens_per_s)),
        ("τ", lambda row: "-" if row.tau is None else f"{row.tau:.2f}"),
        *((f"x {base}", _ratio_of(base)) for base in bases),
        *([("text as plain", _text)] if task.temperature == 0 else []),
        ("first token ms", lambda row: _spread(row.first_token_ms, 0)),
        ("process to first token s", lambda row: _spread(row.start_s)),
        ("memory MB", lambda row: str(row.peak_memory_mb)),
        ("rounds", lambda row: str(row.rounds)),
    ]
    shown = [summary for summary in summaries if summary.rounds]
    lines = [
        f"### {result.section.title}",
        "",
        f"{len(task.prompts)} prompts, at most {task.max_tokens} new tokens, {rounds} rounds, median (lowest-highest) "
        "over rounds. Ratios are of decode rates in the same round.",
        "",
        "| " + " | ".join(title for title, _ in columns) + " |",
        "|---" + "|---:" * (len(columns) - 1) + "|",
    ]
    lines += ["| " + " | ".join(cell(row) for _, cell in columns) + " |" for row in shown]
    faults = [f"- {row.system} failed: {row.failure}" for row in summaries if row.failure is not None]
    faults += [f"- {row.system} gave another text than {row.unequal_to}" for row in summaries if row.unequal_to]
    faults += [f"- {row.system}: {row.skipped}" for row in summaries if row.skipped and row.failure is None]
    return "\n".join(lines + ([""] if faults else []) + faults)


def _ratio_of(base: str) -> Callable[[Summary], str]:
    return lambda row: _spread((row.decode_ratios or {}).get(base), 2)


def _text(row: Summary) -> str:
    if row.identical is None or row.agreement is None:
        return "-"
    return f"{row.identical} of {row.prompts} ({row.agreement:.0%} of tokens)"


def _spread(value: Spread | None, digits: int = 1) -> str:
    if value is None:
        return "-"
    middle, low, high = (f"{number:.{digits}f}" for number in (value.median, value.low, value.high))
    return middle if low == high else f"{middle} ({low}-{high})"


def _versions(results: Sequence[SectionResult]) -> str:
    versions = _by_system(results, lambda turn: dict(turn.versions or {}))
    notes = _by_system(results, lambda turn: list(turn.notes))
    lines = [
        f"- {name}: {'; '.join(notes[name])} ({', '.join(f'{package} {number}' for package, number in by.items())})"
        for name, by in versions.items()
    ]
    return "\n".join(["How each was run:", "", *lines]) if lines else ""


def _by_system(results: Sequence[SectionResult], value: Callable[[Turn], Any]) -> dict[str, Any]:
    return {turn.system: value(turn) for result in reversed(results) for turn in result.turns if turn.failure is None}


def _turn_json(turn: Turn) -> dict[str, Any]:
    return {
        "system": turn.system,
        "round": turn.round,
        "failure": turn.failure,
        "ready_s": turn.ready_s,
        "first_token_s": turn.first_token_s,
        "peak_memory_mb": turn.peak_memory_mb,
        "elapsed_s": turn.elapsed_s,
        "answers": [
            {
                "tokens": len(answer.token_ids),
                "first_tokens": answer.first_tokens,
                "first_s": answer.first_s,
                "total_s": answer.total_s,
                "cycles": answer.cycles,
            }
            for answer in turn.answers
        ],
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()
