"""The provider's configuration turned into a local AWS to work on.

Knows the provider's `region` and `default_tags` blocks and the environment; of the rest (credentials, roles, endpoints)
nothing is needed here. Invariant: without the URL of a local AWS there is nothing to work on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eagle3.errors import ConfigError
from infra.rehearsal.provider.changes import Changes
from infra.rehearsal.provider.cloud import AWS_ERRORS, ENDPOINT, cloud_at
from infra.rehearsal.provider.planning import Defaults
from infra.rehearsal.provider.registry import collect
from infra.rehearsal.provider.report import REPORT, Report


def connected(config: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[Changes, Defaults]:
    """The changes that can be made there, and what the configuration adds to every resource."""
    region = config.get("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError("no region; set `region` of the provider, or AWS_REGION")
    cloud = cloud_at(environment.get(ENDPOINT), region)
    try:
        account = cloud.call("sts", "get_caller_identity", {})["Account"]
    except AWS_ERRORS as error:
        raise ConfigError(f"the local AWS at {cloud.endpoint} does not answer: {error}") from error
    path = environment.get(REPORT)
    report = Report(Path(path) if path else None)
    tags = {
        key: value for block in config.get("default_tags") or [] for key, value in (block.get("tags") or {}).items()
    }
    changes = Changes(cloud=replace(cloud, account_id=account), registry=collect(), report=report)
    return changes, Defaults(region=region, tags=tags)
