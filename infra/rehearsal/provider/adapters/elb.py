"""Load balancers, target groups, listeners and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Made, call, fill
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State

# Names that the service has for attributes. Those the local AWS does not know are left out, as it refuses them.
_BALANCER = {
    "deletion_protection.enabled": "enable_deletion_protection",
    "idle_timeout.timeout_seconds": "idle_timeout",
    "routing.http.drop_invalid_header_fields.enabled": "drop_invalid_header_fields",
    "routing.http.desync_mitigation_mode": "desync_mitigation_mode",
    "routing.http2.enabled": "enable_http2",
    "routing.http.preserve_host_header.enabled": "preserve_host_header",
}
_GROUP = {
    "deregistration_delay.timeout_seconds": "deregistration_delay",
    "load_balancing.algorithm.type": "load_balancing_algorithm_type",
    "slow_start.duration_seconds": "slow_start",
}
_HEALTH = {
    "HealthCheckEnabled": "enabled",
    "HealthCheckPath": "path",
    "HealthCheckPort": "port",
    "HealthCheckProtocol": "protocol",
    "HealthCheckIntervalSeconds": "interval",
    "HealthCheckTimeoutSeconds": "timeout",
    "HealthyThresholdCount": "healthy_threshold",
    "UnhealthyThresholdCount": "unhealthy_threshold",
}


def _attributes(state: State, names: Mapping[str, str]) -> list[dict[str, str]]:
    values = {name: state.get(attribute) for name, attribute in names.items()}
    return [{"Key": name, "Value": _text(value)} for name, value in values.items() if value is not None]


def _balancer_attributes(state: State) -> list[dict[str, str]]:
    found = _attributes(state, _BALANCER)
    for logs in state.get("access_logs") or []:
        given = {"s3.enabled": logs.get("enabled"), "s3.bucket": logs.get("bucket"), "s3.prefix": logs.get("prefix")}
        found += [{"Key": f"access_logs.{name}", "Value": _text(value)} for name, value in given.items() if value]
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _health(member: str) -> Any:
    """The value of a member that says how targets are checked."""
    attribute = _HEALTH[member]
    return lambda state: next((block.get(attribute) for block in state.get("health_check") or []), None)


def _matcher(state: State) -> dict[str, str] | None:
    return next(({"HttpCode": block["matcher"]} for block in state.get("health_check") or [] if block["matcher"]), None)


def _actions(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Actions, whose blocks the service calls by longer names."""
    found = []
    for block in blocks:
        action: dict[str, Any] = {
            "Type": block["type"], "Order": block.get("order"), "TargetGroupArn": block.get("target_group_arn"),
        }  # fmt: skip
        for name, member in (("redirect", "RedirectConfig"), ("fixed_response", "FixedResponseConfig")):
            for inner in block.get(name) or []:
                action[member] = inner
        for forward in block.get("forward") or []:
            groups = [{"TargetGroupArn": g["arn"], "Weight": g.get("weight")} for g in forward["target_group"]]
            action["ForwardConfig"] = {"TargetGroups": groups}
        found.append(action)
    return found


def _conditions(state: State) -> list[dict[str, Any]]:
    names = {
        "path_pattern": "path-pattern", "host_header": "host-header", "http_request_method": "http-request-method",
        "source_ip": "source-ip", "http_header": "http-header",
    }  # fmt: skip
    return [
        {"Field": field, f"{_camel(name)}Config": inner}
        for block in state["condition"]
        for name, field in names.items()
        for inner in block.get(name) or []
    ]


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _certificates(state: State) -> list[dict[str, str]] | None:
    arn = state.get("certificate_arn")
    return [{"CertificateArn": arn}] if arn else None


def _arn_suffix(cloud: Cloud, state: State) -> str:
    """The part of the ARN that metrics have as a dimension."""
    resource = str(state["id"]).split(":", 5)[5]
    return resource.removeprefix("loadbalancer/")


_SET_BALANCER = call(
    "modify_load_balancer_attributes",
    LoadBalancerArn="{id}",
    Attributes=_balancer_attributes,
    when=[*_BALANCER.values(), "access_logs"],
)
_SET_GROUP = call(
    "modify_target_group_attributes",
    TargetGroupArn="{id}",
    Attributes=lambda state: _attributes(state, _GROUP),
    when=list(_GROUP.values()),
)
_TAGS = call("add_tags", ResourceArns=["{id}"], Tags="{tags_all}", when=["tags_all"])

RESOURCES = {
    "aws_lb": Made(
        service="elbv2",
        create=fill(
            "create_load_balancer",
            Type="{load_balancer_type}",
            Scheme=lambda state: "internal" if state.get("internal") else "internet-facing",
        ),
        id="LoadBalancers[0].LoadBalancerArn",
        more=[_SET_BALANCER],
        read=call("describe_load_balancers", LoadBalancerArns=["{id}"]),
        found="LoadBalancers[0]",
        outputs={
            "arn": "{id}",
            "arn_suffix": _arn_suffix,
            "dns_name": "DNSName",
            "zone_id": "CanonicalHostedZoneId",
            "subnets": "AvailabilityZones[].SubnetId",
        },
        update=[_SET_BALANCER, _TAGS],
        delete=call("delete_load_balancer", LoadBalancerArn="{id}"),
    ),
    "aws_lb_target_group": Made(
        service="elbv2",
        create=fill("create_target_group", Matcher=_matcher, **{member: _health(member) for member in _HEALTH}),
        id="TargetGroups[0].TargetGroupArn",
        more=[_SET_GROUP],
        read=call("describe_target_groups", TargetGroupArns=["{id}"]),
        found="TargetGroups[0]",
        outputs={"arn": "{id}", "arn_suffix": _arn_suffix},
        update=[_SET_GROUP, _TAGS],
        delete=call("delete_target_group", TargetGroupArn="{id}"),
    ),
    "aws_lb_listener": Made(
        service="elbv2",
        create=fill(
            "create_listener",
            Certificates=_certificates,
            DefaultActions=lambda state: _actions(state["default_action"]),
        ),
        id="Listeners[0].ListenerArn",
        read=call("describe_listeners", ListenerArns=["{id}"]),
        found="Listeners[0]",
        outputs={"arn": "{id}"},
        update=[
            fill(
                "modify_listener",
                ListenerArn="{id}",
                Certificates=_certificates,
                DefaultActions=lambda state: _actions(state["default_action"]),
                when=["port", "protocol", "ssl_policy", "certificate_arn", "default_action"],
            ),
            _TAGS,
        ],
        delete=call("delete_listener", ListenerArn="{id}"),
    ),
    "aws_lb_listener_rule": Made(
        service="elbv2",
        create=fill("create_rule", Conditions=_conditions, Actions=lambda state: _actions(state["action"])),
        id="Rules[0].RuleArn",
        read=call("describe_rules", RuleArns=["{id}"]),
        found="Rules[0]",
        outputs={"arn": "{id}"},
        update=[
            call(
                "modify_rule",
                RuleArn="{id}",
                Conditions=_conditions,
                Actions=lambda state: _actions(state["action"]),
                when=["condition", "action"],
            ),
            _TAGS,
        ],
        delete=call("delete_rule", RuleArn="{id}"),
    ),
}
