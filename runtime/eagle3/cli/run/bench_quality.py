"""Runs `eagle3 bench quality`: loads the target twice, as float32 and quantised, and compares them on texts."""

from __future__ import annotations

import argparse
import json
import sys

from tqdm import tqdm

from eagle3.bench.quality import Quality, Text, measure_quality, quality_json, quality_table
from eagle3.cli.run.generate import encode, read_prompts
from eagle3.cli.run.settings import deployment_config
from eagle3.config.deployment import DeploymentConfig
from eagle3.engine.loading import load_models
from eagle3.errors import ConfigError, InvalidInputError
from eagle3.models.tokenizer import Tokenizer


def run(args: argparse.Namespace) -> int:
    """Measure and print."""
    config = deployment_config(args).without_speculation()
    if config.dtype != "float32" or config.device != "cpu":
        raise ConfigError(
            f"bench quality compares with float32 on the CPU; got dtype {config.dtype} and device {config.device}; "
            "leave --dtype and --device out"
        )
    quantize = config.quantize or "int8"
    prompts = read_prompts(args.prompts, args.limit)
    quantized = load_models(config.model_copy(update={"quantize": quantize}))
    exact = load_models(config.model_copy(update={"quantize": None}))
    texts = _texts(exact.tokenizer, prompts, exact.target.arch.max_position, config)
    with tqdm(total=len(texts), unit="text", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def on_text(result: Quality) -> None:
            bar.update()
            bar.set_postfix(agreement=f"{result.agreement:.2%}")

        result = measure_quality(exact.target, quantized.target, texts, on_text=on_text)
    if args.json:
        print(json.dumps({"quantize": quantize, **quality_json(result)}))
    else:
        print(quality_table(result, quantize))
    return 0


def _texts(tokenizer: Tokenizer, prompts: list[str], context: int, config: DeploymentConfig) -> list[Text]:
    """The prompts under the chat template, counted from where the user's text begins: before it all are the same."""
    begin = len(tokenizer.chat_prefix()) if tokenizer.has_chat_template else 0
    texts = []
    for prompt in prompts:
        token_ids = encode(tokenizer, prompt, raw=False, system=None)
        if len(token_ids) > context:
            raise InvalidInputError(
                f"a prompt has {len(token_ids)} tokens; the context of {config.target} is {context}; shorten it"
            )
        if len(token_ids) > max(1, begin):
            texts.append(Text(token_ids=tuple(token_ids), begin=max(1, begin)))
    if not texts:
        raise InvalidInputError("no prompt has a token that could be predicted; give longer texts")
    return texts
