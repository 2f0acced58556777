"""Adapters of networks, buckets, keys and roles against a local AWS: what is asked for is there, and goes again."""

from __future__ import annotations

import json

import pytest

from standin_account import Account
from standin_doubles import local_aws


@pytest.fixture(scope="module")
def account(tmp_path_factory):
    with local_aws() as endpoint:
        yield Account(endpoint, tmp_path_factory.mktemp("schemas"))


def test_default_security_group_is_closed_and_left(account):
    """Taken over without rules, the VPC's default group lets nothing in or out; it stays when the resource goes."""
    vpc = account.make("aws_vpc", cidr_block="10.0.0.0/16", enable_dns_hostnames=True)
    assert vpc["default_security_group_id"].startswith("sg-")
    assert vpc["main_route_table_id"].startswith("rtb-")
    account.make("aws_default_security_group", vpc_id=vpc["id"])
    found = account.aws("ec2").describe_security_groups(GroupIds=[vpc["default_security_group_id"]])
    [group] = found["SecurityGroups"]
    assert (group["IpPermissions"], group["IpPermissionsEgress"]) == ([], [])
    dns = account.aws("ec2").describe_vpc_attribute(VpcId=vpc["id"], Attribute="enableDnsHostnames")
    assert dns["EnableDnsHostnames"]["Value"] is True
    account.remove("aws_vpc", vpc)


def test_security_group_has_only_the_rules_given(account):
    """A new group loses AWS's rule that lets everything out; rules of their own come and go by themselves."""
    vpc = account.make("aws_vpc", cidr_block="10.0.0.0/16")
    group = account.make("aws_security_group", name="g", vpc_id=vpc["id"], description="d")
    rule = account.make("aws_vpc_security_group_egress_rule", security_group_id=group["id"], cidr_ipv4="10.0.0.0/16",
                        ip_protocol="tcp", from_port=443, to_port=443)  # fmt: skip
    [found] = account.aws("ec2").describe_security_groups(GroupIds=[group["id"]])["SecurityGroups"]
    assert [each["FromPort"] for each in found["IpPermissionsEgress"]] == [443]
    account.remove("aws_vpc_security_group_egress_rule", rule)
    account.remove("aws_security_group", group)


def test_route_is_found_by_its_destination(account):
    """A route is there as long as its table has its destination, and no other's."""
    vpc = account.make("aws_vpc", cidr_block="10.0.0.0/16")
    gateway = account.make("aws_internet_gateway", vpc_id=vpc["id"])
    table = account.make("aws_route_table", vpc_id=vpc["id"])
    route = account.make(
        "aws_route", route_table_id=table["id"], destination_cidr_block="0.0.0.0/0", gateway_id=gateway["id"]
    )
    assert not account.there("aws_route", {**route, "destination_cidr_block": "0.0.0.0/1"})
    account.remove("aws_route", route)
    account.remove("aws_internet_gateway", gateway)


def test_launch_template_counts_versions(account):
    """A change of a launch template is a new version, which Terraform sees after the change only."""
    block = {"device_name": "/dev/xvda", "ebs": [{"volume_size": 40, "encrypted": "true"}]}
    template = account.make("aws_launch_template", name_prefix="lt-", block_device_mappings=[block])
    assert template["name"].startswith("lt-")
    changed = account.change("aws_launch_template", template, image_id="ami-1")
    assert (template["latest_version"], changed["latest_version"]) == (1, 2)
    [version] = account.aws("ec2").describe_launch_template_versions(
        LaunchTemplateId=template["id"], Versions=["2"]
    )["LaunchTemplateVersions"]  # fmt: skip
    assert version["LaunchTemplateData"]["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 40
    account.remove("aws_launch_template", changed)


def test_bucket_is_emptied_only_if_it_says_so(account):
    """A bucket with objects goes only with force_destroy; an object goes with all its versions."""
    bucket = account.make("aws_s3_bucket", bucket="eagle3-a", force_destroy=True)
    account.make("aws_s3_bucket_versioning", bucket="eagle3-a", versioning_configuration=[{"status": "Enabled"}])
    item = account.make("aws_s3_object", bucket="eagle3-a", key="k", content="1")
    newer = account.change("aws_s3_object", item, content="2")
    assert item["version_id"] != newer["version_id"]
    account.remove("aws_s3_object", newer)
    account.make("aws_s3_object", bucket="eagle3-a", key="k", content="1")
    with pytest.raises(AssertionError, match="BucketNotEmpty"):
        account.remove("aws_s3_bucket", {**bucket, "force_destroy": False})
    account.remove("aws_s3_bucket", bucket)


def test_lifecycle_rules_reach_the_bucket(account):
    """A rule without conditions is for every object; transitions and expirations keep their days."""
    account.make("aws_s3_bucket", bucket="eagle3-b")
    rules = [
        {
            "id": "all",
            "status": "Enabled",
            "filter": [{}],
            "noncurrent_version_expiration": [{"noncurrent_days": 30.0}],
        },
        {
            "id": "old",
            "status": "Enabled",
            "filter": [{"prefix": "logs/"}],
            "transition": [{"days": 90, "storage_class": "GLACIER"}],
        },
    ]
    state = account.make("aws_s3_bucket_lifecycle_configuration", bucket="eagle3-b", rule=rules)
    found = account.aws("s3").get_bucket_lifecycle_configuration(Bucket="eagle3-b")["Rules"]
    assert [each["Filter"] for each in found] == [{"Prefix": ""}, {"Prefix": "logs/"}]
    assert found[0]["NoncurrentVersionExpiration"]["NoncurrentDays"] == 30
    assert found[1]["Transitions"] == [{"Days": 90, "StorageClass": "GLACIER"}]
    account.remove("aws_s3_bucket_lifecycle_configuration", state)


def test_policy_changes_by_versions_and_goes_with_them(account):
    """A policy may change more often than IAM keeps versions, and is deleted with the old ones."""
    text = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject",
                                                             "Resource": "*"}]})  # fmt: skip
    policy = account.make("aws_iam_policy", name="p", policy=text)
    for count in range(6):
        policy = account.change("aws_iam_policy", policy, policy=text.replace("GetObject", f"GetObject{count}"))
    assert account.aws("iam").get_policy(PolicyArn=policy["arn"])["Policy"]["DefaultVersionId"] == "v7"
    account.remove("aws_iam_policy", policy)


def test_key_that_waits_for_deletion_is_gone(account):
    """A key whose deletion is scheduled is no longer there for Terraform; rotation is what was asked for."""
    key = account.make("aws_kms_key", description="d", enable_key_rotation=True)
    assert account.aws("kms").get_key_rotation_status(KeyId=key["key_id"])["KeyRotationEnabled"] is True
    account.remove("aws_kms_key", key)
