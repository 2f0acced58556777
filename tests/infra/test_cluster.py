"""The cluster, its roles, its security groups and its system nodes."""

from __future__ import annotations

import pytest

from cluster_doubles import CLUSTER_NAME, build_cluster, cluster_stack, depends_on
from infra.constructs.cluster.cluster import DISCOVERY_TAG, Cluster, ClusterProps
from infra.constructs.cluster.roles import NODE_POLICIES
from infra.settings.cluster import ClusterSettings
from infra.site import Subnet
from infra_doubles import SITE, synthesize


def node_group():
    """The security group of the nodes."""
    [group] = [found for found in cluster_stack().all("aws_security_group") if DISCOVERY_TAG in found.get("tags", {})]
    return group


def rules(kind, group, peer):
    """Rules of one direction that a group has for another."""
    stack = cluster_stack()
    return [
        rule
        for rule in stack.all(f"aws_vpc_security_group_{kind}_rule")
        if stack.follow(rule["security_group_id"]).id == group.id
        and rule.get("referenced_security_group_id")
        and stack.follow(rule["referenced_security_group_id"]).id == peer.id
    ]


def control_plane_group():
    """The security group of the control plane."""
    stack = cluster_stack()
    return stack.follow(stack.only("aws_eks_cluster")["vpc_config"]["security_group_ids"][0])


def test_api_is_private():
    """The API has no public endpoint and two zones at least."""
    stack = cluster_stack()
    network = stack.only("aws_eks_cluster")["vpc_config"]
    assert network["endpoint_private_access"] is True
    assert network["endpoint_public_access"] is False
    zones = {subnet["availability_zone"] for subnet in stack.references(network["subnet_ids"])}
    assert zones == set(SITE.zones)


def test_one_zone_is_refused():
    """EKS takes no cluster in one zone."""
    subnets = (Subnet(id="subnet-1", zone="us-east-1a"), Subnet(id="subnet-2", zone="us-east-1a"))
    props = ClusterProps(
        site=SITE,
        cluster_name=CLUSTER_NAME,
        settings=ClusterSettings(),
        vpc_id="vpc-1",
        subnets=subnets,
        role_arn="arn:aws:iam::123456789012:role/r",
        secrets_key_arn="arn:aws:kms:us-east-1:123456789012:key/k",
        log_group_ready=None,
        role_ready=(),
    )
    with pytest.raises(AssertionError, match="two zones"):
        synthesize(lambda stack: Cluster(stack, "Cluster", props))


def test_secrets_are_encrypted_and_the_role_may_use_the_key():
    """Cluster → key, and cluster → role → policy → the same key."""
    stack = cluster_stack()
    cluster = stack.only("aws_eks_cluster")
    assert cluster["encryption_config"]["resources"] == ["secrets"]
    key = stack.follow(cluster["encryption_config"]["provider"]["key_arn"])
    assert key["description"] == "secrets"
    role = stack.follow(cluster["role_arn"])
    [policy] = [found for found in stack.all("aws_iam_role_policy") if stack.follow(found["role"]).id == role.id]
    [statement] = policy.policy()
    assert stack.follow(statement["Resource"]).id == key.id
    assert "kms:Decrypt" in statement["Action"]


def test_every_log_of_the_control_plane_goes_to_a_group_made_before():
    """All five types; the group has the name that EKS writes to, and the cluster waits for it."""
    stack = cluster_stack()
    cluster = stack.only("aws_eks_cluster")
    assert len(cluster["enabled_cluster_log_types"]) == 5
    name = f"/aws/eks/{cluster['name']}/cluster"
    [group] = [found for found in stack.all("aws_cloudwatch_log_group") if found["name"] == name]
    assert (group.kind, group.id) in depends_on(stack, cluster)


def test_cluster_goes_before_the_rights_of_its_role():
    """The cluster waits for everything that gives its role rights, so that it is deleted before it loses them."""
    stack = cluster_stack()
    cluster = stack.only("aws_eks_cluster")
    role = stack.follow(cluster["role_arn"])
    awaited = depends_on(stack, cluster)
    rights = [
        found
        for kind in ("aws_iam_role_policy", "aws_iam_role_policy_attachment")
        for found in stack.all(kind)
        if stack.follow(found["role"]).id == role.id
    ]
    assert len(rights) == 2
    assert {(found.kind, found.id) for found in rights} <= awaited


