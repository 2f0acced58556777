"""Settings of an endpoint: what is refused, and what the container gets from the one deployment config."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from eagle3.config.deployment import DeploymentConfig, parse_config
from eagle3.config.environment import environment_values
from eagle3.errors import ConfigError
from infra.settings.endpoint import EndpointSettings
from infra.settings.endpoint_checks import check_endpoint
from infra.settings.endpoint_container import container_environment, endpoint_deployment, endpoint_image
from infra.settings.endpoint_facts import (
    RELEASE,
    image_cuda,
    image_tag,
    is_isolated,
    machine_image,
    queue_target,
    rollout_timeout_s,
    target_concurrency,
)
from infra_doubles import SITE

S3 = {"source": "s3", "s3_prefix": "models/llama/"}


def settings_of(**values):
    """Settings of an endpoint from nested values."""
    return EndpointSettings.model_validate(values)


def deployment_of(**values):
    """A deployment config from nested values."""
    return DeploymentConfig.model_validate(values)


def check(settings, deployment=None, *, region="us-east-1", has_nat=False):
    """All checks."""
    check_endpoint(settings, deployment or DeploymentConfig(), region=region, has_nat=has_nat)


def environment(settings, deployment):
    """Environment of the container."""
    return container_environment(settings, endpoint_deployment(settings, deployment, endpoint_name="e"))


def test_defaults_pass():
    """The default endpoint is one ml.g5.xlarge at a time, two at most, that keeps no prompts."""
    settings = EndpointSettings()
    check(settings)
    assert (settings.mode, settings.instance_type, settings.instance_count) == ("realtime", "ml.g5.xlarge", 1)
    assert settings.most_instances == 2
    assert settings.data_capture_percent == 0


GOOD = {
    "canary": (
        {"instance_count": 2, "rollout": {"strategy": "CANARY"}, "autoscaling": {"min_instances": 2}},
        {},
        {},
    ),
    "s3": ({"weights": S3}, {"target": "target", "draft": "draft"}, {}),
    "hub": (
        {"weights": {"source": "hub"}, "image": {"container": "vllm"}},
        {"target": "org/model", "draft": "org/draft"},
        {"has_nat": True},
    ),
    "four GPUs": ({"instance_type": "ml.g5.12xlarge"}, {"engine": {"name": "vllm", "tensor_parallel": 4}}, {}),
    "serverless": ({"mode": "serverless"}, {}, {}),
    "CPU": ({"instance_type": "ml.c7i.xlarge", "volume_gb": 20}, {}, {}),
    "other region": ({}, {}, {"region": "eu-west-1"}),
}

BAD = {
    "region": ({"instance_type": "ml.p5.48xlarge"}, {}, {"region": "eu-west-1"}, "does not exist in eu-west-1"),
    "type": ({"instance_type": "ml.g4.huge"}, {}, {}, "not one that the kit knows"),
    "disk": ({"volume_gb": 20}, {}, {}, "volume_gb must be null for ml.g5.xlarge"),
    "CUDA": ({"image": {"cuda": "11.8"}}, {}, {}, "12.x or 13.x; got '11.8'"),
    "machine image": (
        {"image": {"cuda": "13.0", "inference_ami_version": "al2-ami-sagemaker-inference-gpu-3-1"}},
        {},
        {},
        "driver 550",
    ),
    "unknown CUDA": (
        {"image": {"container": "vllm", "digest": "sha256:" + "0" * 64}, "weights": S3},
        {"target": "t", "draft": None},
        {},
        "set endpoint.image.cuda",
    ),
    "canary of one": ({"rollout": {"strategy": "CANARY"}}, {}, {}, "CANARY needs 2 instances.*may have 1"),
    "linear of one": ({"rollout": {"strategy": "LINEAR"}}, {}, {}, "LINEAR needs 2 instances"),
    "large canary": (
        {
            "instance_count": 4,
            "rollout": {"strategy": "CANARY", "step_instances": 3},
            "autoscaling": {"enabled": False},
        },
        {},
        {},
        "at most half.*got 3; allowed: 1 to 2",
    ),
    "small step": (
        {"instance_count": 30, "rollout": {"strategy": "LINEAR"}, "autoscaling": {"enabled": False}},
        {},
        {},
        "at least a tenth.*30",
    ),
    "sleeping canary": (
        {
            "mode": "async",
            "instance_count": 2,
            "rollout": {"strategy": "CANARY"},
            "autoscaling": {"min_instances": 2},
        },
        {},
        {},
        "may have 0",
    ),
    "count": ({"instance_count": 3}, {}, {}, "max_instances 2; got 3"),
    "serverless CUDA": ({"mode": "serverless", "image": {"cuda": "13.0"}}, {}, {}, "no GPU.*image.cuda to null"),
    "serverless GPU type": ({"mode": "serverless", "instance_type": "ml.g5.xlarge"}, {}, {}, "no instances"),
    "serverless device": ({"mode": "serverless"}, {"device": "cuda:0"}, {}, "deployment.device to cpu"),
    "serverless container": ({"mode": "serverless", "image": {"container": "lmi"}}, {}, {}, "container to eagle3"),
    "serverless weights": ({"mode": "serverless", "weights": S3}, {}, {}, "weights.source to image"),
    "serverless engine": ({"mode": "serverless"}, {"engine": {"name": "vllm"}}, {}, "engine.name to native"),
    "hub without NAT": (
        {"weights": {"source": "hub"}, "image": {"container": "vllm"}},
        {"target": "org/model", "draft": None},
        {},
        "network.nat none",
    ),
    "hub id": (
        {"weights": {"source": "hub"}, "image": {"container": "vllm"}},
        {"target": "/models/a", "draft": None},
        {"has_nat": True},
        "deployment.target must be an id.*'/models/a'",
    ),
    "hub for our image": ({"weights": {"source": "hub"}}, {}, {"has_nat": True}, "downloads nothing"),
    "no model": ({"image": {"container": "lmi"}}, {}, {}, "lmi holds no model"),
    "tensor parallel": (
        {"instance_type": "ml.g5.12xlarge"},
        {"engine": {"name": "vllm", "tensor_parallel": 8}},
        {},
        "tensor_parallel 8.*ml.g5.12xlarge has 4",
    ),
    "GPU unused": ({}, {"device": "cpu"}, {}, "nobody would use them"),
    "GPU missing": ({"instance_type": "ml.c7i.xlarge"}, {"device": "cuda"}, {}, "has no GPU"),
    "drain": ({}, {"limits": {"drain_s": 26}}, {}, "drain_s must be at most 25.*got 26"),
    "body": ({}, {"limits": {"max_body_bytes": 6_291_457}}, {}, "max_body_bytes must be at most 6291456"),
    "keys": ({}, {"serving": {"api_keys_file": "/keys"}}, {}, "api_keys_file must be null"),
    "loading": ({"startup_timeout_s": 600}, {}, {}, "startup_timeout_s 600 is shorter"),
    "capture": ({"mode": "async", "data_capture_percent": 5}, {}, {}, "captures realtime endpoints only"),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_settings_pass(name):
    """Settings that SageMaker accepts are accepted."""
    settings, deployment, place = GOOD[name]
    check(settings_of(**settings), deployment_of(**deployment), **place)


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused(name):
    """Each fault is one error that says what was got and what to do."""
    settings, deployment, place, message = BAD[name]
    with pytest.raises(ConfigError, match=message):
        check(settings_of(**settings), deployment_of(**deployment), **place)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image": {"tag": "latest"}}, "`latest` moves"),
        ({"image": {"tag": "a b"}}, "128 at most"),
        ({"image": {"digest": "sha256:12"}}, "64 hexadecimal digits"),
        ({"image": {"tag": "1", "digest": "sha256:" + "0" * 64}}, "not both"),
        ({"weights": {"source": "s3"}}, "s3_prefix is given with source s3"),
        ({"weights": {"source": "hub", "s3_prefix": "a/"}}, "only with it"),
        ({"weights": {"source": "s3", "s3_prefix": "models/llama"}}, "followed by one '/'"),
        ({"autoscaling": {"min_instances": 3}}, "above max_instances 2"),
        ({"startup_timeout_s": 59}, "greater than or equal to 60"),
        ({"startup_timeout_s": 3601}, "less than or equal to 3600"),
        ({"model_download_timeout_s": 3601}, "less than or equal to 3600"),
        ({"serverless": {"memory_mb": 8192}}, "6144"),
        ({"autoscale": {}}, "Extra inputs are not permitted"),
    ],
)
def test_sections_check_themselves(values, message):
    """D25 among them: timeouts lie between 60 and 3600 seconds; tags are exact; unknown keys are errors."""
    with pytest.raises(ValidationError, match=message):
        settings_of(**values)


@pytest.mark.parametrize("name", ["canary", "s3", "four GPUs", "CPU", "serverless"])
def test_environment_makes_the_same_config(name):
    """What our container reads from its environment is the config that was deployed."""
    settings, deployment = settings_of(**GOOD[name][0]), deployment_of(**GOOD[name][1])
    config = endpoint_deployment(settings, deployment, endpoint_name="eagle3-test")
    values = environment_values(container_environment(settings, config))
    assert parse_config(values, source="environment") == config


def test_sagemaker_decides_address_and_metrics():
    """Port 8080 on every address, metrics on stdout under the endpoint's name, whatever the config says of them."""
    deployment = deployment_of(
        serving={"host": "127.0.0.1", "port": 1},
        metrics={"emf": "agent", "agent_endpoint": "tcp://127.0.0.1:25888", "dimensions": {"A": "b"}},
    )
    config = endpoint_deployment(EndpointSettings(), deployment, endpoint_name="eagle3-test")
    assert (config.serving.host, config.serving.port) == ("0.0.0.0", 8080)
    assert (config.metrics.emf, config.metrics.agent_endpoint) == ("stdout", None)
    assert config.metrics.dimensions == {"EndpointName": "eagle3-test"}


