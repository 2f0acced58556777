"""Reads conversations from JSONL in the three shapes that training data comes in; knows no tokens.

`messages` rows: {"messages": [{"role": "user", "content": …}, …]}. ShareGPT rows: {"conversations": [{"from":
"human" or "gpt" or "system", "value": …}, …]}. Prompt rows: {"prompt": …} or {"turns": [first user turn, …]}.
Every complaint names the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eagle3.errors import InvalidInputError

Messages = tuple[dict[str, str], ...]

_SHAREGPT_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer to train on: what came before it, and the answer that the data gives, if it gives one."""

    messages: Messages
    """Messages up to and including the user's; the last role is `user`."""
    answer: str | None
    """The answer in the data; None for a plain prompt, which the target must answer."""


def read_turns(path: Path, *, answers_needed: bool) -> Iterator[Turn]:
    """Every assistant turn of every conversation, and every plain prompt, in file order.

    `answers_needed` refuses plain prompts: training on the data's own answers asks for an assistant turn.
    """
    for number, row in read_jsonl(path):
        place = f"{path}, line {number}"
        messages = _messages(row, place)
        turns = [
            Turn(messages=messages[:index], answer=message["content"])
            for index, message in enumerate(messages)
            if message["role"] == "assistant" and index > 0 and messages[index - 1]["role"] == "user"
        ]
        is_prompt = "prompt" in row or "turns" in row
        if is_prompt and not answers_needed:
            turns = [Turn(messages=messages, answer=None)]
        if not turns:
            raise InvalidInputError(
                f"{place}: the conversation has no assistant turn after a user turn; add one, "
                'or give a plain prompt as {"prompt": "…"} and let the target answer'
            )
        yield from turns


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers (from 1) and objects of a JSONL file; blank lines are skipped."""
    try:
        # Not splitlines: JSON text may hold U+2028 and other line ends of Unicode.
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is not UTF-8 text: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"{path}, line {number}: not valid JSON ({error.msg})") from error
        if not isinstance(row, dict):
            raise InvalidInputError(f"{path}, line {number}: expected a JSON object; got {type(row).__name__}")
        yield number, row


def prompt_of(row: dict[str, Any], place: str) -> str:
    """The first user turn of a row in any of the shapes; `place` names the row in complaints."""
    for message in _messages(row, place):
        if message["role"] == "user":
            return message["content"]
    raise InvalidInputError(f"{place}: no user turn")


def _messages(row: dict[str, Any], place: str) -> Messages:
    if "prompt" in row:
        return ({"role": "user", "content": _text(row["prompt"], f"{place}: prompt")},)
    if "turns" in row:
        turns = row["turns"]
        if not isinstance(turns, list) or not turns:
            raise InvalidInputError(f"{place}: turns must be a list of texts with at least one")
        return ({"role": "user", "content": _text(turns[0], f"{place}: turns[0]")},)
    for key, role_key, text_key in (("messages", "role", "content"), ("conversations", "from", "value")):
        if key in row:
            entries = row[key]
            if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
                raise InvalidInputError(f"{place}: {key} must be a list of objects")
            return tuple(_message(entry, role_key, text_key, f"{place}: {key}") for entry in entries)
    raise InvalidInputError(
        f"{place}: expected a key messages, conversations, prompt or turns; got {', '.join(sorted(row)) or 'none'}"
    )


def _message(entry: dict[str, Any], role_key: str, text_key: str, place: str) -> dict[str, str]:
    role = entry.get(role_key)
    known = role if role in _ROLES and role_key == "role" else _SHAREGPT_ROLES.get(str(role))
    if known is None:
        raise InvalidInputError(f"{place}: unknown {role_key} {role!r}; allowed: {', '.join(sorted(_SHAREGPT_ROLES))}")
    return {"role": known, "content": _text(entry.get(text_key), f"{place}: {text_key}")}


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{place} must be a text that is not empty; got {value!r}")
    return value
