"""Every error that a user of eagle3 can cause, as one tree.

A message says what was wrong, what was got, what is allowed and what to do about it. Programmers' faults
are assertions, not members of this tree. `exit_code` is what the `eagle3` command exits with.
"""

from __future__ import annotations


class Eagle3Error(Exception):
    """Base of every error raised for a user's fault; the command line prints it as one line."""

    exit_code = 1


class InvalidInputError(Eagle3Error):
    """A prompt, sampling parameter, flag or data row that cannot be served as asked."""

    exit_code = 2


class ConfigError(InvalidInputError):
    """A configuration file or value with an unknown key, a wrong type or a value out of range."""


class WeightsError(Eagle3Error):
    """Weights that are missing, truncated, of the wrong shape or not numbers."""

    exit_code = 3


class UnsupportedModelError(WeightsError):
    """A checkpoint whose architecture or feature flag this runtime does not implement."""


class DraftMismatchError(WeightsError):
    """A draft that was made for another target: widths, vocabulary or tap layers disagree."""


class NumericalError(Eagle3Error):
    """A model produced NaN or infinite logits; no token can be chosen from them."""

    exit_code = 4


class OverloadedError(Eagle3Error):
    """Too many requests wait already; the client may try again after `retry_after_s` seconds."""

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineUnavailableError(Eagle3Error):
    """The engine is not running: it failed to start, crashed while serving, or is being stopped."""

    exit_code = 5


class DeadlineError(Eagle3Error):
    """A request took longer than it may."""
