"""The prompts of a race where no file is given: 16 questions of eight kinds, the first eight one of each.

Written for this project. Neither they nor the warm-up are among the prompts that drafts are trained on, nor questions
of a published benchmark.
"""

from __future__ import annotations

from pathlib import Path

QUESTIONS = Path(__file__).with_name("questions.jsonl")
WARM_UP = "Say in one sentence what you can help with."
"""Answered before anything is measured; refused among the prompts that are."""
