"""Clusters and node groups; what belongs to a cluster besides is recorded."""

from __future__ import annotations

from typing import Any

from infra.rehearsal.provider.adapter import Made, Recorded, call, fill
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State

_ARN = "arn:{partition}:eks:{region}:{account_id}"


def _logging(state: State) -> dict[str, Any] | None:
    types = state.get("enabled_cluster_log_types")
    return {"clusterLogging": [{"types": types, "enabled": True}]} if types else None


def _vpc_config(cloud: Cloud, state: State) -> list[dict[str, Any]]:
    """What EKS adds: the VPC of the subnets. The cluster's own security group is none of the local AWS's."""
    subnets = state["vpc_config"][0]["subnet_ids"]
    answer = cloud.call("ec2", "describe_subnets", {"SubnetIds": subnets[:1]})
    return [{"vpc_id": answer["Subnets"][0]["VpcId"]}]


RESOURCES = {
    "aws_eks_cluster": Made(
        service="eks",
        create=fill("create_cluster", resourcesVpcConfig="{vpc_config}", logging=_logging),
        id="{name}",
        read=call("describe_cluster", name="{name}"),
        found="cluster",
        outputs={"vpc_config": _vpc_config},
        update=[
            call("update_cluster_config", name="{name}", logging=_logging, when=["enabled_cluster_log_types"]),
            call("tag_resource", resourceArn="{arn}", tags="{tags_all}", when=["tags_all"]),
        ],
        delete=call("delete_cluster", name="{name}"),
    ),
    "aws_eks_node_group": Made(
        service="eks",
        create=fill(
            "create_nodegroup",
            nodegroupName="{node_group_name}",
            nodeRole="{node_role_arn}",
            subnets="{subnet_ids}",
        ),
        id="{cluster_name}:{node_group_name}",
        read=call("describe_nodegroup", clusterName="{cluster_name}", nodegroupName="{node_group_name}"),
        found="nodegroup",
        outputs={"arn": "nodegroupArn"},
        update=[
            fill("update_nodegroup_config", nodegroupName="{node_group_name}", when=["scaling_config"]),
            call("tag_resource", resourceArn="{arn}", tags="{tags_all}", when=["tags_all"]),
        ],
        delete=call("delete_nodegroup", clusterName="{cluster_name}", nodegroupName="{node_group_name}"),
    ),
    "aws_eks_addon": Recorded(
        reason="the local AWS has no EKS add-ons",
        id="{cluster_name}:{addon_name}",
        outputs={"arn": f"{_ARN}:addon/{{cluster_name}}/{{addon_name}}/{{token}}"},
    ),
    "aws_eks_access_entry": Recorded(
        reason="the local AWS has no EKS access entries",
        id="{cluster_name}:{principal_arn}",
        outputs={
            "access_entry_arn": f"{_ARN}:access-entry/{{cluster_name}}/role/{{account_id}}/{{token}}",
            "user_name": "{principal_arn}",
        },
    ),
    "aws_eks_access_policy_association": Recorded(
        reason="the local AWS has no EKS access policies", id="{cluster_name}#{principal_arn}#{policy_arn}"
    ),
    "aws_eks_pod_identity_association": Recorded(
        reason="the local AWS has no Pod Identity",
        id="a-{token}",
        outputs={
            "association_id": "{id}",
            "association_arn": f"{_ARN}:podidentityassociation/{{cluster_name}}/{{id}}",
        },
    ),
}
