"""Distributions; the policies and origins that they name are recorded."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Made, Recorded, call
from infra.rehearsal.provider.blocks import request
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.shapes import Exactly
from infra.rehearsal.provider.templates import State

# CloudFront's own zone, for alias records.
_ZONE = "Z2FDTNDATAQYW2"
_ARN = "arn:{partition}:cloudfront::{account_id}"


def _behavior(block: Mapping[str, Any]) -> dict[str, Any]:
    methods = {"items": block.get("allowed_methods"), "cached_methods": block.get("cached_methods")}
    return {**block, "allowed_methods": [methods], "cached_methods": None}


def _config(state: State, reference: str) -> Any:
    """The distribution, under the names that the service has for its blocks."""
    logging = [
        {**each, "enabled": True, "include_cookies": bool(each["include_cookies"])}
        for each in _of(state, "logging_config")
    ]
    restrictions = [
        {"geo_restriction": [{**geo, "items": geo.get("locations") or []}]}
        for block in _of(state, "restrictions")
        for geo in _of(block, "geo_restriction")
    ]
    given = {
        **state,
        "caller_reference": reference,
        "comment": state.get("comment") or "-",
        "origins": [{**origin, "id": origin["origin_id"]} for origin in _of(state, "origin")],
        "default_cache_behavior": [_behavior(block) for block in _of(state, "default_cache_behavior")],
        "cache_behaviors": [_behavior(block) for block in _of(state, "ordered_cache_behavior")],
        "custom_error_responses": _of(state, "custom_error_response"),
        "logging": logging,
        "restrictions": restrictions,
    }
    return request("cloudfront", "DistributionConfig", given).value


def _of(state: Mapping[str, Any], block: str) -> list[dict[str, Any]]:
    return state.get(block) or []


def _new(state: State) -> Exactly:
    tags = [{"Key": name, "Value": value} for name, value in sorted((state.get("tags_all") or {}).items())]
    config = _config(state, f"terraform-{secrets.token_hex(9)}")
    return Exactly({"DistributionConfig": config, "Tags": {"Items": tags}})


def _change(cloud: Cloud, prior: State, planned: State) -> None:
    config = _config(planned, str(prior["caller_reference"]))
    parameters = {"Id": planned["id"], "IfMatch": prior["etag"], "DistributionConfig": config}
    cloud.call("cloudfront", "update_distribution", parameters)


RESOURCES = {
    "aws_cloudfront_distribution": Made(
        service="cloudfront",
        create=call("create_distribution_with_tags", DistributionConfigWithTags=_new),
        id="Distribution.Id",
        read=call("get_distribution", Id="{id}"),
        outputs={
            "arn": "Distribution.ARN",
            "caller_reference": "Distribution.DistributionConfig.CallerReference",
            "domain_name": "Distribution.DomainName",
            "etag": "ETag",
            "hosted_zone_id": lambda cloud, state: _ZONE,
            "status": "Distribution.Status",
        },
        update=[
            _change,
            call("tag_resource", Resource="{arn}", Tags={"Items": "{tags_all}"}, when=["tags_all"]),
        ],
        volatile=frozenset({"etag", "last_modified_time", "status"}),
        delete=call("delete_distribution", Id="{id}", IfMatch="{etag}"),
    ),
    "aws_cloudfront_vpc_origin": Recorded(
        reason="the local AWS has no VPC origins",
        id="vo_{token}",
        outputs={"arn": f"{_ARN}:vpcorigin/{{id}}", "etag": "E{token}"},
    ),
    "aws_cloudfront_cache_policy": Recorded(
        reason="the local AWS has no cache policies",
        id="{token}",
        outputs={"arn": f"{_ARN}:cache-policy/{{id}}", "etag": "E{token}"},
    ),
    "aws_cloudfront_response_headers_policy": Recorded(
        reason="the local AWS has no response headers policies",
        id="{token}",
        outputs={"arn": f"{_ARN}:response-headers-policy/{{id}}", "etag": "E{token}"},
    ),
}