def test_only_access_entries_let_people_in():
    """No config map, and no silent administrator: who creates the cluster gets no rights by that."""
    cluster = cluster_stack().only("aws_eks_cluster")
    assert cluster["access_config"] == {
        "authentication_mode": "API",
        "bootstrap_cluster_creator_admin_permissions": False,
    }


def test_version_and_policy_of_upgrades():
    """The version is the setting's, standard support only, deletion protected."""
    cluster = cluster_stack().only("aws_eks_cluster")
    assert cluster["version"] == ClusterSettings().kubernetes_version
    assert cluster["upgrade_policy"] == {"support_type": "STANDARD"}
    assert cluster["deletion_protection"] is True


def test_override_keeps_the_version_with_extended_support():
    """A reason to stay on a version changes the upgrade policy; nothing else does."""
    settings = ClusterSettings(calendar_override="waiting for a driver", deletion_protection=False, zonal_shift=True)
    cluster = synthesize(lambda stack: build_cluster(stack, settings)).only("aws_eks_cluster")
    assert cluster["upgrade_policy"] == {"support_type": "EXTENDED"}
    assert cluster["deletion_protection"] is False
    assert cluster["zonal_shift_config"] == {"enabled": True}


def test_cluster_role_trusts_eks_for_this_cluster_only():
    """Nobody can have EKS use the role for another cluster."""
    stack = cluster_stack()
    [trust] = stack.follow(stack.only("aws_eks_cluster")["role_arn"]).policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "eks.amazonaws.com"}
    assert trust["Condition"]["ArnEquals"]["aws:SourceArn"].endswith(f":cluster/{CLUSTER_NAME}")
    assert trust["Condition"]["StringEquals"]["aws:SourceAccount"] == SITE.account_id


def test_nodes_reach_each_other_on_every_port():
    """D28: the nodes' group lets itself in and out, all ports and protocols: cluster DNS, NCCL and EFA."""
    group = node_group()
    for kind in ("ingress", "egress"):
        [rule] = rules(kind, group, group)
        assert rule["ip_protocol"] == "-1"
        assert "from_port" not in rule.values


def test_control_plane_reaches_nodes_and_nodes_the_api():
    """D28: kubelets and webhooks on any port one way, the API on 443 the other way."""
    nodes, control_plane = node_group(), control_plane_group()
    [inwards] = rules("ingress", nodes, control_plane)
    [outwards] = rules("egress", control_plane, nodes)
    assert inwards["ip_protocol"] == outwards["ip_protocol"] == "-1"
    [api] = rules("ingress", control_plane, nodes)
    assert (api["ip_protocol"], api["from_port"], api["to_port"]) == ("tcp", 443, 443)


def test_api_lets_in_nodes_and_the_named_clients_only():
    """The control plane's group has no rule for an address range."""
    stack = cluster_stack()
    control_plane = control_plane_group()
    entering = [
        rule
        for rule in stack.all("aws_vpc_security_group_ingress_rule")
        if stack.follow(rule["security_group_id"]).id == control_plane.id
    ]
    assert all("cidr_ipv4" not in rule.values for rule in entering)
    peers = {stack.follow(rule["referenced_security_group_id"]).id for rule in entering}
    assert peers == {node_group().id, "RunnerGroup"}


def test_nodes_group_is_found_by_tag():
    """Node classes find the group by the discovery tag; the load balancer controller by the ownership tag."""
    tags = node_group()["tags"]
    assert tags[DISCOVERY_TAG] == CLUSTER_NAME
    assert tags[f"kubernetes.io/cluster/{CLUSTER_NAME}"] == "owned"
    others = [group for group in cluster_stack().all("aws_security_group") if group.id != node_group().id]
    assert not any(key.startswith("kubernetes.io/") for group in others for key in group.get("tags", {}))


def test_nodes_leave_the_network_by_tls_only():
    """To addresses, nodes speak on 443 only."""
    stack = cluster_stack()
    open_rules = [rule for rule in stack.all("aws_vpc_security_group_egress_rule") if rule.get("cidr_ipv4")]
    [rule] = open_rules
    assert stack.follow(rule["security_group_id"]).id == node_group().id
    assert (rule["ip_protocol"], rule["from_port"], rule["to_port"]) == ("tcp", 443, 443)


