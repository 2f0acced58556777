"""Roles, policies, what attaches them, instance profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Made, call
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State

_VERSIONS_KEPT = 5  # IAM's limit


def _free_role(cloud: Cloud, state: State) -> None:
    """What the provider does before it deletes a role that says so."""
    if not state.get("force_detach_policies"):
        return
    role = {"RoleName": state["name"]}
    for each in cloud.call("iam", "list_attached_role_policies", role)["AttachedPolicies"]:
        cloud.call("iam", "detach_role_policy", {**role, "PolicyArn": each["PolicyArn"]})
    for name in cloud.call("iam", "list_role_policies", role)["PolicyNames"]:
        cloud.call("iam", "delete_role_policy", {**role, "PolicyName": name})


def _new_version(cloud: Cloud, prior: State, state: State) -> None:
    """A policy changes by a new version; the oldest makes room."""
    if prior.get("policy") == state.get("policy"):
        return
    arn = {"PolicyArn": state["id"]}
    others = _other_versions(cloud, arn)
    if len(others) == _VERSIONS_KEPT - 1:
        cloud.call("iam", "delete_policy_version", {**arn, "VersionId": others[-1]})
    request = {**arn, "PolicyDocument": state["policy"], "SetAsDefault": True}
    cloud.call("iam", "create_policy_version", request)


def _drop_versions(cloud: Cloud, state: State) -> None:
    arn = {"PolicyArn": state["id"]}
    for version in _other_versions(cloud, arn):
        cloud.call("iam", "delete_policy_version", {**arn, "VersionId": version})


def _other_versions(cloud: Cloud, arn: Mapping[str, Any]) -> list[str]:
    """Versions that are not the default, newest first."""
    versions = cloud.call("iam", "list_policy_versions", arn)["Versions"]
    others = [each["VersionId"] for each in versions if not each["IsDefaultVersion"]]
    return sorted(others, key=lambda name: int(name.removeprefix("v")), reverse=True)


def _attachment(answer: Mapping[str, Any], state: State) -> Any:
    return next((each for each in answer["AttachedPolicies"] if each["PolicyArn"] == state["policy_arn"]), None)


def _leave_profile(cloud: Cloud, state: State) -> None:
    if state.get("role"):
        request = {"InstanceProfileName": state["name"], "RoleName": state["role"]}
        cloud.retried("iam", "remove_role_from_instance_profile", request)


RESOURCES = {
    "aws_iam_role": Made(
        service="iam",
        create=call(
            "create_role",
            RoleName="{name}",
            Path="{path}",
            AssumeRolePolicyDocument="{assume_role_policy}",
            Description="{description}",
            MaxSessionDuration="{max_session_duration}",
            PermissionsBoundary="{permissions_boundary}",
            Tags="{tags_all}",
        ),
        id="{name}",
        read=call("get_role", RoleName="{id}"),
        found="Role",
        outputs={"arn": "Arn", "unique_id": "RoleId"},
        update=[
            call(
                "update_assume_role_policy",
                RoleName="{id}",
                PolicyDocument="{assume_role_policy}",
                when=["assume_role_policy"],
            ),
            call(
                "update_role",
                RoleName="{id}",
                Description="{description}",
                MaxSessionDuration="{max_session_duration}",
                when=["description", "max_session_duration"],
            ),
            call("tag_role", RoleName="{id}", Tags="{tags_all}", when=["tags_all"]),
        ],
        before_delete=_free_role,
        delete=call("delete_role", RoleName="{id}"),
    ),
    "aws_iam_policy": Made(
        service="iam",
        create=call(
            "create_policy",
            PolicyName="{name}",
            Path="{path}",
            PolicyDocument="{policy}",
            Description="{description}",
            Tags="{tags_all}",
        ),
        id="Policy.Arn",
        read=call("get_policy", PolicyArn="{id}"),
        found="Policy",
        outputs={"arn": "Arn", "policy_id": "PolicyId"},
        update=[_new_version, call("tag_policy", PolicyArn="{id}", Tags="{tags_all}", when=["tags_all"])],
        before_delete=_drop_versions,
        delete=call("delete_policy", PolicyArn="{id}"),
    ),
    "aws_iam_role_policy": Made(
        service="iam",
        create=call("put_role_policy", RoleName="{role}", PolicyName="{name}", PolicyDocument="{policy}"),
        id="{role}:{name}",
        read=call("get_role_policy", RoleName="{role}", PolicyName="{name}"),
        update=[call("put_role_policy", RoleName="{role}", PolicyName="{name}", PolicyDocument="{policy}")],
        delete=call("delete_role_policy", RoleName="{role}", PolicyName="{name}"),
    ),
    "aws_iam_role_policy_attachment": Made(
        service="iam",
        create=call("attach_role_policy", RoleName="{role}", PolicyArn="{policy_arn}"),
        id="{role}/{policy_arn}",
        read=call("list_attached_role_policies", RoleName="{role}"),
        found=_attachment,
        delete=call("detach_role_policy", RoleName="{role}", PolicyArn="{policy_arn}"),
    ),
    "aws_iam_instance_profile": Made(
        service="iam",
        create=call("create_instance_profile", InstanceProfileName="{name}", Path="{path}", Tags="{tags_all}"),
        id="{name}",
        more=[
            call("add_role_to_instance_profile", InstanceProfileName="{name}", RoleName="{role}", when=["role"]),
        ],
        read=call("get_instance_profile", InstanceProfileName="{id}"),
        found="InstanceProfile",
        outputs={"arn": "Arn", "unique_id": "InstanceProfileId"},
        update=[
            call("tag_instance_profile", InstanceProfileName="{id}", Tags="{tags_all}", when=["tags_all"]),
        ],
        before_delete=_leave_profile,
        delete=call("delete_instance_profile", InstanceProfileName="{id}"),
    ),
}