def test_gpu_is_used_unless_the_config_says_otherwise():
    """A GPU instance runs in bfloat16 on CUDA; a dtype of one's own stays; a CPU instance keeps the config's."""
    gpu, cpu = EndpointSettings(), settings_of(instance_type="ml.c7i.xlarge")
    config = endpoint_deployment(gpu, DeploymentConfig(), endpoint_name="e")
    assert (config.device, config.dtype) == ("cuda", "bfloat16")
    assert endpoint_deployment(gpu, deployment_of(dtype="float16"), endpoint_name="e").dtype == "float16"
    assert endpoint_deployment(cpu, DeploymentConfig(), endpoint_name="e").device == "cpu"


def test_weights_lie_where_sagemaker_puts_them():
    """Folders below the prefix are folders below /opt/ml/model, '.' is the prefix; no draft stays none."""
    settings = settings_of(weights=S3)
    config = endpoint_deployment(settings, deployment_of(target="a/target", draft="draft/"), endpoint_name="e")
    assert (config.target, config.draft) == ("/opt/ml/model/a/target", "/opt/ml/model/draft")
    config = endpoint_deployment(settings, deployment_of(target=".", draft=None), endpoint_name="e")
    assert (config.target, config.draft) == ("/opt/ml/model", None)
    config = endpoint_deployment(settings, deployment_of(target="/opt/ml/model/t", draft=None), endpoint_name="e")
    assert config.target == "/opt/ml/model/t"


