"""Model, configuration and endpoint as SageMaker gets them."""

from __future__ import annotations

import pytest

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.config.environment import environment_values
from endpoint_doubles import DATA_KEY, NAME, TOPIC, endpoint_stack
from infra.constructs.endpoint.endpoint import Endpoint, EndpointProps
from infra.settings.endpoint import EndpointSettings
from infra_doubles import SITE, synthesize

TWO = {"instance_count": 2, "autoscaling": {"min_instances": 2, "max_instances": 4}}
S3 = EndpointSettings.model_validate({"weights": {"source": "s3", "s3_prefix": "models/llama/"}})
FOLDERS = DeploymentConfig(target="target", draft="draft")
HUB = EndpointSettings.model_validate({"weights": {"source": "hub"}, "image": {"container": "vllm"}})
HUB_IDS = DeploymentConfig(target="org/model", draft="org/draft")


def settings_of(**values):
    """Settings of an endpoint from nested values."""
    return EndpointSettings.model_validate(values)


def variant(stack):
    """The one production variant."""
    [found] = stack.only("aws_sagemaker_endpoint_configuration")["production_variants"]
    return found


def listed(value):
    """A block, whether it was written as one or as a list of one."""
    return value[0] if isinstance(value, list) else value


def routing(stack):
    """How traffic moves to new instances."""
    deployment = stack.only("aws_sagemaker_endpoint")["deployment_config"]
    return deployment["blue_green_update_policy"]["traffic_routing_configuration"]


def test_endpoint_runs_the_configuration_of_the_model():
    """Endpoint → configuration → model → role, each by reference; only the endpoint's name is fixed."""
    stack = endpoint_stack()
    endpoint = stack.only("aws_sagemaker_endpoint")
    config = stack.follow(endpoint["endpoint_config_name"])
    assert config.kind == "aws_sagemaker_endpoint_configuration"
    model = stack.follow(variant(stack)["model_name"])
    assert model.kind == "aws_sagemaker_model"
    assert stack.follow(model["execution_role_arn"]).kind == "aws_iam_role"
    assert endpoint["name"] == NAME


def test_model_and_configuration_can_be_replaced():
    """D22: neither has a fixed name, and a new one is made before the old one goes."""
    stack = endpoint_stack()
    model = stack.only("aws_sagemaker_model")
    config = stack.only("aws_sagemaker_endpoint_configuration")
    assert model.get("name") is None
    assert config.get("name") is None
    # Terraform adds 26 characters to a prefix; a name has 63.
    assert len(config["name_prefix"]) <= 37
    assert all(resource["lifecycle"] == {"create_before_destroy": True} for resource in (model, config))
    assert "lifecycle" not in stack.only("aws_sagemaker_endpoint").values


def test_role_is_complete_before_the_model_uses_it():
    """The model waits for the role's policy: without it SageMaker could fetch neither image nor weights."""
    stack = endpoint_stack()
    [policy] = stack.only("aws_sagemaker_model")["depends_on"]
    assert policy.startswith("aws_iam_role_policy.")


def test_machine_image_fits_the_cuda_of_the_image():
    """D24: the default image of CUDA 13 gets gpu-4-1, one of CUDA 12 gpu-3-1, a CPU none."""
    assert variant(endpoint_stack())["inference_ami_version"] == "al2023-ami-sagemaker-inference-gpu-4-1"
    older = variant(endpoint_stack(settings_of(image={"cuda": "12.8"})))
    assert older["inference_ami_version"] == "al2-ami-sagemaker-inference-gpu-3-1"
    cpu = variant(endpoint_stack(settings_of(instance_type="ml.c7i.xlarge", volume_gb=40)))
    assert "inference_ami_version" not in cpu
    assert cpu["volume_size_in_gb"] == 40


def test_timeouts_are_on_the_variant():
    """D25: start and download have their timeouts on the production variant, within 60 to 3600 s."""
    found = variant(endpoint_stack(settings_of(startup_timeout_s=3600, model_download_timeout_s=60)))
    assert found["container_startup_health_check_timeout_in_seconds"] == 3600
    assert found["model_data_download_timeout_in_seconds"] == 60
    default = variant(endpoint_stack())
    assert 60 <= default["container_startup_health_check_timeout_in_seconds"] <= 3600
    assert 60 <= default["model_data_download_timeout_in_seconds"] <= 3600


def test_weights_in_the_bucket_close_the_network():
    """Weights come uncompressed from a folder of the bucket, and the container has no network."""
    model = endpoint_stack(S3, FOLDERS).only("aws_sagemaker_model")
    [source] = model["primary_container"]["model_data_source"]["s3_data_source"]
    assert source == {
        "s3_uri": "s3://models/models/llama/",
        "s3_data_type": "S3Prefix",
        "compression_type": "None",
    }
    assert model["enable_network_isolation"] is True
    assert len(model["vpc_config"]["subnets"]) == 2


def test_hub_opens_the_network_and_says_so():
    """Weights from the Hub need the network: isolation is off, with a reason beside the resource."""
    stack = endpoint_stack(HUB, HUB_IDS)
    model = stack.only("aws_sagemaker_model")
    assert model["enable_network_isolation"] is False
    assert "Hub" in model["//"]["checkov"]["CKV_AWS_370"]
    assert "checkov" not in endpoint_stack().only("aws_sagemaker_model")["//"]
    ranges = {rule.get("cidr_ipv4") for rule in stack.all("aws_vpc_security_group_egress_rule")}
    assert "0.0.0.0/0" in ranges


