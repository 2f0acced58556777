"""Keys: rotated, one a domain, open to the services that need them and to no more."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from infra.constructs.foundation.encryption import Encryption, EncryptionProps
from infra.constructs.foundation.key_policies import DOMAINS, key_statements
from infra.site import Site
from infra_doubles import SITE, synthesize


def encryption(*domains, **props):
    return synthesize(
        lambda scope: Encryption(scope, "Encryption", EncryptionProps(site=SITE, domains=domains, **props))
    )


def statements(domain, site=SITE):
    return {one.sid: one.to_json() for one in key_statements(domain, site)}


def test_one_rotated_key_with_an_alias_for_each_domain():
    """Every domain asked for has a key that rotates, and an alias that refers to it."""
    stack = encryption(*DOMAINS)
    keys = stack.all("aws_kms_key")
    assert len(keys) == len(DOMAINS)
    for key in keys:
        assert key["enable_key_rotation"] is True
        assert key["deletion_window_in_days"] == 30
    aliases = {alias["name"]: stack.follow(alias["target_key_id"]).id for alias in stack.all("aws_kms_alias")}
    assert set(aliases) == {f"alias/{SITE.name}/{domain}" for domain in DOMAINS}
    assert set(aliases.values()) == {key.id for key in keys}


def test_only_the_domains_asked_for():
    """A key costs money, so a stack that encrypts nothing of a domain has none for it."""
    assert len(encryption("logs").all("aws_kms_key")) == 1


def test_protected_keys_are_not_destroyed():
    """A key whose loss would lose the state is refused to Terraform's destroy."""
    assert encryption("data", protect=True).only("aws_kms_key")["lifecycle"] == {"prevent_destroy": True}
    assert "lifecycle" not in encryption("data").only("aws_kms_key").values


