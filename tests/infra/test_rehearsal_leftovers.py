"""What the local AWS holds, what is left of it, and that it never outlives a rehearsal."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import boto3
import pytest

from infra.rehearsal.failure import RehearsalError
from infra.rehearsal.inventory import items
from infra.rehearsal.leftovers import describe, leftovers
from infra.rehearsal.local_aws import Item, local_aws

PROJECT = Path(__file__).parents[2]


def item(name, key=None, service="sqs"):
    return Item(service=service, region="us-east-1", type="Queue", key=key or f"queues/{name}", name=name)


def test_what_came_and_stayed_is_left_over():
    """New things are left over; what was there, what went, and what changed its name in place are not."""
    before = {item("a"), item("b"), item("c", key="queues/1")}
    after = {item("a"), item("d"), item("renamed", key="queues/1"), item("a", service="sns")}
    assert [str(left) for left in leftovers(before, after)] == ["sns Queue a", "sqs Queue d"]
    assert leftovers(before, before) == ()


def test_many_leftovers_are_a_few_names_and_a_number():
    """One line, however many there are."""
    many = tuple(item(str(number)) for number in range(7))
    assert describe(many) == "sqs Queue 0, sqs Queue 1, sqs Queue 2, sqs Queue 3, sqs Queue 4 and 2 more"
    assert describe(many[:1]) == "sqs Queue 0"


def simulated(kind, /, **values):
    """An object of a class of the simulator."""
    made = type(kind, (), {})()
    type(made).__module__ = "moto.sqs.models"
    vars(made).update(values)
    return made


def test_an_inventory_reads_tables_however_they_nest():
    """Mappings of mappings, lists and sets; plain values, helpers and other backends are no resources."""
    backend = simulated(
        "SQSBackend",
        queues={"q": simulated("Queue", name="q")},
        groups={"vpc-1": {"sg-1": simulated("SecurityGroup", id="sg-1")}, "vpc-2": {}},
        listed=[simulated("Alarm", alarm_name="high")],
        region_name="us-east-1",
        counts={"queues": 3},
        tagger=simulated("TaggingService", tags={}),
        helpers=[simulated("TaggingService")],
        others={"iam": simulated("IAMBackend", roles={"r": simulated("Role", name="r")})},
    )
    found = {(entry["type"], entry["name"]) for entry in items({"sqs": {"us-east-1": backend}})}
    assert found == {("Queue", "q"), ("SecurityGroup", "sg-1"), ("Alarm", "high")}


def test_an_inventory_finds_what_lies_in_what_was_there_before():
    """A rule in the default event bus is found, with a key of its own, and no reference leads in circles."""
    bus = simulated("EventBus", name="default", rules={})
    bus.rules["r"] = simulated("Rule", name="r", bus=[bus])
    backend = simulated("EventsBackend", event_buses={"default": bus})
    found = [(entry["type"], entry["key"]) for entry in items({"events": {"us-east-1": backend}})]
    assert found == [("EventBus", "event_buses/default"), ("Rule", "event_buses/default/rules/r")]


@pytest.mark.parametrize(
    ("values", "kept"),
    [({"key_state": "PendingDeletion"}, 0), ({"key_state": "Enabled"}, 1), ({"state": "deleted"}, 0), ({}, 1)],
)
def test_what_is_being_deleted_is_not_there(values, kept):
    """A key that waits for its deletion, or a deleted gateway that AWS still shows, is no leftover."""
    backend = simulated("KmsBackend", keys={"k": simulated("Key", id="k", **values)})
    assert len(list(items({"kms": {"us-east-1": backend}}))) == kept


@pytest.mark.slow
def test_a_local_aws_holds_what_is_made_and_forgets_what_is_deleted():
    """Defaults are there from the start; what is made shows, what is deleted does not, in every region asked for."""
    regions = ["eu-west-1", "us-east-1"]
    with local_aws(sys.__stderr__, PROJECT) as cloud:
        before = cloud.inventory(regions)
        assert {"VPC", "EventBus", "AWSManagedPolicy"} <= {entry.type for entry in before}

        def client(service, region="eu-west-1"):
            return boto3.client(
                service, region, endpoint_url=cloud.url, aws_access_key_id="x", aws_secret_access_key="x"
            )

        url = client("sqs").create_queue(QueueName="q")["QueueUrl"]
        key = client("kms", "us-east-1").create_key()["KeyMetadata"]["KeyId"]
        client("events").put_rule(Name="r", EventPattern="{}")
        vpc = client("ec2").create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        cluster = {"name": "c", "roleArn": "arn:aws:iam::123456789012:role/r"}
        client("eks").create_cluster(**cluster, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
        made = {(left.service, left.type) for left in leftovers(before, cloud.inventory(regions))}
        assert {("sqs", "Queue"), ("kms", "Key"), ("events", "Rule"), ("ec2", "VPC"), ("eks", "Cluster")} <= made

        client("sqs").delete_queue(QueueUrl=url)
        client("kms", "us-east-1").schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
        client("events").delete_rule(Name="r")
        client("ec2").delete_vpc(VpcId=vpc)
        client("eks").delete_cluster(name="c")
        assert leftovers(before, cloud.inventory(regions)) == ()


@pytest.mark.slow
def test_the_gaps_of_the_simulator_are_closed():
    """Taken and kept as by AWS: ml.g5 endpoints, tags, subscribers, objects behind TLS, builds without source."""
    with local_aws(sys.__stderr__, PROJECT) as cloud:

        def client(service):
            return boto3.client(
                service, "us-east-1", endpoint_url=cloud.url, aws_access_key_id="x", aws_secret_access_key="x"
            )

        role = "arn:aws:iam::123456789012:role/r"
        sagemaker = client("sagemaker")
        variant = {"VariantName": "all", "ModelName": "m", "InitialInstanceCount": 1}
        sagemaker.create_model(ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": "i"})
        sagemaker.create_endpoint_config(
            EndpointConfigName="c", ProductionVariants=[{**variant, "InstanceType": "ml.g5.xlarge"}]
        )
        with pytest.raises(sagemaker.exceptions.ClientError, match="is no instance type"):
            sagemaker.create_endpoint_config(
                EndpointConfigName="d", ProductionVariants=[{**variant, "InstanceType": "ml.x1.xlarge"}]
            )
        scaling = client("application-autoscaling")
        bake = {
            "BlueGreenUpdatePolicy": {
                "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}
            }
        }
        sagemaker.create_endpoint(EndpointName="e", EndpointConfigName="c", DeploymentConfig=bake)
        assert sagemaker.describe_endpoint(EndpointName="e")["LastDeploymentConfig"] == bake
        assert "DataCaptureConfig" not in sagemaker.describe_endpoint_config(EndpointConfigName="c")
        sagemaker.create_endpoint_config(
            EndpointConfigName="c2", ProductionVariants=[{**variant, "InstanceType": "ml.g5.12xlarge"}]
        )
        sagemaker.update_endpoint(EndpointName="e", EndpointConfigName="c2")
        assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == "c2"
        target = {
            "ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
            "ResourceId": "endpoint/e/variant/all", "MinCapacity": 1, "MaxCapacity": 2,
        }  # fmt: skip
        arn = scaling.register_scalable_target(**target, Tags={"a": "b"})["ScalableTargetARN"]
        assert scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] == {"a": "b"}
        budgets, owner = client("budgets"), {"AccountId": "123456789012"}
        limit = {"BudgetLimit": {"Amount": "1", "Unit": "USD"}, "BudgetType": "COST", "TimeUnit": "MONTHLY"}
        spent = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80}
        told = [{"SubscriptionType": "EMAIL", "Address": "a@example.com"}]
        budgets.create_budget(
            **owner,
            Budget={"BudgetName": "monthly", **limit},
            NotificationsWithSubscribers=[{"Notification": spent, "Subscribers": told}],
            ResourceTags=[{"Key": "a", "Value": "b"}],
        )
        arn = "arn:aws:budgets::123456789012:budget/monthly"
        assert budgets.list_tags_for_resource(ResourceARN=arn)["ResourceTags"] == [{"Key": "a", "Value": "b"}]
        found = budgets.describe_subscribers_for_notification(**owner, BudgetName="monthly", Notification=spent)
        assert found["Subscribers"] == told
        deny = (
            '{"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": ["s3:*"], '
            '"Resource": ["arn:aws:s3:::models-1/*"], "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}'
        )
        client("s3").create_bucket(Bucket="models-1")
        client("s3").put_bucket_policy(Bucket="models-1", Policy=deny)
        client("s3").put_object(Bucket="models-1", Key="k", Body=b"x")
        client("codebuild").create_project(
            name="build",
            source={"type": "NO_SOURCE", "buildspec": "{}"},
            artifacts={"type": "NO_ARTIFACTS"},
            environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"},
            serviceRole=role,
        )


def test_a_local_aws_that_ends_is_an_error(monkeypatch, tmp_path):
    """A server that cannot start is told as such, instead of a question that waits for ever."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with (
        (tmp_path / "log").open("w", encoding="utf-8") as log,
        pytest.raises(RehearsalError, match="the local AWS ended"),
        local_aws(log, PROJECT) as cloud,
    ):
        cloud.inventory(["us-east-1"])


@pytest.mark.slow
def test_a_local_aws_ends_with_its_parent():
    """Even a parent that is killed outright leaves no server: the server reads its stdin and sees it end."""
    script = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        from infra.rehearsal.local_aws import local_aws
        with local_aws(sys.stderr, Path.cwd()) as cloud:
            print(cloud._process.pid, cloud.url, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    environment = {**os.environ, "PYTHONPATH": f"{PROJECT}{os.pathsep}{PROJECT / 'runtime'}"}
    parent = subprocess.Popen(
        [sys.executable, "-c", script], cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True
    )
    # The pipe of stdout is the server's too, so reading to the end waits for both.
    out, _ = parent.communicate(timeout=60)
    server = int(out.split()[0])
    for _ in range(200):
        if not Path(f"/proc/{server}").exists():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the server outlives its parent")
