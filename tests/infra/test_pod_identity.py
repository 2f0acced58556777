"""Pod Identity: association → role → trust, and what each role may do."""

from __future__ import annotations

import json

import pytest

from cluster_doubles import CLUSTER_NAME, cluster_stack, depends_on
from infra.constructs.cluster.pod_identity import PodIdentity, PodIdentityProps
from infra.constructs.cluster.pod_rights import read_models, register_targets, write_telemetry
from infra.policy import policy_document
from infra_doubles import SITE, synthesize

ASSOCIATIONS = {
    ("kube-system", "karpenter"),
    ("kube-system", "ebs-csi-controller-sa"),
    ("amazon-cloudwatch", "cloudwatch-agent"),
    ("keda", "keda-operator"),
}


def associations():
    """(namespace, service account) to association."""
    found = cluster_stack().all("aws_eks_pod_identity_association")
    return {(item["namespace"], item["service_account"]): item for item in found}


def test_every_workload_has_an_association():
    """One association a service account, none missing."""
    assert set(associations()) == ASSOCIATIONS


@pytest.mark.parametrize("account", sorted(ASSOCIATIONS))
def test_association_leads_to_a_role_that_trusts_pod_identity(account):
    """D5: association → role → trust: pods.eks.amazonaws.com may assume the role and tag its session."""
    stack = cluster_stack()
    [trust] = stack.follow(associations()[account]["role_arn"]).policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert set(trust["Action"]) == {"sts:AssumeRole", "sts:TagSession"}


@pytest.mark.parametrize("account", sorted(ASSOCIATIONS))
def test_role_is_for_one_service_account_of_one_cluster(account):
    """The trust names the namespace and service account of the association, and this cluster by ARN."""
    stack = cluster_stack()
    association = associations()[account]
    [trust] = stack.follow(association["role_arn"]).policy("assume_role_policy")
    tags = trust["Condition"]["StringEquals"]
    assert tags["aws:RequestTag/kubernetes-namespace"] == association["namespace"]
    assert tags["aws:RequestTag/kubernetes-service-account"] == association["service_account"]
    assert tags["aws:RequestTag/eks-cluster-arn"] == f"arn:aws:eks:us-east-1:123456789012:cluster/{CLUSTER_NAME}"
    # The condition relies on session tags.
    assert not association.get("disable_session_tags")


@pytest.mark.parametrize("account", sorted(ASSOCIATIONS))
def test_role_has_its_rights_before_it_is_associated(account):
    """Whoever gets the role gets it whole: the association waits for every policy of the role."""
    stack = cluster_stack()
    association = associations()[account]
    role = stack.follow(association["role_arn"])
    rights = [
        found
        for kind in ("aws_iam_role_policy", "aws_iam_role_policy_attachment")
        for found in stack.all(kind)
        if stack.follow(found["role"]).id == role.id
    ]
    assert rights
    assert {(found.kind, found.id) for found in rights} <= depends_on(stack, association)


def test_role_without_rights_is_a_mistake():
    """An identity that may do nothing is not asked for on purpose."""
    props = PodIdentityProps(site=SITE, cluster="c", cluster_name="c", suffix="s", namespace="n", service_account="a")
    with pytest.raises(AssertionError, match="without rights"):
        synthesize(lambda stack: PodIdentity(stack, "Identity", props))


def test_runtime_reads_models_and_nothing_else():
    """The bucket, its objects, and the key through S3 only."""
    statements = json.loads(policy_document(read_models(SITE, bucket_arn="arn:aws:s3:::m", key_arn="arn:aws:kms:k")))
    allowed = {action: item["Resource"] for item in statements["Statement"] for action in item["Action"]}
    assert allowed == {
        "s3:ListBucket": "arn:aws:s3:::m",
        "s3:GetObject": "arn:aws:s3:::m/*",
        "kms:Decrypt": "arn:aws:kms:k",
    }
    [decrypt] = [item for item in statements["Statement"] if item["Sid"] == "DecryptModels"]
    assert decrypt["Condition"] == {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}


def test_agent_writes_where_it_is_told():
    """Logs into the groups named, metrics into the namespaces named; no group is created behind our back."""
    statements = write_telemetry(log_group_arns=["arn:a", "arn:b"], namespaces=["ContainerInsights"])
    by_sid = {statement.sid: statement for statement in statements}
    assert by_sid["WriteLogs"].resources == ["arn:a", "arn:a:log-stream:*", "arn:b", "arn:b:log-stream:*"]
    assert by_sid["WriteMetrics"].conditions == {"StringEquals": {"cloudwatch:namespace": ["ContainerInsights"]}}
    assert not any("logs:CreateLogGroup" in statement.actions for statement in statements)


def test_load_balancer_controller_changes_targets_only():
    """It enters and leaves pods in the target groups named; everything else is reading."""
    statements = register_targets(target_group_arns=["arn:group"])
    changing = [item for item in statements if not all(":Describe" in action for action in item.actions)]
    [statement] = changing
    assert statement.resources == ["arn:group"]
    assert set(statement.actions) == {
        "elasticloadbalancing:RegisterTargets",
        "elasticloadbalancing:DeregisterTargets",
    }
