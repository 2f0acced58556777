"""Security groups and their rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Made, call
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.ec2_tags import RETAG, tagged
from infra.rehearsal.provider.templates import State

_ARN = "arn:{partition}:ec2:{region}:{account_id}:security-group/{id}"


def _inline(rule: Mapping[str, Any], group: str) -> dict[str, Any]:
    """A rule inside a group, as EC2 wants it."""
    permission: dict[str, Any] = {"IpProtocol": str(rule.get("protocol"))}
    if permission["IpProtocol"] != "-1":
        permission |= {"FromPort": int(rule["from_port"]), "ToPort": int(rule["to_port"])}
    permission["IpRanges"] = [{"CidrIp": cidr} for cidr in rule.get("cidr_blocks") or []]
    permission["Ipv6Ranges"] = [{"CidrIpv6": cidr} for cidr in rule.get("ipv6_cidr_blocks") or []]
    permission["PrefixListIds"] = [{"PrefixListId": each} for each in rule.get("prefix_list_ids") or []]
    groups = [*(rule.get("security_groups") or []), *([group] if rule.get("self") else [])]
    permission["UserIdGroupPairs"] = [{"GroupId": each} for each in groups]
    return {name: value for name, value in permission.items() if value != []}


def _set_rules(cloud: Cloud, prior: State, state: State) -> None:
    """Give a group exactly the rules that stand inside it; AWS starts it with one that lets everything out.

    Rules that are resources of their own are kept: a group whose configuration has no rule inside loses only AWS's own.
    """
    answer = cloud.call("ec2", "describe_security_groups", {"GroupIds": [state["id"]]})
    [group] = answer["SecurityGroups"]
    for side, member, revoke, authorize in (
        ("ingress", "IpPermissions", "revoke_security_group_ingress", "authorize_security_group_ingress"),
        ("egress", "IpPermissionsEgress", "revoke_security_group_egress", "authorize_security_group_egress"),
    ):
        wanted, had = state.get(side) or [], prior.get(side) or []
        if prior and wanted == had:
            continue
        old = [_inline(rule, state["id"]) for rule in had] if prior else group[member]
        if old:
            cloud.call("ec2", revoke, {"GroupId": state["id"], "IpPermissions": old})
        if wanted:
            permissions = [_inline(rule, state["id"]) for rule in wanted]
            cloud.call("ec2", authorize, {"GroupId": state["id"], "IpPermissions": permissions})


def _permissions(state: State) -> list[dict[str, Any]]:
    """A rule that is a resource of its own."""
    permission: dict[str, Any] = {"IpProtocol": state["ip_protocol"]}
    for name, member in (("from_port", "FromPort"), ("to_port", "ToPort")):
        if state.get(name) is not None:
            permission[member] = int(state[name])
    about = {"Description": state["description"]} if state.get("description") else {}
    for name, member, key in (
        ("cidr_ipv4", "IpRanges", "CidrIp"),
        ("cidr_ipv6", "Ipv6Ranges", "CidrIpv6"),
        ("prefix_list_id", "PrefixListIds", "PrefixListId"),
        ("referenced_security_group_id", "UserIdGroupPairs", "GroupId"),
    ):
        if state.get(name):
            permission[member] = [{key: state[name], **about}]
    return [permission]


def _rule(direction: str) -> Made:
    return Made(
        service="ec2",
        create=call(
            f"authorize_security_group_{direction}",
            GroupId="{security_group_id}",
            IpPermissions=_permissions,
            TagSpecifications=tagged("security-group-rule"),
        ),
        id="SecurityGroupRules[0].SecurityGroupRuleId",
        read=call("describe_security_group_rules", SecurityGroupRuleIds=["{id}"]),
        found="SecurityGroupRules[0]",
        outputs={
            "arn": "arn:{partition}:ec2:{region}:{account_id}:security-group-rule/{id}",
            "security_group_rule_id": "{id}",
        },
        update=[RETAG],
        delete=call(f"revoke_security_group_{direction}", GroupId="{security_group_id}", SecurityGroupRuleIds=["{id}"]),
    )


RESOURCES = {
    "aws_security_group": Made(
        service="ec2",
        create=call(
            "create_security_group",
            GroupName="{name}",
            # The provider's default, since EC2 wants one.
            Description=lambda state: state.get("description") or "Managed by Terraform",
            VpcId="{vpc_id}",
            TagSpecifications=tagged("security-group"),
        ),
        id="GroupId",
        more=[_set_rules],
        read=call("describe_security_groups", GroupIds=["{id}"]),
        found="SecurityGroups[0]",
        outputs={"arn": _ARN, "name": "GroupName", "ingress": "`[]`", "egress": "`[]`"},
        update=[_set_rules, RETAG],
        delete=call("delete_security_group", GroupId="{id}"),
    ),
    # The group that AWS makes with a VPC: taken over, not made, and left behind when the resource goes.
    "aws_default_security_group": Made(
        service="ec2",
        create=call(
            "describe_security_groups",
            Filters=[{"Name": "vpc-id", "Values": ["{vpc_id}"]}, {"Name": "group-name", "Values": ["default"]}],
        ),
        id="SecurityGroups[0].GroupId",
        more=[_set_rules, RETAG],
        read=call("describe_security_groups", GroupIds=["{id}"]),
        found="SecurityGroups[0]",
        outputs={"arn": _ARN, "name": "GroupName", "ingress": "`[]`", "egress": "`[]`"},
        update=[_set_rules, RETAG],
    ),
    "aws_vpc_security_group_ingress_rule": _rule("ingress"),
    "aws_vpc_security_group_egress_rule": _rule("egress"),
}
