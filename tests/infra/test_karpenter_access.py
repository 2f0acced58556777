"""What Karpenter's controller may do: only with its cluster's tags, and only with its nodes' role."""

from __future__ import annotations

import json

import pytest

from cluster_doubles import CLUSTER_NAME, cluster_stack
from infra.constructs.cluster.karpenter_access import KarpenterAccess, karpenter_policies
from infra.policy import policy_document
from infra_doubles import SITE, listed

ROLE = "arn:aws:iam::123456789012:role/eagle3-test-unit-karpenter-node"
QUEUE = "arn:aws:sqs:us-east-1:123456789012:eagle3-test-unit-interruption"
OWNED = f"kubernetes.io/cluster/{CLUSTER_NAME}"


def policies(**changes):
    """Policies of a controller, as IAM reads them: name to statements by sid."""
    access = KarpenterAccess(site=SITE, cluster_name=CLUSTER_NAME, node_role_arn=ROLE, queue_arn=QUEUE, **changes)
    return {
        name: {item["Sid"]: item for item in json.loads(policy_document(statements))["Statement"]}
        for name, statements in karpenter_policies(access).items()
    }


def controller():
    """Policies of the controller's role in the stack."""
    stack = cluster_stack()
    [association] = [
        found for found in stack.all("aws_eks_pod_identity_association") if found["service_account"] == "karpenter"
    ]
    role = stack.follow(association["role_arn"])
    return [found for found in stack.all("aws_iam_role_policy") if stack.follow(found["role"]).id == role.id]


