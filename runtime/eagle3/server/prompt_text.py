"""Texts of prompts and messages: what they may hold, and their token ids.

Long texts are encoded in a thread, so that other clients' streams go on. Knows no HTTP.
Invariant: a prompt that comes out of here has at least one token and leaves room in the context for one more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from eagle3.models.tokenizer import Message
from eagle3.server.gateway import Gateway
from eagle3.server.refusals import RequestRefusedError

# Unicode's category Cc without tab, line feed and carriage return.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_THREAD_FROM_CHARACTERS = 10_000
_Result = TypeVar("_Result")


def check_text(text: str, param: str) -> None:
    """Refuse control characters."""
    found = _CONTROL.search(text)
    if found:
        raise RequestRefusedError(
            f"{param} holds the control character U+{ord(found[0]):04X} at character {found.start()}; only tab, line "
            "feed and carriage return are allowed, remove the others",
            param=param,
        )


async def encode_texts(gateway: Gateway, texts: Sequence[str], param: str) -> list[list[int]]:
    """Token ids of raw prompts."""
    for place, text in enumerate(texts):
        name = param if len(texts) == 1 else f"{param}.{place}"
        if not text:
            raise RequestRefusedError(f"{name} is empty; send at least one character", param=param)
        check_text(text, name)
        _check_length(gateway, len(text), name)
    encode = gateway.tokenizer.encode
    return await _off_loop(sum(map(len, texts)), lambda: [encode(text) for text in texts])


async def encode_messages(gateway: Gateway, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation, up to where the answer begins."""
    for place, message in enumerate(messages):
        for key, text in message.items():
            check_text(text, f"messages.{place}.{key}")
    size = sum(len(text) for message in messages for text in message.values())
    _check_length(gateway, size, "messages")
    return await _off_loop(size, lambda: gateway.tokenizer.encode_chat(messages))


def check_prompt(gateway: Gateway, prompt_ids: Sequence[int], param: str) -> None:
    """Refuse a prompt of no tokens, too many, or ids that the model does not have."""
    most = most_prompt_tokens(gateway)
    if not prompt_ids:
        raise RequestRefusedError(f"{param} is empty; send at least one token", param=param)
    if len(prompt_ids) > most:
        raise RequestRefusedError(
            f"{param} has {len(prompt_ids)} tokens; at most {most} are allowed (the model's context is "
            f"{gateway.context_tokens} tokens), shorten it",
            param=param,
        )
    if max(prompt_ids) >= gateway.vocab_size or min(prompt_ids) < 0:
        wrong = next(token_id for token_id in prompt_ids if not 0 <= token_id < gateway.vocab_size)
        raise RequestRefusedError(
            f"{param}: token id {str(wrong)[:40]} is outside the model's vocabulary, 0 to {gateway.vocab_size - 1}",
            param=param,
        )


def most_prompt_tokens(gateway: Gateway) -> int:
    """Tokens that a prompt may have."""
    room = gateway.context_tokens - 1
    return room if gateway.limits.max_prompt_tokens is None else min(gateway.limits.max_prompt_tokens, room)


def _check_length(gateway: Gateway, size: int, param: str) -> None:
    """Refuse without encoding what cannot fit, even if it were all of the longest token."""
    most = most_prompt_tokens(gateway)
    if size > most * gateway.tokenizer.longest_token:
        raise RequestRefusedError(
            f"{param} has {size} characters, which is more than {most} tokens can hold; shorten it", param=param
        )


async def _off_loop(size: int, work: Callable[[], _Result]) -> _Result:
    return await asyncio.to_thread(work) if size > _THREAD_FROM_CHARACTERS else work()
