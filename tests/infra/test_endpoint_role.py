"""What the endpoint's container may do."""

from __future__ import annotations

import json

from eagle3.config.deployment import DeploymentConfig
from endpoint_doubles import BUCKET, DATA_KEY, TOPIC, endpoint_stack
from infra.settings.endpoint import EndpointSettings
from infra_doubles import SITE, listed

S3 = EndpointSettings.model_validate({"weights": {"source": "s3", "s3_prefix": "models/llama/"}})
FOLDERS = DeploymentConfig(target="target", draft="draft")


def statements(stack):
    """Statements of the role's policy by sid."""
    return {statement["Sid"]: statement for statement in stack.only("aws_iam_role_policy").policy()}


def test_only_sagemaker_of_this_account_takes_the_role():
    """Role → trust: SageMaker, on behalf of this account and no other."""
    [trust] = endpoint_stack().only("aws_iam_role").policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": SITE.account_id}}


def test_policy_belongs_to_the_role():
    """Policy → role → model."""
    stack = endpoint_stack()
    role = stack.follow(stack.only("aws_iam_role_policy")["role"])
    assert stack.follow(stack.only("aws_sagemaker_model")["execution_role_arn"]).id == role.id


def test_actions_are_named_and_resources_scoped():
    """No action is a wildcard; `*` is a resource only of calls that AWS knows none for."""
    for stack in (endpoint_stack(S3, FOLDERS), endpoint_stack(EndpointSettings(mode="async"))):
        for statement in statements(stack).values():
            assert not any("*" in action for action in statement["Action"])
            if "*" in listed(statement["Resource"]):
                assert statement["Sid"] in {"RegistryLogin", "PutMetrics", "FindNetwork"}


def test_weights_are_read_from_their_folder_alone():
    """Objects below the prefix, and a listing of that prefix: nothing else of the bucket, and nothing to write."""
    found = statements(endpoint_stack(S3, FOLDERS))
    assert listed(found["ReadObjects"]["Resource"]) == [f"{BUCKET}/models/llama/*"]
    assert listed(found["ListFolders0"]["Resource"]) == [BUCKET]
    assert found["ListFolders0"]["Condition"] == {"StringLike": {"s3:prefix": ["models/llama/*"]}}
    assert "WriteObjects" not in found
    assert "ReadObjects" not in statements(endpoint_stack())


def test_asynchronous_endpoint_writes_answers_and_notifies():
    """Answers go to their folder, topics are notified with their key by way of SNS."""
    found = statements(endpoint_stack(EndpointSettings(mode="async")))
    assert listed(found["ReadObjects"]["Resource"]) == [f"{BUCKET}/async/requests/*"]
    assert listed(found["WriteObjects"]["Resource"]) == [f"{BUCKET}/async/answers/*"]
    assert listed(found["Notify"]["Resource"]) == [TOPIC]
    assert found["UseTopicKey"]["Condition"] == {"StringEquals": {"kms:ViaService": "sns.us-east-1.amazonaws.com"}}


def test_image_is_pulled_from_one_repository():
    """The stack's own repository by reference, or AWS's of the container."""
    stack = endpoint_stack()
    assert stack.follow(statements(stack)["PullImage"]["Resource"]).kind == "aws_ecr_repository"
    other = endpoint_stack(
        S3.model_copy(update={"image": EndpointSettings.model_validate({"image": {"container": "vllm"}}).image}),
        FOLDERS,
    )
    assert statements(other)["PullImage"]["Resource"] == "arn:aws:ecr:us-east-1:763104351884:repository/vllm"


def test_logs_go_to_the_endpoints_group():
    """Log statement → log group with a key and a retention, made before SageMaker would make one without."""
    stack = endpoint_stack()
    [group] = stack.references(statements(stack)["WriteLogs"]["Resource"])
    assert group["name"].startswith("/aws/sagemaker/Endpoints/")
    assert group["kms_key_id"]
    assert group["retention_in_days"] >= 365


def test_metrics_and_keys_are_bound():
    """Metrics go to our namespace; the key's grants are for AWS's own volumes; rollback alarms may be looked at."""
    found = statements(endpoint_stack())
    assert found["PutMetrics"]["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Eagle3"}}
    assert found["UseDataKey"]["Resource"] == DATA_KEY
    assert found["GrantDataKey"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert found["WatchAlarms"]["Action"] == ["cloudwatch:DescribeAlarms"]
    assert found["WatchAlarms"]["Resource"] == SITE.arn("cloudwatch", "alarm:*")


def test_interfaces_are_made_in_the_subnets_alone():
    """An interface needs its subnet and group allowed; only interfaces of the VPC are handed on or deleted."""
    stack = endpoint_stack()
    found = statements(stack)
    places = json.dumps(found["JoinNetwork"]["Resource"])
    assert "subnet/subnet-a" in places
    assert stack.references(places) == [stack.only("aws_security_group")]
    # Condition keys of the call, by resource: a new interface has no VPC to ask for.
    assert "Condition" not in found["JoinNetwork"]
    assert found["UseInterfaces"]["Condition"] == {"ArnEquals": {"ec2:Vpc": SITE.arn("ec2", "vpc/vpc-1")}}


def test_serverless_has_no_network():
    """Outside of the VPC nothing of EC2 is allowed."""
    found = statements(endpoint_stack(EndpointSettings(mode="serverless")))
    assert not any(action.startswith("ec2:") for statement in found.values() for action in statement["Action"])
