"""What was asked for on the command line, checked: alarm, stack, time, server, AWS account.

Knows no collector. Invariant: whatever is wrong with a word is one `InvalidInputError` with what is allowed; nothing is
asked of anybody before that.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError

from eagle3.errors import InvalidInputError
from infra.diagnosis.aws_reader import AwsReader
from infra.diagnosis.evidence import ClusterAccess, NotSeen, ServerAccess, StackName
from infra.observability.alarm_catalogue import ALARMS, BUDGET

KEY_VARIABLE = "EAGLE3KIT_API_KEY"
_SITE = re.compile(r"^[a-z][a-z0-9-]{0,31}$")
_REGION = re.compile(r"^[a-z]{2,3}(-[a-z]+)+-\d{1,2}$")
_SPAN = re.compile(r"^(?P<number>\d{1,5})(?P<unit>[smhd])$")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SHORTEST, _LONGEST = timedelta(minutes=1), timedelta(days=14)
_OF_CLUSTERS = {"cluster", "spot_rule", "interruption_queue", "bootstrap", "load_balancer"}
_OF_ENDPOINTS = {"endpoint", "asynchronous"}


def alarm_named(name: str) -> str:
    """An alarm of the catalogue, or the budget; else InvalidInputError with the nearest name."""
    names = [*(alarm.name for alarm in ALARMS), BUDGET]
    if name in names:
        return name
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.0)[0]
    raise InvalidInputError(f"there is no alarm {name!r}; the nearest is {near}; `eagle3 runbook list` has all of them")


def stacks_of(alarm: str) -> tuple[StackName, ...]:
    """Stacks that can have an alarm."""
    needs = next((set(one.needs) for one in ALARMS if one.name == alarm), set())
    if needs & _OF_CLUSTERS:
        return ("large",)
    return ("small", "medium") if needs & _OF_ENDPOINTS else ("small", "medium", "large")


def site_named(name: str | None, alarm: str) -> tuple[str, StackName]:
    """A stack's name and which stack it is; None: that of the environment dev."""
    allowed = stacks_of(alarm)
    site = f"eagle3-dev-{allowed[0]}" if name is None else name
    stack = next((one for one in ("small", "medium", "large") if site.endswith(f"-{one}")), None)
    if _SITE.match(site) is None or stack is None:
        raise InvalidInputError(
            f"--site must be a stack's name such as eagle3-dev-small (name-environment-stack, 32 characters at most); "
            f"got {site!r}"
        )
    found: StackName = stack  # type: ignore[assignment]
    if found not in allowed:
        raise InvalidInputError(f"stack {found} has no alarm {alarm}; it belongs to: {', '.join(allowed)}")
    return site, found


def span(text: str) -> timedelta:
    """A time such as "60m"."""
    found = _SPAN.match(text)
    length = None if found is None else timedelta(**{_UNITS[found["unit"]]: int(found["number"])})
    if length is None or not _SHORTEST <= length <= _LONGEST:
        raise InvalidInputError(f"--since must be a time from 1m to 14d, such as 90m, 6h or 2d; got {text!r}")
    return length


def server_at(url: str | None, environ: Mapping[str, str]) -> ServerAccess | None:
    """A server by its address; its key comes from the environment, never from the command line."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        whole = False
    if not whole or parts.query or parts.fragment or parts.username:
        raise InvalidInputError(f"--url must be http://host:port or https://host, without user or query; got {url!r}")
    return ServerAccess(url=url.rstrip("/"), key=environ.get(KEY_VARIABLE) or None)


def account(region: str | None, profile: str | None, environ: Mapping[str, str]) -> AwsReader | NotSeen:
    """A reader of the account, or why there is none; InvalidInputError for a profile or region that cannot be."""
    try:
        session = boto3.Session(profile_name=profile, region_name=region)
        credentials = session.get_credentials()
    except BotoCoreError as error:
        if profile is not None or "AWS_PROFILE" in environ:
            raise InvalidInputError(f"AWS: {error}; name a profile of ~/.aws/config with --profile") from error
        return NotSeen(source="AWS", reason=" ".join(str(error).split()))
    where = session.region_name
    if where is not None and _REGION.match(where) is None:
        raise InvalidInputError(f"--region must be a region's name such as us-east-1; got {where!r}")
    if credentials is None:
        return NotSeen(source="AWS", reason="no credentials; set AWS_PROFILE, or name a profile with --profile")
    if where is None:
        return NotSeen(source="AWS", reason="no region; set AWS_REGION, or name it with --region")
    return AwsReader(session=session, region=where)


def nothing_to_look_at(
    aws: AwsReader | NotSeen, server: ServerAccess | None, cluster: ClusterAccess | None
) -> str | None:
    """Why a diagnosis cannot even begin; None if it can."""
    if isinstance(aws, AwsReader) or server is not None or cluster is not None:
        return None
    return f"nothing to look at: AWS: {aws.reason}; or name a server with --url, or a cluster with --context"
