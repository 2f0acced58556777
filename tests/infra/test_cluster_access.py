"""Access entries: who comes into the cluster, and as what."""

from __future__ import annotations

from cluster_doubles import ADMINISTRATOR, VIEWER, build_cluster, cluster_stack
from infra.settings.cluster import ClusterSettings
from infra_doubles import synthesize


def policy_of(stack, entry):
    """Names of the access policies associated with an entry's principal."""
    return [
        found["policy_arn"].rpartition("/")[2]
        for found in stack.all("aws_eks_access_policy_association")
        if stack.follow(found["principal_arn"]).id == entry.id
    ]


def test_nodes_of_karpenter_may_register():
    """D1: the node role has an entry of type EC2_LINUX without groups; instance profile → role → entry."""
    stack = cluster_stack()
    [entry] = [found for found in stack.all("aws_eks_access_entry") if found["type"] == "EC2_LINUX"]
    role = stack.follow(entry["principal_arn"])
    assert stack.follow(stack.only("aws_iam_instance_profile")["role"]).id == role.id
    assert "kubernetes_groups" not in entry.values
    assert "user_name" not in entry.values
    assert policy_of(stack, entry) == []
    assert stack.follow(entry["cluster_name"]).kind == "aws_eks_cluster"


def test_system_nodes_have_no_entry_of_ours():
    """EKS makes the entry of a managed node group itself; a second one for the role would be refused."""
    stack = cluster_stack()
    role = stack.follow(stack.only("aws_eks_node_group")["node_role_arn"])
    for entry in stack.all("aws_eks_access_entry"):
        assert role.id not in [found.id for found in stack.references(entry["principal_arn"])]


def test_bootstrap_runner_is_administrator():
    """Nobody is administrator by having created the cluster, so the runner is one by an entry."""
    stack = cluster_stack()
    [entry] = [
        found
        for found in stack.all("aws_eks_access_entry")
        if [role.id for role in stack.references(found["principal_arn"])] == ["RunnerRole"]
    ]
    assert entry["type"] == "STANDARD"
    assert policy_of(stack, entry) == ["AmazonEKSClusterAdminPolicy"]


def test_people_are_what_the_settings_say():
    """Administrators get the administrator policy, viewers the one that reads no secrets, over the whole cluster."""
    stack = cluster_stack()
    by_principal = {found["principal_arn"]: found for found in stack.all("aws_eks_access_entry")}
    assert policy_of(stack, by_principal[ADMINISTRATOR]) == ["AmazonEKSClusterAdminPolicy"]
    assert policy_of(stack, by_principal[VIEWER]) == ["AmazonEKSViewPolicy"]
    assert all(found["access_scope"] == {"type": "cluster"} for found in stack.all("aws_eks_access_policy_association"))


def test_nobody_else_enters():
    """Without administrators in the settings there are two entries: nodes and runner."""
    stack = synthesize(lambda stack: build_cluster(stack, ClusterSettings()))
    assert len(stack.all("aws_eks_access_entry")) == 2


def test_order_of_the_list_changes_nothing():
    """An entry is not made anew because the list of administrators was put in another order."""
    people = tuple(f"arn:aws:iam::123456789012:role/{name}" for name in ("a", "b", "c"))
    found = [
        {
            entry.id: entry["principal_arn"]
            for entry in synthesize(
                lambda stack, order=order: build_cluster(stack, ClusterSettings(administrators=order))
            ).all("aws_eks_access_entry")
        }
        for order in (people, people[::-1])
    ]
    assert found[0] == found[1]