@pytest.mark.parametrize("kind", ["system", "karpenter"])
def test_node_roles_have_what_a_node_needs_and_no_more(kind):
    """Join, pull, network, Session Manager; pods get their rights by Pod Identity."""
    stack = cluster_stack()
    if kind == "system":
        role = stack.follow(stack.only("aws_eks_node_group")["node_role_arn"])
    else:
        role = stack.follow(stack.only("aws_iam_instance_profile")["role"])
    [trust] = role.policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "ec2.amazonaws.com"}
    attached = {
        found["policy_arn"].rpartition("/")[2]
        for found in stack.all("aws_iam_role_policy_attachment")
        if stack.follow(found["role"]).id == role.id
    }
    assert attached == set(NODE_POLICIES)
    assert not [found for found in stack.all("aws_iam_role_policy") if stack.follow(found["role"]).id == role.id]


def test_system_nodes_run_in_two_zones_with_room_to_update():
    """Two nodes over two zones; one is replaced at a time, and broken ones are."""
    stack = cluster_stack()
    nodes = stack.only("aws_eks_node_group")
    assert {subnet["availability_zone"] for subnet in stack.references(nodes["subnet_ids"])} == set(SITE.zones)
    assert nodes["scaling_config"] == {"min_size": 2, "desired_size": 2, "max_size": 4}
    assert nodes["update_config"] == {"max_unavailable": 1}
    assert nodes["node_repair_config"] == {"enabled": True}
    assert nodes["lifecycle"]["create_before_destroy"] is True


def test_system_nodes_take_any_pod():
    """They are the only nodes without a taint, of the cluster's version, on an x86 image."""
    nodes = cluster_stack().only("aws_eks_node_group")
    assert "taint" not in nodes.values
    assert nodes["ami_type"] == "AL2023_x86_64_STANDARD"
    assert nodes["version"] == ClusterSettings().kubernetes_version
    assert len(nodes["instance_types"]) >= 2


def test_name_of_the_group_fits():
    """EKS takes a prefix of 37 characters; the longest site name leaves none to spare."""
    prefix = cluster_stack().only("aws_eks_node_group")["node_group_name_prefix"]
    assert len(prefix) - len(SITE.name) + 32 <= 37


def test_system_nodes_hide_their_metadata_and_encrypt_their_disks():
    """Node → template: IMDSv2 with one hop, gp3 volume under the volumes key, the nodes' group, cost tags."""
    stack = cluster_stack()
    template = stack.follow(stack.only("aws_eks_node_group")["launch_template"]["id"])
    metadata = template["metadata_options"]
    assert (metadata["http_tokens"], metadata["http_put_response_hop_limit"]) == ("required", 1)
    [disk] = template["block_device_mappings"]
    assert disk["device_name"] == "/dev/xvda"
    assert disk["ebs"]["encrypted"] == "true"
    assert disk["ebs"]["volume_type"] == "gp3"
    assert stack.follow(disk["ebs"]["kms_key_id"])["description"] == "volumes"
    assert stack.follow(template["vpc_security_group_ids"][0]).id == node_group().id
    tagged = {item["resource_type"]: item["tags"] for item in template["tag_specifications"]}
    assert {"instance", "volume"} <= set(tagged)
    assert all(tags["eagle3:environment"] == "test" for tags in tagged.values())


def test_system_nodes_wait_for_their_network():
    """A node becomes ready only with the CNI there, with its role's rights, and with the rules that let it in."""
    stack = cluster_stack()
    awaited = depends_on(stack, stack.only("aws_eks_node_group"))
    names = {found["addon_name"] for found in stack.all("aws_eks_addon") if ("aws_eks_addon", found.id) in awaited}
    assert names == {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}
    for kind in ("aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule"):
        assert {(kind, rule.id) for rule in stack.all(kind)} <= awaited
    role = stack.follow(stack.only("aws_eks_node_group")["node_role_arn"])
    rights = [
        found for found in stack.all("aws_iam_role_policy_attachment") if stack.follow(found["role"]).id == role.id
    ]
    assert {(found.kind, found.id) for found in rights} <= awaited


def test_names_fit_iam():
    """Roles have 64 characters; the longest site name has 32."""
    for kind in ("aws_iam_role", "aws_iam_instance_profile"):
        for found in cluster_stack().all(kind):
            if found["name"].startswith(SITE.name):
                assert len(found["name"]) - len(SITE.name) + 32 <= 64, found["name"]