@pytest.mark.parametrize("domain", DOMAINS)
def test_account_decides_by_iam(domain):
    """The account's root has the key, so that IAM policies of roles count, and the key cannot be locked up."""
    owner = statements(domain)["AccountByIam"]
    assert owner["Principal"] == {"AWS": f"arn:aws:iam::{SITE.account_id}:root"}
    assert owner["Action"] == ["kms:*"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_nobody_else_has_every_action(domain):
    """Beside the owner each statement names actions, and has a condition that ties it to the account."""
    for sid, statement in statements(domain).items():
        if sid == "AccountByIam":
            continue
        assert not {"kms:*", "*"} & set(statement["Action"])
        assert SITE.account_id in str(statement["Condition"])


@pytest.mark.parametrize("domain", DOMAINS)
def test_any_principal_means_one_of_the_account(domain):
    """Where the principal is `*`, the caller's account is a condition, with the service or the role it comes by."""
    for statement in statements(domain).values():
        if statement["Principal"] == {"AWS": "*"}:
            equals = statement["Condition"]["StringEquals"]
            assert equals["kms:CallerAccount"] == SITE.account_id
            assert "kms:ViaService" in equals or "aws:PrincipalArn" in equals


@pytest.mark.parametrize("domain", DOMAINS)
def test_grants_are_for_services_only(domain):
    """No statement lets a grant be made but by a service of AWS for its own resource."""
    for statement in statements(domain).values():
        if "kms:CreateGrant" in statement["Action"]:
            assert statement["Action"] == ["kms:CreateGrant"]
            assert statement["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}


@pytest.mark.parametrize("domain", DOMAINS)
def test_policies_refer_to_no_resource(domain):
    """D26: resources wait for their key, so its policy has patterns in place of references."""
    assert "${" not in encryption(domain).only("aws_kms_key")["policy"]


@pytest.mark.parametrize(
    "group",
    [
        f"/aws/eks/{SITE.name}/cluster",
        f"/aws/sagemaker/Endpoints/{SITE.name}",
        f"/aws/codebuild/{SITE.name}-bootstrap",
        f"/aws/vpc/{SITE.name}/flow-logs",
        SITE.name,
    ],
)
def test_log_groups_of_the_stack(group):
    """D26: CloudWatch Logs uses the key for groups that carry the stack's name."""
    statement = statements("logs")["LogGroups"]
    assert statement["Principal"] == {"Service": "logs.us-east-1.amazonaws.com"}
    pattern = statement["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    assert fnmatchcase(SITE.arn("logs", f"log-group:{group}"), pattern)


def test_log_groups_of_others():
    """The key does not serve groups of other stacks or accounts."""
    pattern = statements("logs")["LogGroups"]["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    assert not fnmatchcase(SITE.arn("logs", "log-group:/aws/eks/other/cluster"), pattern)
    assert not fnmatchcase(f"arn:aws:logs:us-east-1:999999999999:log-group:/aws/eks/{SITE.name}/cluster", pattern)


def test_node_volumes():
    """D8: whoever launches a node through EC2 may encrypt its volumes, and EC2 gets its grant."""
    policy = statements("volumes")
    for sid in ("ThroughEc2", "GrantsToVolumes"):
        equals = policy[sid]["Condition"]["StringEquals"]
        assert equals == {"kms:CallerAccount": SITE.account_id, "kms:ViaService": ["ec2.us-east-1.amazonaws.com"]}
    assert {"kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"} <= set(policy["ThroughEc2"]["Action"])


def test_auto_scaling_role_is_a_condition():
    """D8: managed node groups launch by Auto Scaling's own role, which a new account does not have yet.

    KMS refuses a key policy whose principal does not exist.
    """
    policy = statements("volumes")
    for sid in ("AutoScaling", "AutoScalingGrants"):
        assert policy[sid]["Principal"] == {"AWS": "*"}
        role = policy[sid]["Condition"]["StringEquals"]["aws:PrincipalArn"]
        assert role.endswith("role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling")


def test_publishers_of_encrypted_topics():
    """Alarms, budgets and CloudTrail publish to encrypted topics, for this account."""
    publishers = statements("notifications")["Publishers"]
    assert {"cloudwatch.amazonaws.com", "budgets.amazonaws.com"} <= set(publishers["Principal"]["Service"])
    assert publishers["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    assert publishers["Condition"] == {"StringEquals": {"aws:SourceAccount": SITE.account_id}}


@pytest.mark.parametrize(
    ("sid", "context", "arn"),
    [
        ("RulesToTopics", "aws:sns:topicArn", SITE.arn("sns", "eagle3-alarms")),
        ("RulesToQueues", "aws:sqs:arn", SITE.arn("sqs", "eagle3-interruption")),
    ],
)
def test_rules_are_let_in_by_what_they_publish_to(sid, context, arn):
    """EventBridge uses the key for topics and queues of the account, on no condition about the source.

    With aws:SourceAccount or aws:SourceArn it would be refused, and events for encrypted topics lost in silence.
    """
    statement = statements("notifications")[sid]
    assert statement["Principal"] == {"Service": "events.amazonaws.com"}
    assert set(statement["Condition"]) == {"ArnLike"}
    [(key, pattern)] = statement["Condition"]["ArnLike"].items()
    assert key == f"kms:EncryptionContext:{context}"
    assert fnmatchcase(arn, pattern)
    assert not fnmatchcase(arn.replace(SITE.account_id, "999999999999"), pattern)


def test_models_and_images():
    """S3, ECR and SageMaker use the key of the data for callers of the account; only the last two take grants."""
    policy = statements("data")
    through = policy["ThroughStorageAndRegistry"]["Condition"]["StringEquals"]["kms:ViaService"]
    assert through == [f"{service}.us-east-1.amazonaws.com" for service in ("s3", "ecr", "sagemaker")]
    grants = policy["GrantsToRegistryAndSageMaker"]["Condition"]["StringEquals"]["kms:ViaService"]
    assert not any(host.startswith("s3.") for host in grants)


def test_other_partitions():
    """In China the services' host names end differently; ARNs carry the partition."""
    site = Site(name="eagle3-cn", region="cn-north-1", partition="aws-cn", account_id="123456789012", zones=("a", "b"))
    policy = statements("logs", site)
    assert policy["LogGroups"]["Principal"] == {"Service": "logs.cn-north-1.amazonaws.com.cn"}
    assert policy["AccountByIam"]["Principal"] == {"AWS": "arn:aws-cn:iam::123456789012:root"}
    assert statements("volumes", site)["ThroughEc2"]["Condition"]["StringEquals"]["kms:ViaService"] == [
        "ec2.cn-north-1.amazonaws.com.cn"
    ]