def test_security_group_lets_nothing_in():
    """The container's group has no ingress; HTTPS goes out to the VPC and to S3 alone."""
    stack = endpoint_stack()
    group = stack.only("aws_security_group")
    model = stack.only("aws_sagemaker_model")
    assert stack.references(model["vpc_config"]["security_group_ids"]) == [group]
    assert not {"ingress", "egress"} & set(group.values)
    assert not stack.all("aws_vpc_security_group_ingress_rule")
    rules = stack.all("aws_vpc_security_group_egress_rule")
    assert {(rule["ip_protocol"], rule["from_port"], rule["to_port"]) for rule in rules} == {("tcp", 443, 443)}
    assert {rule.get("cidr_ipv4") or rule.get("prefix_list_id") for rule in rules} == {"10.0.0.0/16", "pl-1"}


def test_container_reads_its_config_from_the_environment():
    """The environment of the synthesized model makes the config that serves on 8080 with the endpoint's metrics."""
    container = endpoint_stack(S3, FOLDERS).only("aws_sagemaker_model")["primary_container"]
    config = parse_config(environment_values(container["environment"]), source="environment")
    assert (config.target, config.draft, config.device) == ("/opt/ml/model/target", "/opt/ml/model/draft", "cuda")
    assert (config.serving.host, config.serving.port) == ("0.0.0.0", 8080)
    assert config.metrics.dimensions == {"EndpointName": NAME}


def test_data_is_encrypted_and_not_kept():
    """Volumes have the data key; prompts and answers are not captured unless the settings say so."""
    config = endpoint_stack().only("aws_sagemaker_endpoint_configuration")
    assert config["kms_key_arn"] == DATA_KEY
    assert "data_capture_config" not in config.values
    capture = endpoint_stack(settings_of(data_capture_percent=5)).only("aws_sagemaker_endpoint_configuration")
    block = capture["data_capture_config"]
    assert (block["initial_sampling_percentage"], block["kms_key_id"]) == (5, DATA_KEY)
    assert [option["capture_mode"] for option in block["capture_options"]] == ["Input", "Output"]


def test_one_instance_changes_all_at_once_and_bakes():
    """One instance cannot be split: all traffic moves at once, the old instance stays for the bake."""
    stack = endpoint_stack()
    assert routing(stack) == {"type": "ALL_AT_ONCE", "wait_interval_in_seconds": 600}
    policy = stack.only("aws_sagemaker_endpoint")["deployment_config"]["blue_green_update_policy"]
    assert policy["termination_wait_in_seconds"] == 600
    assert 600 <= policy["maximum_execution_timeout_in_seconds"] <= 28800


@pytest.mark.parametrize(("strategy", "key"), [("CANARY", "canary_size"), ("LINEAR", "linear_step_size")])
def test_two_instances_can_be_split(strategy, key):
    """A canary or a step is a count of instances, half of them at most."""
    found = routing(endpoint_stack(settings_of(rollout={"strategy": strategy}, **TWO)))
    assert found["type"] == strategy
    assert found[key] == {"type": "INSTANCE_COUNT", "value": 1}
    assert found["wait_interval_in_seconds"] == 300


def test_rollback_alarms_are_plain_names():
    """Alarms that end a rollout are named, never referenced: alarms about the endpoint would make a cycle."""
    stack = endpoint_stack()
    rollback = stack.only("aws_sagemaker_endpoint")["deployment_config"]["auto_rollback_configuration"]
    names = [alarm["alarm_name"] for alarm in rollback["alarms"]]
    assert names == ["errors", "latency"]
    assert not stack.references(rollback)


def test_more_than_ten_rollback_alarms_are_a_fault():
    """SageMaker takes ten; none leaves the block out."""

    def build(count):
        names = tuple(f"alarm-{number}" for number in range(count))
        props = EndpointProps(site=SITE, settings=EndpointSettings(), config_name="c", rollback_alarm_names=names)
        return synthesize(lambda stack: Endpoint(stack, "Endpoint", props))

    with pytest.raises(AssertionError, match="10 rollback alarms"):
        build(11)
    assert "auto_rollback_configuration" not in build(0).only("aws_sagemaker_endpoint")["deployment_config"]


def test_asynchronous_endpoint_answers_into_the_bucket():
    """Answers and errors are encrypted objects, topics hear of them, and an instance gets what its server takes."""
    deployment = DeploymentConfig.model_validate({"limits": {"concurrency": 32}})
    config = endpoint_stack(settings_of(mode="async"), deployment).only("aws_sagemaker_endpoint_configuration")
    block = config["async_inference_config"]
    assert block["client_config"] == {"max_concurrent_invocations_per_instance": 32}
    output = block["output_config"]
    assert (output["s3_output_path"], output["kms_key_id"]) == ("s3://models/async/answers/", DATA_KEY)
    assert output["notification_config"] == {"success_topic": TOPIC, "error_topic": TOPIC}


def test_serverless_has_neither_instances_nor_vpc():
    """Serverless: memory and concurrency in place of instances; no VPC, no isolation, no machine image, no rollout."""
    stack = endpoint_stack(settings_of(mode="serverless"))
    found = variant(stack)
    assert found["serverless_config"] == {"memory_size_in_mb": 6144, "max_concurrency": 2}
    assert not {"instance_type", "inference_ami_version", "initial_instance_count"} & set(found)
    model = stack.only("aws_sagemaker_model")
    assert "vpc_config" not in model.values
    assert "serverless" in model["//"]["checkov"]["CKV_AWS_370"]
    assert model["primary_container"]["image"].endswith("-cpu")
    assert "deployment_config" not in stack.only("aws_sagemaker_endpoint").values
    assert "aws_appautoscaling_target" not in stack.kinds()


def test_requests_go_where_the_fewest_are():
    """Requests differ in length, so that they go to the instance with the fewest open ones."""
    assert listed(variant(endpoint_stack())["routing_config"]) == {"routing_strategy": "LEAST_OUTSTANDING_REQUESTS"}
