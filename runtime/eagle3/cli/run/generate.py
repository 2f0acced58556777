"""Runs `eagle3 generate`: prompts are read, encoded and answered on stdout as the tokens come."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eagle3.bench.tau import as_json
from eagle3.cli.run.settings import deployment_config, params_from
from eagle3.engine.answer import Answer
from eagle3.engine.llm import LLM
from eagle3.errors import InvalidInputError
from eagle3.models.tokenizer import Tokenizer
from eagle3.sampling.params import SamplingParams
from eagle3.train.conversations import prompt_of, read_jsonl


def run(args: argparse.Namespace) -> int:
    """Answer and print."""
    params = params_from(args)
    config = deployment_config(args)
    prompts = [args.prompt] if args.prompt is not None else read_prompts(args.prompts, None)
    if any(not prompt.strip() for prompt in prompts):
        raise InvalidInputError("the prompt is empty; give some text")
    if args.no_speculation:
        config = config.without_speculation()
    llm = LLM.from_config(config)
    for prompt in prompts:
        prompt_ids = encode(llm.tokenizer, prompt, raw=args.raw, system=args.system)
        for index in range(params.n):
            answer = stream_answer(llm, prompt_ids, params, index=index, echo=not args.json)
            if args.json:
                print(json.dumps(answer_json(answer)), flush=True)
    return 0


def read_prompts(path: Path, limit: int | None) -> list[str]:
    """First user turns of a JSONL file; InvalidInputError names the line of anything unreadable."""
    if limit is not None and limit < 1:
        raise InvalidInputError(f"--limit must be at least 1; got {limit}")
    prompts = [prompt_of(row, f"{path}, line {number}") for number, row in read_jsonl(path)]
    if not prompts:
        raise InvalidInputError(f"{path} holds no prompts")
    return prompts[:limit]


def encode(tokenizer: Tokenizer, prompt: str, *, raw: bool, system: str | None) -> list[int]:
    """Token ids of a prompt, under the chat template unless `raw` or there is none."""
    if raw or not tokenizer.has_chat_template:
        return tokenizer.encode(prompt)
    messages = [{"role": "system", "content": system}] if system else []
    return tokenizer.encode_chat([*messages, {"role": "user", "content": prompt}])


def answer_json(answer: Answer) -> dict[str, Any]:
    """An answer as a JSON object."""
    report: dict[str, Any] = {
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "finish_reason": answer.finish_reason,
        **as_json(answer.stats),
    }
    if answer.logprobs is not None:
        report["logprobs"] = [
            {"token_id": entry.token_id, "logprob": entry.logprob, "top": [list(pair) for pair in entry.top]}
            for entry in answer.logprobs
        ]
    return report


def stream_answer(
    llm: LLM, prompt_ids: Sequence[int], params: SamplingParams, *, index: int = 0, echo: bool = True
) -> Answer:
    """Make one answer, its text written to stdout as it comes if `echo`."""
    for piece in llm.stream(prompt_ids, params, index=index):
        if echo:
            sys.stdout.write(piece.text)
            sys.stdout.flush()
        if piece.answer is not None:
            if echo:
                sys.stdout.write("\n")
            return piece.answer
    raise AssertionError("a stream ends with its answer")
