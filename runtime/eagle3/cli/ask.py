"""`eagle3 ask`: one question to what was deployed, the answer on stdout as it comes."""

from __future__ import annotations

import argparse

from eagle3.cli.deferred import Deferred


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "ask",
        help="ask a deployed endpoint or server",
        description="Ask a SageMaker endpoint or a server that speaks OpenAI's API, and print the answer as it comes. "
        "Changes nothing. An API key for --url is taken from EAGLE3KIT_API_KEY, else from OPENAI_API_KEY.",
    )
    parser.add_argument(
        "prompt", nargs="+", metavar="PROMPT", help="the question; words are joined by blanks; - reads it from stdin"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--endpoint", metavar="NAME", help="SageMaker endpoint (output EndpointName of the stack)")
    where.add_argument("--url", metavar="URL", help="server with OpenAI's API, such as http://127.0.0.1:8080")
    aws = parser.add_argument_group("AWS, with --endpoint")
    aws.add_argument("--region", metavar="REGION", help="of the endpoint (default: AWS_REGION, or the profile's)")
    aws.add_argument("--profile", metavar="NAME", help="of the AWS configuration (default: AWS_PROFILE)")
    aws.add_argument(
        "--sdk", choices=["boto3", "sagemaker"], default="boto3",
        help="whose clients are used; the SageMaker SDK takes seconds to load (default: %(default)s)",
    )  # fmt: skip
    answer = parser.add_argument_group("answer")
    answer.add_argument("--model", metavar="NAME", help="of the server's models (default: the only one)")
    answer.add_argument("--system", metavar="TEXT", help="system message (default: none)")
    answer.add_argument("--max-tokens", type=int, metavar="N", help="tokens at most (default: the server's limit)")
    answer.add_argument("--temperature", type=float, metavar="T", help="0 to 100 (default: the server's, 1)")
    answer.add_argument("--top-p", type=float, metavar="P", help="probability mass kept, above 0 up to 1 (default: 1)")
    answer.add_argument("--seed", type=int, metavar="N", help="makes sampled text repeatable (default: random)")
    answer.add_argument("--no-stream", action="store_true", help="wait for the whole answer")
    answer.add_argument("--json", action="store_true", help="one JSON object with text, usage and rates, at the end")
    answer.add_argument(
        "--timeout-s", type=float, default=300.0, metavar="S",
        help="seconds for the whole answer, and without any piece of it (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--verbose", action="store_true", default=argparse.SUPPRESS, help="usage and rates on stderr; log at level INFO"
    )
    parser.set_defaults(run=Deferred("eagle3.cli.run.ask:run"))
