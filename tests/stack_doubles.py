"""The product's own stacks, synthesized once a test run for each set of settings."""

from __future__ import annotations

import json
import tempfile
from datetime import date
from functools import cache
from pathlib import Path

from infra.app import STACKS, build_app
from infra.settings.load import load_settings
from infra_doubles import Synthesized

TODAY = date(2026, 12, 1)

_EDGE = (
    "large.network.nat=per-zone; large.components.load_balancer_controller={version: 3.5.0, enabled: true};"
    "large.edge={enabled: true, domain_name: api.example.com,"
    " certificate_arn: 'arn:aws:acm:us-east-1:123456789012:certificate/a',"
    " origin_certificate_arn: 'arn:aws:acm:us-east-1:123456789012:certificate/b'};"
    "large.cluster.cloudwatch_agent={container_logs: true, container_insights: true};"
    "large.cluster.administrators=['arn:aws:iam::123456789012:role/admin']; audit.log_group=true;"
    "alarms.emails=[ops@example.com]; alarms.webhooks=['https://hooks.example.com/a'];"
    "large.network.flow_logs.destination=cloudwatch"
)

# Every stack as it is by default, and with what is off by default, so that tests of whole stacks see every construct.
VARIANTS = {
    "bootstrap": ("bootstrap", "dev", ""),
    "small": ("small", "dev", ""),
    "medium": ("medium", "dev", ""),
    "large": ("large", "dev", ""),
    "large with edge": ("large", "dev", _EDGE),
    "small async": (
        "small",
        "dev",
        "small.endpoint={mode: async, weights: {source: s3, s3_prefix: models/llama/}};"
        "small.deployment={target: target, draft: draft}",
    ),
    "small serverless": (
        "small",
        "dev",
        "small.endpoint={mode: serverless}",
    ),
    "medium on vllm": (
        "medium",
        "dev",
        "medium.endpoint.image={container: vllm}; medium.endpoint.data_capture_percent=10;"
        "medium.endpoint.weights={source: s3, s3_prefix: models/llama/}; medium.endpoint.rollout.strategy=LINEAR;"
        "medium.deployment={target: target, draft: draft, engine: {tensor_parallel: 4}}",
    ),
    "prod large": ("large", "prod", ""),
}


@cache
def text(name: str, environment: str = "dev", overrides: str = "") -> str:
    """The Terraform JSON of a stack as text."""
    settings = load_settings(environment, overrides)
    with tempfile.TemporaryDirectory() as folder:
        build_app(settings, today=TODAY, stacks=[name], outdir=folder).synth()
        return (Path(folder) / "stacks" / name / "cdk.tf.json").read_text(encoding="utf-8")


def stack(name: str, environment: str = "dev", overrides: str = "") -> Synthesized:
    """One stack of the product."""
    assert name in STACKS
    return Synthesized(document=json.loads(text(name, environment, overrides)))


def variant(name: str) -> Synthesized:
    """One of VARIANTS."""
    return stack(*VARIANTS[name])