@pytest.mark.parametrize(
    ("deployment", "message"),
    [
        ({}, "deployment.target must name the folder"),
        ({"target": "t"}, "deployment.draft must name the folder.*null serves without"),
        ({"target": "/models/t", "draft": None}, "must lie below"),
        ({"target": "../t", "draft": None}, "must lie below"),
    ],
)
def test_weights_elsewhere_are_refused(deployment, message):
    """With weights in the bucket, target and draft must be named, and be in it."""
    with pytest.raises(ConfigError, match=message):
        endpoint_deployment(settings_of(weights=S3), deployment_of(**deployment), endpoint_name="e")


def test_aws_containers_get_their_own_variables():
    """vLLM's and LMI's containers get model, draft and GPUs by their names, and none of ours."""
    deployment = deployment_of(target="t", draft="d", engine={"name": "vllm", "tensor_parallel": 4})
    vllm = environment(settings_of(image={"container": "vllm"}, weights=S3), deployment)
    assert vllm["SM_VLLM_MODEL"] == "/opt/ml/model/t"
    assert vllm["SM_VLLM_DTYPE"] == "bfloat16"
    assert '"model":"/opt/ml/model/d"' in vllm["SM_VLLM_SPECULATIVE_CONFIG"]
    lmi = environment(settings_of(image={"container": "lmi"}, weights=S3), deployment)
    assert lmi["HF_MODEL_ID"] == "/opt/ml/model/t"
    assert lmi["OPTION_TENSOR_PARALLEL_DEGREE"] == "4"
    assert not any(name.startswith("EAGLE3_") for name in vllm | lmi)


