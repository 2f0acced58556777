"""`eagle3 serve`: the OpenAI- and SageMaker-compatible server."""

from __future__ import annotations

import argparse
from pathlib import Path

from eagle3.cli.deferred import Deferred
from eagle3.cli.options import add_model_flags

# Setting: (attribute of the parsed arguments, flag).
SERVER_FLAGS = {
    "serving.host": ("host", "--host"),
    "serving.port": ("port", "--port"),
    "serving.model_name": ("model_name", "--model-name"),
    "serving.api_keys_file": ("api_keys_file", "--api-keys-file"),
    "serving.log_level": ("log_level", "--log-level"),
    "engine.name": ("engine", "--engine"),
    "limits.concurrency": ("concurrency", "--concurrency"),
    "limits.queue": ("queue", "--queue"),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "serve",
        help="answer over HTTP (OpenAI, SageMaker)",
        description=f"{__doc__} Settings: defaults, then --config, then EAGLE3_* variables, then flags.",
    )
    group = parser.add_argument_group("server")
    group.add_argument("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", type=int, metavar="N", help="port to listen on; 0 takes a free one (default: 8080)")
    group.add_argument("--engine", choices=["native", "vllm", "sglang"], help="what generates (default: native)")
    group.add_argument("--model-name", metavar="NAME", help="name of the model in the API (default: the target's)")
    group.add_argument("--api-keys-file", type=Path, metavar="FILE", help="lines `name:key` (default: open access)")
    group.add_argument("--concurrency", type=int, metavar="N", help="requests in the engine at a time (default: 64)")
    group.add_argument("--queue", type=int, metavar="N", help="requests waiting at most (default: 256)")
    group.add_argument(
        "--log-level", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="of the log on stderr (default: WARNING)"
    )
    add_model_flags(parser)
    parser.set_defaults(run=Deferred("eagle3.cli.run.serve:run"))
