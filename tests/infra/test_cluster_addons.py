"""Add-ons: which, in what order, and what the CloudWatch agent collects."""

from __future__ import annotations

import json

from cluster_doubles import CLUSTER_NAME, build_cluster, cluster_stack, depends_on
from infra.constructs.cluster.addons import EMF_ENDPOINT, cloudwatch_values
from infra.settings.cluster import CloudWatchAgentSettings, ClusterSettings
from infra_doubles import SITE, synthesize

BEFORE_NODES = {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}
AFTER_NODES = {"coredns", "metrics-server", "aws-ebs-csi-driver", "amazon-cloudwatch-observability"}


def addons(stack):
    """Name to add-on."""
    return {found["addon_name"]: found for found in stack.all("aws_eks_addon")}


def test_every_add_on_is_there():
    """EKS installs none by itself here, so all that a cluster needs are listed."""
    stack = cluster_stack()
    assert set(addons(stack)) == BEFORE_NODES | AFTER_NODES
    assert stack.only("aws_eks_cluster")["bootstrap_self_managed_addons"] is False


def test_pods_get_credentials():
    """D5: there are Pod Identity associations, so the agent that serves them is installed, in the same cluster."""
    stack = cluster_stack()
    associations = stack.all("aws_eks_pod_identity_association")
    assert associations
    agent = addons(stack)["eks-pod-identity-agent"]
    clusters = {stack.follow(found["cluster_name"]).id for found in [*associations, agent]}
    assert len(clusters) == 1


def test_what_nodes_need_comes_before_them_and_the_rest_after():
    """A node is not ready without the CNI; a Deployment is degraded without a node. Neither order has a cycle."""
    stack = cluster_stack()
    nodes = stack.only("aws_eks_node_group")
    for name, addon in addons(stack).items():
        waits = ("aws_eks_node_group", nodes.id) in depends_on(stack, addon)
        assert waits == (name in AFTER_NODES), name
        assert ("aws_eks_addon", addon.id) not in depends_on(stack, addon)


def test_credentials_come_before_their_pods():
    """The driver and the agent wait for their associations: pods that started before would have no credentials."""
    stack = cluster_stack()
    accounts = {"aws-ebs-csi-driver": "ebs-csi-controller-sa", "amazon-cloudwatch-observability": "cloudwatch-agent"}
    for name, account in accounts.items():
        [association] = [
            found for found in stack.all("aws_eks_pod_identity_association") if found["service_account"] == account
        ]
        assert (association.kind, association.id) in depends_on(stack, addons(stack)[name])


def test_versions_are_the_default_or_pinned():
    """Nothing resolves to the newest: a version is left to the cluster's default, or is the one in the settings."""
    assert all("addon_version" not in found.values for found in addons(cluster_stack()).values())
    settings = ClusterSettings(addons={"coredns": "v1.13.1-eksbuild.1"})
    found = addons(synthesize(lambda stack: build_cluster(stack, settings)))
    assert found["coredns"]["addon_version"] == "v1.13.1-eksbuild.1"
    assert "addon_version" not in found["vpc-cni"].values
    assert "most_recent" not in json.dumps(cluster_stack().document)


def test_changes_by_hand_are_undone():
    """What is in the cluster is what is written here."""
    for found in addons(cluster_stack()).values():
        assert found["resolve_conflicts_on_create"] == "OVERWRITE"
        assert found["resolve_conflicts_on_update"] == "OVERWRITE"


def test_network_policies_are_enforced():
    """The CNI enforces network policies; its schema takes the word, not the boolean."""
    values = json.loads(addons(cluster_stack())["vpc-cni"]["configuration_values"])
    assert values == {"enableNetworkPolicy": "true"}


def test_agent_takes_the_runtimes_metrics():
    """The agent listens for embedded metrics; the runtime is told the same port."""
    values = json.loads(addons(cluster_stack())["amazon-cloudwatch-observability"]["configuration_values"])
    assert values["agent"]["config"]["logs"]["metrics_collected"] == {"emf": {}}
    assert values["agent"]["config"]["agent"]["region"] == SITE.region
    assert EMF_ENDPOINT.endswith(":25888")


def test_agent_costs_nothing_that_was_not_asked_for():
    """No container logs, no Container Insights, no tracing in every pod, no second GPU exporter by default."""
    values = json.loads(addons(cluster_stack())["amazon-cloudwatch-observability"]["configuration_values"])
    assert values["containerLogs"] == {"enabled": False}
    assert values["manager"]["applicationSignals"]["autoMonitor"] == {"monitorAllServices": False}
    assert values["dcgmExporter"] == {"enabled": False}


def test_agent_collects_more_when_asked():
    """Logs and Container Insights are one setting each."""
    settings = CloudWatchAgentSettings(container_logs=True, container_insights=True)
    values = cloudwatch_values(settings, CLUSTER_NAME, SITE.region)
    assert values["containerLogs"] == {"enabled": True}
    collected = values["agent"]["config"]["logs"]["metrics_collected"]
    assert collected["kubernetes"] == {"cluster_name": CLUSTER_NAME, "enhanced_container_insights": True}
    assert collected["emf"] == {}


def test_agent_can_be_left_out():
    """Where metrics go elsewhere, the add-on is not installed."""
    settings = ClusterSettings(cloudwatch_agent={"enabled": False})
    assert "amazon-cloudwatch-observability" not in addons(synthesize(lambda stack: build_cluster(stack, settings)))