def test_long_variables_are_refused():
    """SageMaker takes 1024 characters a variable; a longer one is an error that names it."""
    with pytest.raises(ConfigError, match=r"1024.*EAGLE3_ENGINE__ARGUMENTS"):
        environment(EndpointSettings(), deployment_of(engine={"arguments": ["x" * 1100]}))


def test_images():
    """Our image comes from the stack's repository, AWS's from the registry of the region; a digest wins over no tag."""
    places = {"repository_url": "1.dkr.ecr.x/eagle3", "repository_arn": "arn:ours"}
    ours = endpoint_image(EndpointSettings(), SITE, **places)
    assert (ours.uri, ours.repository_arn) == (f"1.dkr.ecr.x/eagle3:{RELEASE}-cuda13.0", "arn:ours")
    digest = "sha256:" + "a" * 64
    assert endpoint_image(settings_of(image={"digest": digest}), SITE, **places).uri == f"1.dkr.ecr.x/eagle3@{digest}"
    theirs = endpoint_image(settings_of(image={"container": "lmi"}), SITE, **places)
    assert theirs.uri.startswith("763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:")
    assert theirs.repository_arn == "arn:aws:ecr:us-east-1:763104351884:repository/djl-inference"


def test_release_is_the_packages():
    """The image deployed by default is that of the release in pyproject.toml."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == RELEASE


def test_facts_follow_from_settings():
    """CUDA, machine image and tag follow from instance and container; a CPU has none of them."""
    cpu = settings_of(instance_type="ml.c7i.xlarge")
    assert (image_cuda(cpu), machine_image(cpu), image_tag(cpu)) == (None, None, f"{RELEASE}-cpu")
    old = settings_of(image={"container": "lmi", "tag": "0.36.0-lmi20.0.0-cu128"})
    assert (image_cuda(old), machine_image(old).version) == ("12.8", "al2-ami-sagemaker-inference-gpu-3-1")
    assert image_cuda(EndpointSettings()) == "13.0"


def test_isolation():
    """Only the Hub needs a network; serverless has no isolation to offer."""
    assert is_isolated(EndpointSettings())
    assert is_isolated(settings_of(weights=S3))
    assert not is_isolated(settings_of(weights={"source": "hub"}))
    assert not is_isolated(settings_of(mode="serverless"))


def test_scaling_targets_follow_the_limits():
    """Concurrency aims below the server's limit; nobody but our image counts the queue."""
    deployment = deployment_of(limits={"concurrency": 10})
    assert target_concurrency(EndpointSettings(), deployment) == 7.0
    assert target_concurrency(settings_of(autoscaling={"target_concurrency": 3}), deployment) == 3.0
    assert queue_target(EndpointSettings()) == 4.0
    assert queue_target(settings_of(image={"container": "vllm"})) is None


def test_rollout_has_time_for_all_its_waits():
    """A rollout may take as long as loading, waits and bake together, within SageMaker's 8 hours."""
    values = {"instance_count": 8, "autoscaling": {"enabled": False}, "startup_timeout_s": 600}
    linear = settings_of(rollout={"strategy": "LINEAR", "step_instances": 2}, **values)
    assert rollout_timeout_s(linear) == 900 + 1800 + 600 + 3 * 300 + 600
    slow = settings_of(rollout={"strategy": "LINEAR", "wait_s": 3600, "bake_s": 3600}, **values)
    assert rollout_timeout_s(slow) == 28800
