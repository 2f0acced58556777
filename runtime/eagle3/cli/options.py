"""Flags that several commands share; `eagle3.cli.run.settings` reads them. Imports no library, so help is quick."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.config.embedded import EMBEDDED

# Setting: (attribute of the parsed arguments, flag).
MODEL_FLAGS = {
    "target": ("target", "--target"),
    "draft": ("draft", "--draft"),
    "dtype": ("dtype", "--dtype"),
    "quantize": ("quantize", "--quantize"),
    "device": ("device", "--device"),
    "threads": ("threads", "--threads"),
    "speculation.depth": ("depth", "--tree-depth"),
    "speculation.top_k": ("top_k", "--tree-top-k"),
    "speculation.nodes": ("nodes", "--tree-nodes"),
    "speculation.min_probability": ("min_probability", "--min-probability"),
    "speculation.drafters": ("drafters", "--drafters"),
}


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """--config, --target, --draft, --dtype, --device, --threads and the shape of the tree."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file of settings; EAGLE3_* variables and flags override it"
    )
    group.add_argument(
        "--target", metavar="PATH", help=f"model directory or .gguf file (default: {EMBEDDED}, SmolLM2-135M-Instruct)"
    )
    group.add_argument("--draft", metavar="PATH", help="EAGLE-3 draft directory (default: the one of the target)")
    group.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="of the weights (default: float32)")
    group.add_argument("--quantize", choices=["int8"], help="8-bit weights and activations, on CPUs (default: none)")
    group.add_argument("--device", metavar="DEVICE", help="torch device (default: cpu)")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: torch's choice)")
    group.add_argument(
        "--drafters",
        type=lambda text: text.split(","),
        metavar="NAMES",
        help="who guesses: eagle3 (the draft), suffix (repetitions; needs no draft) or both (default: eagle3,suffix)",
    )
    shape = parser.add_argument_group("draft tree")
    shape.add_argument("--tree-depth", dest="depth", type=int, metavar="N", help="levels below the root (default: 3)")
    shape.add_argument("--tree-top-k", dest="top_k", type=int, metavar="N", help="children per node (default: 4)")
    shape.add_argument("--tree-nodes", dest="nodes", type=int, metavar="N", help="nodes per cycle (default: 6)")
    shape.add_argument(
        "--min-probability", type=float, metavar="P", help="of a node, below which it is left out, 0 to 1 (default: 0)"
    )


def add_sampling_flags(parser: argparse.ArgumentParser) -> None:
    """One flag for each sampling parameter."""
    group = parser.add_argument_group("sampling")
    group.add_argument("--max-new-tokens", type=int, metavar="N", help="tokens generated at most (default: 128)")
    group.add_argument("--min-new-tokens", type=int, metavar="N", help="tokens before the text may end (default: 0)")
    group.add_argument("--temperature", type=float, metavar="T", help="0 takes the most probable token (default: 0)")
    group.add_argument("--top-k", dest="sample_top_k", type=int, metavar="N", help="tokens kept; 0: all (default: 0)")
    group.add_argument("--top-p", type=float, metavar="P", help="probability mass kept, above 0 up to 1 (default: 1)")
    group.add_argument("--min-p", type=float, metavar="P", help="least share of the top probability (default: 0)")
    group.add_argument("--repetition-penalty", type=float, metavar="R", help="above 0; 1 is none (default: 1)")
    group.add_argument("--presence-penalty", type=float, metavar="R", help="-2 to 2 (default: 0)")
    group.add_argument("--frequency-penalty", type=float, metavar="R", help="-2 to 2 (default: 0)")
    group.add_argument("--seed", type=int, metavar="N", help="makes sampled text repeatable (default: random)")
    group.add_argument("--stop", action="append", metavar="TEXT", help="text that ends the answer; may be repeated")
    group.add_argument("--stop-token-id", action="append", type=int, metavar="ID", help="may be repeated")
    group.add_argument("--ignore-eos", action="store_true", default=None, help="go on past end-of-text tokens")
    group.add_argument("--logprobs", type=int, metavar="N", help="report N alternatives per token (0 to 20)")
    group.add_argument("--json-schema", type=Path, metavar="FILE", help="JSON schema that the answer must match")
    group.add_argument("-n", type=int, metavar="N", help="answers per prompt (default: 1)")
