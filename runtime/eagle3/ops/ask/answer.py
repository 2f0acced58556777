"""An answer, put together from the objects that a server sends: chunks of a stream, or one whole completion.

Knows no transport; time comes from a clock that is handed in. Invariant: an answer is only given out when its server
said why it ended, so that a text that was cut is never taken for a whole one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eagle3.errors import DeadlineError, EngineUnavailableError
from eagle3.ops.ask.refusal import refusal


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole answer and what it took."""

    text: str
    """All of it."""
    finish_reason: str
    """Why it ended: "stop", "length" or another word of the server's."""
    model: str | None
    """Name of the model, if the server said it."""
    usage: Mapping[str, Any] | None
    """Tokens as the server counted them, with its own keys; None if it did not."""
    first_text_s: float | None
    """Seconds from the request to the first text; None for an empty text."""
    duration_s: float
    """Seconds from the request to the end."""

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of the answer in a second of the whole time; None without a count."""
        tokens = (self.usage or {}).get("completion_tokens")
        return tokens / self.duration_s if isinstance(tokens, int) and self.duration_s > 0 else None

    def as_json(self) -> dict[str, Any]:
        """For `--json`; times in milliseconds."""
        rate = self.tokens_per_second
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "model": self.model,
            "usage": self.usage,
            "first_text_ms": None if self.first_text_s is None else round(self.first_text_s * 1000, 1),
            "duration_ms": round(self.duration_s * 1000, 1),
            "tokens_per_second": None if rate is None else round(rate, 2),
        }

    def summary(self) -> str:
        """The same in one line, without the text."""
        usage = self.usage or {}
        parts = [f"{usage[key]} {words}" for key, words in _COUNTS.items() if key in usage]
        details = usage.get("completion_tokens_details") or {}
        if details.get("accepted_prediction_tokens") is not None:
            parts.append(f"{details['accepted_prediction_tokens']} of them drafted")
        if self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:.1f} tokens/s")
        if self.first_text_s is not None:
            parts.append(f"first text after {self.first_text_s * 1000:.0f} ms")
        return ", ".join([*parts, f"{self.duration_s * 1000:.0f} ms in all", f"ended by {self.finish_reason}"])


_COUNTS = {"prompt_tokens": "prompt tokens", "completion_tokens": "tokens"}


class AnswerReader:
    """Takes the server's objects one by one; `clock` gives seconds."""

    def __init__(self, *, clock: Callable[[], float], timeout_s: float) -> None:
        self._clock, self._timeout_s = clock, timeout_s
        self._start_s = clock()
        self._texts: list[str] = []
        self._first_text_s: float | None = None
        self._finish_reason: str | None = None
        self._model: str | None = None
        self._usage: Mapping[str, Any] | None = None

    def take(self, item: Mapping[str, Any]) -> str:
        """The text that came with one object.

        The server's error raises what it means, and DeadlineError says that the time is up.
        """
        if isinstance(item.get("error"), Mapping):
            raise refusal(None, item["error"], part=bool(self._texts))
        if self._clock() - self._start_s > self._timeout_s:
            raise DeadlineError(f"the answer took longer than {self._timeout_s:g} s{self._cut()}; see --timeout-s")
        self._model = item.get("model") or self._model
        self._usage = item.get("usage") or self._usage
        text = ""
        for choice in item.get("choices") or ():
            text += (choice.get("delta") or choice.get("message") or {}).get("content") or ""
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        if text:
            self._texts.append(text)
            if self._first_text_s is None:
                self._first_text_s = self._clock() - self._start_s
        return text

    def finish(self) -> Answer:
        """The answer; EngineUnavailableError if the stream ended before it did."""
        if self._finish_reason is None:
            raise EngineUnavailableError(f"the stream ended before the answer did{self._cut()}; ask again")
        return Answer(
            text="".join(self._texts),
            finish_reason=self._finish_reason,
            model=self._model,
            usage=self._usage,
            first_text_s=self._first_text_s,
            duration_s=self._clock() - self._start_s,
        )

    def _cut(self) -> str:
        return ": the text is incomplete" if self._texts else ", without any text"