def test_controller_passes_the_role_of_its_nodes():
    """D3: association → role → PassRole → the one role that is in the nodes' instance profile; to EC2 only."""
    stack = cluster_stack()
    passing = [item for found in controller() for item in found.policy() if "iam:PassRole" in item["Action"]]
    [statement] = passing
    role = stack.follow(statement["Resource"])
    assert stack.follow(stack.only("aws_iam_instance_profile")["role"]).id == role.id
    assert statement["Resource"].endswith(".arn}")
    assert statement["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}


def test_controller_reads_the_queue_of_its_cluster():
    """D6: association → role → policy → the queue that the rules write to, and no other."""
    stack = cluster_stack()
    reading = [item for found in controller() for item in found.policy() if "sqs:ReceiveMessage" in item["Action"]]
    [statement] = reading
    queue = stack.follow(statement["Resource"])
    targets = {stack.follow(found["arn"]).id for found in stack.all("aws_cloudwatch_event_target")}
    assert targets == {queue.id}
    assert set(statement["Action"]) == {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueUrl"}


@pytest.mark.parametrize("sid", ["CreateTagged", "TagAtCreation"])
def test_what_it_creates_carries_its_tags(sid):
    """Instances, volumes and templates are created with the tags of the cluster and of a pool, or not at all."""
    condition = policies()["nodes"][sid]["Condition"]
    assert condition["StringEquals"][f"aws:RequestTag/{OWNED}"] == "owned"
    assert condition["StringEquals"]["aws:RequestTag/eks:eks-cluster-name"] == CLUSTER_NAME
    assert condition["StringLike"] == {"aws:RequestTag/karpenter.sh/nodepool": "*"}


def test_tags_are_set_at_creation_only():
    """Another cluster's instance cannot be taken over by tagging it."""
    condition = policies()["nodes"]["TagAtCreation"]["Condition"]["StringEquals"]
    assert set(condition["ec2:CreateAction"]) == {"RunInstances", "CreateFleet", "CreateLaunchTemplate"}
    later = policies()["nodes"]["NameOwnInstances"]["Condition"]
    assert later["StringEquals"] == {f"aws:ResourceTag/{OWNED}": "owned"}
    assert OWNED not in later["ForAllValues:StringEquals"]["aws:TagKeys"]


@pytest.mark.parametrize("sid", ["DeleteOwn", "LaunchOwnTemplates"])
def test_it_touches_what_it_owns(sid):
    """It ends instances, and starts templates, of its own cluster and of a pool."""
    condition = policies()["nodes"][sid]["Condition"]
    assert condition["StringEquals"] == {f"aws:ResourceTag/{OWNED}": "owned"}
    assert condition["StringLike"] == {"aws:ResourceTag/karpenter.sh/nodepool": "*"}


def test_only_what_cannot_be_tagged_is_launched_with_freely():
    """Without a condition there are only images, networks, reservations and placement groups: nothing is created."""
    free = [item for item in policies()["nodes"].values() if "Condition" not in item]
    [statement] = free
    kinds = {arn.split(":")[5].split("/")[0] for arn in statement["Resource"]}
    assert kinds == {"image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"}


def test_it_finds_what_it_needs():
    """Calls that newer releases make are allowed: instance status (1.12), placement groups (1.11), reservations."""
    found = policies()["discovery"]
    assert {
        "ec2:DescribeInstanceStatus",
        "ec2:DescribePlacementGroups",
        "ec2:DescribeCapacityReservations",
        "ec2:DescribeSpotPriceHistory",
    } <= set(found["ReadEc2"]["Action"])
    assert found["ReadEc2"]["Condition"] == {"StringEquals": {"aws:RequestedRegion": "us-east-1"}}
    assert found["ReadImageIds"]["Resource"] == "arn:aws:ssm:us-east-1::parameter/aws/service/*"
    assert found["ReadCluster"]["Resource"].endswith(f":cluster/{CLUSTER_NAME}")


def test_instance_profiles_are_made_only_where_a_node_class_names_a_role():
    """Where node classes name a profile (always without NAT), the controller changes none."""
    text = json.dumps(policies())
    assert "iam:CreateInstanceProfile" not in text
    assert "iam:AddRoleToInstanceProfile" not in text
    made = policies(makes_instance_profiles=True)["instance-profiles"]
    assert made["CreateProfiles"]["Condition"]["StringEquals"][f"aws:RequestTag/{OWNED}"] == "owned"
    for sid in ("TagOwnProfiles", "ChangeOwnProfiles"):
        condition = made[sid]["Condition"]
        assert condition["StringEquals"][f"aws:ResourceTag/{OWNED}"] == "owned"
        assert condition["StringEquals"]["aws:ResourceTag/topology.kubernetes.io/region"] == "us-east-1"
        assert condition["StringLike"]["aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass"] == "*"
    assert all(item["Resource"] == "arn:aws:iam::123456789012:instance-profile/*" for item in made.values())


def test_zonal_shift_is_read_only_where_it_is_used():
    """The right to see zonal shifts comes with the setting, for this cluster."""
    assert "zonal-shift" not in policies()
    [statement] = policies(zonal_shift=True)["zonal-shift"].values()
    assert statement["Action"] == ["arc-zonal-shift:GetManagedResource"]
    assert statement["Condition"]["StringEquals"]["arc-zonal-shift:ResourceIdentifier"].endswith(CLUSTER_NAME)


@pytest.mark.parametrize("changes", [{}, {"makes_instance_profiles": True, "zonal_shift": True}])
def test_actions_are_named_and_resources_too(changes):
    """No `*` action; `*` as resource only for reading what knows no resource."""
    for statements in policies(**changes).values():
        for item in statements.values():
            assert all("*" not in action for action in item["Action"])
            if "*" in listed(item["Resource"]):
                assert all(action.split(":")[1].startswith(("Describe", "List", "Get")) for action in item["Action"])


def test_policies_fit_into_a_role():
    """IAM takes 10,240 characters of inline policies a role, white space aside, with the longest names too."""
    site = SITE.__class__(
        name="e" * 32, region="ap-southeast-4", partition="aws-us-gov", account_id="1" * 12, zones=SITE.zones
    )
    access = KarpenterAccess(
        site=site,
        cluster_name=site.named("cluster"),
        node_role_arn=site.arn("iam", f"role/{site.named('karpenter-node')}", regional=False),
        queue_arn=site.arn("sqs", site.named("interruption")),
        makes_instance_profiles=True,
        zonal_shift=True,
    )
    text = "".join(policy_document(statements) for statements in karpenter_policies(access).values())
    assert len("".join(text.split())) < 10_240
