"""The one deployment config as the chart eagle3 takes, checks, completes and mounts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from chart_doubles import fails, render
from charts import sync_config
from eagle3.config.deployment import DeploymentConfig, load_config
from eagle3.config.schema import config_defaults, config_schema

EVERYTHING: dict[str, Any] = {
    "target": "/models/target",
    "draft": None,
    "device": "cuda",
    "dtype": "bfloat16",
    "speculation": {"depth": 3, "top_k": 1, "nodes": 3, "off_threshold": 8},
    "engine": {
        "name": "vllm",
        "tensor_parallel": 2,
        "arguments": ["--max-model-len", "8192"],
        "start_timeout_s": 900.5,
    },
    "limits": {"drain_s": 20.5, "max_body_bytes": 123456789, "max_prompt_tokens": None},
    "serving": {"port": 9000, "model_name": "yes", "host": "0.0.0.0"},
    "metrics": {"emf": "stdout", "dimensions": {"ClusterName": "1"}},
}


def mounted(values: dict[str, Any], folder: Path) -> DeploymentConfig:
    """The config that the server reads."""
    path = folder / "config.yaml"
    path.write_text(render(values).only("ConfigMap", "eagle3")["data"]["config.yaml"], encoding="utf-8")
    return load_config(path)


def test_the_config_arrives_as_it_was_given(tmp_path: Path) -> None:
    """Every setting reaches the server with its value and type: null, large numbers, fractions, words like `yes`."""
    values = {"config": EVERYTHING, "model": {"weightsGiB": 16}}
    assert mounted(values, tmp_path) == DeploymentConfig.model_validate(EVERYTHING)


def test_a_whole_config_arrives_too(tmp_path: Path) -> None:
    """A config with every default written out, as the large stack passes it, is taken."""
    config = DeploymentConfig().model_dump(mode="json")
    config["serving"]["host"] = "0.0.0.0"
    assert mounted({"config": config}, tmp_path) == DeploymentConfig.model_validate(config)


def test_the_chart_adds_the_address_alone(tmp_path: Path) -> None:
    """Without a config the server has its own defaults, but listens where the Service reaches it."""
    assert mounted({}, tmp_path) == DeploymentConfig.model_validate({"serving": {"host": "0.0.0.0"}})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_an_address_that_nobody_reaches_is_refused(host: str, tmp_path: Path) -> None:
    """A host that only the pod itself reaches is refused; one of every interface is taken."""
    assert f"config.serving.host is {host}" in fails({"config": {"serving": {"host": host}}})
    assert mounted({"config": {"serving": {"host": "::"}}}, tmp_path).serving.host == "::"


def test_the_port_is_the_pods() -> None:
    """The container's port is the config's; one that is chosen at the start is refused."""
    spec = render({"config": {"serving": {"port": 9000}}}).only("Deployment")["spec"]["template"]["spec"]
    assert spec["containers"][0]["ports"][0]["containerPort"] == 9000
    assert "config.serving.port is 0" in fails({"config": {"serving": {"port": 0}}})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"limit": {}}, "limit"),
        ({"limits": {"drain": 3}}, "drain"),
        ({"speculation": {"depth": 33}}, "/config/speculation/depth"),
        ({"engine": {"name": "tgi"}}, "/config/engine/name"),
        ({"engine": {"start_timeout_s": 0}}, "/config/engine/start_timeout_s"),
        ({"threads": "4"}, "/config/threads"),
    ],
)
def test_a_bad_config_is_refused_at_render(config: dict[str, Any], named: str) -> None:
    """Unknown keys, bounds, words and types are checked before anything is installed, and the place is named."""
    assert named in fails({"config": config})


def test_the_schema_is_the_runtimes() -> None:
    """The chart's schema and defaults of the config are what the runtime says; else run charts/sync_config.py."""
    schema = json.loads(sync_config.SCHEMA.read_text(encoding="utf-8"))
    assert schema["properties"]["config"] == config_schema()
    assert sync_config.chart_schema(schema) == schema
    assert json.loads(sync_config.DEFAULTS.read_text(encoding="utf-8")) == config_defaults()


def test_the_runtimes_schema_takes_what_the_runtime_takes() -> None:
    """The schema is valid, stands for itself, and accepts the defaults and a full config."""
    schema = config_schema()
    assert "$ref" not in json.dumps(schema)
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(config_defaults())
    assert validator.is_valid(EVERYTHING)
    assert not validator.is_valid({"limits": {"drain": 1}})


def test_a_changed_config_makes_new_pods() -> None:
    """The config's checksum is on the pod: another config another pod, the same config the same."""

    def checksum(values: dict[str, Any]) -> str:
        metadata = render(values).only("Deployment")["spec"]["template"]["metadata"]
        return str(metadata["annotations"]["checksum/config"])

    assert checksum({}) == checksum({"replicas": 3}) == checksum({"config": {"serving": {"host": "0.0.0.0"}}})
    assert checksum({}) != checksum({"config": {"limits": {"concurrency": 8}}})


def test_the_server_reads_the_mounted_file() -> None:
    """The arguments name the file that the ConfigMap of the same release is mounted at."""
    spec = render().only("Deployment")["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert container["args"] == ["eagle3", "serve", "--config", "/etc/eagle3/config.yaml"]
    mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "config")
    assert (mount["mountPath"], mount["subPath"]) == ("/etc/eagle3/config.yaml", "config.yaml")
    assert next(volume for volume in spec["volumes"] if volume["name"] == "config")["configMap"]["name"] == "eagle3"


def test_the_environment_cannot_win_over_the_config() -> None:
    """Settings among environment variables are refused, since the chart's checks would not see them; others pass."""
    message = fails({"extraEnv": [{"name": "EAGLE3_LIMITS__DRAIN_S", "value": "300"}]})
    assert "extraEnv sets EAGLE3_LIMITS__DRAIN_S" in message
    values = {"extraEnv": [{"name": "NCCL_DEBUG", "value": "WARN"}], "extraEnvFrom": [{"secretRef": {"name": "more"}}]}
    container = render(values).only("Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "NCCL_DEBUG", "value": "WARN"} in container["env"]
    assert container["envFrom"] == values["extraEnvFrom"]


def test_api_keys_come_from_a_secret(tmp_path: Path) -> None:
    """A Secret is mounted where the config says that the keys are; two different places are refused."""
    values = {"apiKeys": {"existingSecret": "api-keys", "key": "clients"}}
    assert mounted(values, tmp_path).serving.api_keys_file == Path("/etc/eagle3/api-keys/clients")
    spec = render(values).only("Deployment")["spec"]["template"]["spec"]
    assert next(volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume) == "api-keys"
    assert "/etc/eagle3/api-keys" in {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert "api_keys_file is /keys" in fails({**values, "config": {"serving": {"api_keys_file": "/keys"}}})


def test_the_values_name_no_default_of_the_runtime() -> None:
    """values.yaml types none of the config's settings a second time."""
    values = yaml.safe_load((sync_config.CHART / "values.yaml").read_text(encoding="utf-8"))
    assert values["config"] == {}
