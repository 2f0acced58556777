"""Runs `eagle3 ask`: reads the prompt, asks, prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

from eagle3.errors import InvalidInputError
from eagle3.ops.ask.answer import Answer, AnswerReader
from eagle3.ops.ask.aws_fault import aws_fault
from eagle3.ops.ask.endpoint import ask_endpoint
from eagle3.ops.ask.endpoint_clients import endpoint_clients
from eagle3.ops.ask.endpoint_state import checked_name
from eagle3.ops.ask.question import Question, checked_timeout
from eagle3.ops.ask.url import api_key, ask_url, base_url


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    question = Question(
        prompt=read_prompt(args.prompt, sys.stdin),
        system=args.system,
        model=args.model,
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        top_p=args.top_p,
        seed=args.seed,
        stream=not args.no_stream,
    )
    timeout_s = checked_timeout(args.timeout_s)
    objects = _objects(args, question, timeout_s, os.environ)
    reader = AnswerReader(clock=time.monotonic, timeout_s=timeout_s)  # after libraries and credentials were loaded
    answer = print_answer(objects, reader, sys.stdout, echo=not args.json)
    if args.json:
        print(json.dumps(answer.as_json()))
    if args.verbose:
        print(answer.summary(), file=sys.stderr)
    return 0


def read_prompt(words: Sequence[str], stdin: TextIO) -> str:
    """The words joined, or all of stdin for a single "-"; InvalidInputError if that is not UTF-8."""
    if list(words) != ["-"]:
        return " ".join(words)
    try:
        return stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the prompt on stdin is no UTF-8: {error}") from error


def print_answer(objects: Iterator[Mapping[str, Any]], reader: AnswerReader, out: TextIO, *, echo: bool) -> Answer:
    """Read the answer to its end; with `echo` its text is written and flushed as it comes, a line end after it."""
    wrote = False
    try:
        for item in objects:
            text = reader.take(item)
            if echo and text:
                wrote = True  # before it is, so that an interrupt in between leaves no open line
                out.write(text)
                out.flush()
        return reader.finish()
    finally:
        # Also after an error or Ctrl-C, whose message then begins a line.
        if wrote:
            out.write("\n")
            out.flush()


def _objects(
    args: argparse.Namespace, question: Question, timeout_s: float, environ: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    if args.url is not None:
        if args.region is not None or args.profile is not None or args.sdk != "boto3":
            raise InvalidInputError("--region, --profile and --sdk belong to --endpoint; leave them out with --url")
        return ask_url(base_url(args.url), question, key=api_key(environ), timeout_s=timeout_s)
    name = checked_name(args.endpoint)
    try:
        clients = endpoint_clients(
            region=args.region, profile=args.profile, timeout_s=timeout_s, sdk=args.sdk, environ=environ
        )
    except Exception as error:
        if not type(error).__module__.startswith("botocore."):
            raise
        raise aws_fault(error, f"ask the endpoint {name}") from error
    return ask_endpoint(clients, name, question)
