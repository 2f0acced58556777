"""Faults for real: a cause is brought about, and the runbook's diagnosis names it, and no other one first."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

import faulty_clusters
import waiting_clusters
from cloud_faults import ENVIRONMENT, LocalAws, local_aws
from fault_doubles import (
    MODEL,
    OTHER_STEP,
    OWN_STEP,
    body,
    causes_in,
    engine_of,
    requests,
    sample,
    stopped,
    until,
    write_counting_draft,
    write_counting_model,
)
from infra.diagnosis.cli import main
from kubernetes_api_doubles import kubernetes_api, write_kubeconfig
from recorded_clusters import healthy
from serve_process import ServeProcess, serving

ROOT = Path(__file__).parents[2]
OF_SERVING = ("e2e-latency-p99", "queue-growing", "gpu-memory-high", "no-data", "endpoint-5xx")


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No AWS account and no cluster but those of a test."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "KUBE"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.fixture
def named(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Runs `eagle3 runbook diagnose`; gives the causes that it names, the most probable first."""

    def named(alarm: str, *words: str, between_s: float = 1.0) -> list[str]:
        command = ["diagnose", alarm, "--json", "--between-s", str(between_s), *words]
        code = main(command, {"HOME": str(tmp_path)}, ROOT)
        said = capsys.readouterr()
        assert code == 0, said.err
        return causes_in(said.out)

    return named


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, the draft made for it, and the draft of another target."""
    folder = tmp_path_factory.mktemp("faults")
    write_counting_model(folder / MODEL)
    write_counting_draft(folder / "own", step=OWN_STEP)
    write_counting_draft(folder / "other", step=OTHER_STEP)
    return folder


def words(models: Path, draft: str) -> list[str]:
    """A server that takes two requests at a time and lets two more wait."""
    limits = ["--concurrency", "2", "--queue", "2", "--threads", "1"]
    return ["--target", str(models / MODEL), "--draft", str(models / draft), *limits]


@pytest.fixture(scope="module")
def server(models: Path) -> Iterator[ServeProcess]:
    """A server in good order, which the tests below wear out one after the other."""
    with serving(*words(models, "own")) as running:
        running.wait_ready()
        for _ in range(10):  # the first answer of all is slow
            asked = httpx.post(f"{running.url}/v1/completions", json=body(max_tokens=4), timeout=60.0)
            assert asked.status_code == 200
        yield running


@pytest.mark.slow
def test_a_healthy_server_has_no_cause(server, named):
    """Idle or at work, nothing is named for any alarm about serving."""
    for alarm in ("queue-growing", "e2e-latency-p99", "no-data"):
        assert named(alarm, "--url", server.url, between_s=0.2) == [], alarm
    with requests(server.url, 1, max_tokens=4):
        until(lambda: sample(server.url, "eagle3_output_tokens_total") > 20, "answers")
        for alarm in OF_SERVING:
            # Whether drafting pays on a machine that does other things besides is for the engine to find.
            assert named(alarm, "--url", server.url) in ([], ["speculation is off"]), alarm
        found = named("acceptance-rate-low", "--url", server.url)
        assert found in ([], ["drafting does not pay at this load"])


@pytest.mark.slow
def test_a_full_queue(server, named):
    """More clients than the server takes: it is the load, and nothing else."""
    with requests(server.url, 8):
        until(lambda: sample(server.url, "eagle3_queue_depth") >= 2, "a full queue")
        assert named("queue-growing", "--url", server.url)[:1] == ["more requests than this server can do"]
        assert named("e2e-latency-p99", "--url", server.url)[:1] == ["requests wait"]
    until(lambda: sample(server.url, "eagle3_running") == 0, "an idle server")


@pytest.mark.slow
def test_a_stalled_engine(server, named):
    """The engine's process stands still with requests in it, and the server answers all the same."""
    with requests(server.url, 8):
        until(lambda: sample(server.url, "eagle3_queue_depth") >= 2, "a full queue")
        with stopped(engine_of(server)):
            for alarm in ("queue-growing", "e2e-latency-p99"):
                assert named(alarm, "--url", server.url)[:1] == ["the engine is stalled"], alarm
    until(lambda: sample(server.url, "eagle3_running") == 0, "an idle server")


@pytest.mark.slow
def test_a_killed_engine(server, named):
    """Kill -9 of the engine: it is the engine while it starts again, and no cause is left once it serves."""
    with requests(server.url, 8):
        until(lambda: sample(server.url, "eagle3_queue_depth") >= 2, "a full queue")
        engine_of(server).kill()
        until(lambda: httpx.get(f"{server.url}/ready").status_code == 503, "not ready")
        assert named("queue-growing", "--url", server.url)[:1] == ["the engine ends again and again"]
        assert named("e2e-latency-p99", "--url", server.url)[:1] == ["the engine ends again and again"]
    server.wait_ready()
    until(lambda: sample(server.url, "eagle3_running") == 0, "an idle server")
    for alarm in ("queue-growing", "no-data", "endpoint-5xx"):
        assert named(alarm, "--url", server.url, between_s=0.2) == [], alarm


@pytest.mark.slow
def test_a_draft_of_another_target(models, named):
    """A draft that knows another target: the cycles that draft emit one token, and the draft is named."""
    with serving(*words(models, "other")) as running:
        running.wait_ready()
        with requests(running.url, 2):
            until(lambda: sample(running.url, "eagle3_drafted_cycles_total") > 40, "drafted cycles")
            assert named("acceptance-rate-low", "--url", running.url)[:1] == ["the draft is of another target"]
            tokens, cycles = (sample(running.url, f"eagle3_drafted_cycle{name}_total") for name in ("_tokens", "s"))
    assert tokens < 1.05 * cycles


@pytest.mark.slow
def test_a_killed_server(server, named):
    """Nobody listens any more."""
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(20.0)
    assert named("no-data", "--url", server.url) == ["the server does not answer"]


@pytest.mark.parametrize(
    ("alarm", "cluster", "cause"),
    [
        ("pods-unschedulable", waiting_clusters.taint, "untolerated taint"),
        ("pods-unschedulable", waiting_clusters.device_plugin, "device plugin missing on a GPU node"),
        ("no-data", faulty_clusters.image_pull, "an image cannot be pulled"),
    ],
)
def test_pods_that_wait(alarm, cluster, cause, named, tmp_path):
    """The command names what keeps pods from running, over HTTP, without an AWS account."""
    with kubernetes_api(cluster(datetime.now(UTC))) as api:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        found = named(alarm, "--site", "eagle3-dev-large", "--kubeconfig", str(kubeconfig))
    assert found[:1] == [cause]


def test_a_healthy_cluster_has_no_cause(named, tmp_path):
    """Nothing waits, nothing is named."""
    with kubernetes_api(healthy(datetime.now(UTC))) as api:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        for alarm in ("pods-unschedulable", "no-data", "queue-growing", "spot-interruptions", "bootstrap-failed"):
            assert named(alarm, "--site", "eagle3-dev-large", "--kubeconfig", str(kubeconfig)) == [], alarm


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalAws]:
    """A local AWS that the command takes for AWS; pauses between tries are short."""
    with local_aws() as running:
        for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL": running.url}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("botocore.retries.standard.ExponentialBackoff.delay_amount", lambda *_: 0.02)
        yield running


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cluster", "code", "cause"),
    [
        ("eagle3-dev-large-cluster", "instance-terminated-no-capacity", "AWS takes spot nodes back"),
        ("eagle3-dev-large-cluster", "instance-terminated-by-experiment", "an experiment ends them"),
        (None, "instance-terminated-no-capacity", "instances of somebody else"),
    ],
)
def test_spot_interruptions(cluster, code, cause, cloud, named):
    """Spot instances are taken back: why and whose they were decides on the cause."""
    cloud.client("ec2").run_instances(
        MinCount=1, MaxCount=1, ImageId="ami-12c6146b", InstanceType="p4d.24xlarge",
        TagSpecifications=[
            {
                "ResourceType": "instance",
                "Tags": [{"Key": "kubernetes.io/cluster/eagle3-dev-large-cluster", "Value": "owned"}],
            }
        ],
    )  # fmt: skip
    cloud.take_spot_back(3, cluster=cluster, code=code)
    assert named("spot-interruptions", "--site", "eagle3-dev-large")[:1] == [cause]


@pytest.mark.slow
def test_throttled_calls(cloud, capsys, tmp_path):
    """EC2 throttles: once is not noticed; always is said, and the cluster's own events name the cause."""
    cloud.take_spot_back(3, cluster="eagle3-dev-large-cluster")
    with kubernetes_api(faulty_clusters.spot(datetime.now(UTC))) as api:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        for throttled, seen in ((1, True), (10_000, False)):
            cloud.door.throttled["ec2"], cloud.door.refused = throttled, 0
            command = ["diagnose", "spot-interruptions", "--json", "--kubeconfig", str(kubeconfig)]
            assert main(command, {"HOME": str(tmp_path)}, ROOT) == 0
            report = json.loads(capsys.readouterr().out)
            assert report["causes"][0]["cause"] == "AWS takes spot nodes back"
            sources = {one["source"] for one in report["causes"][0]["because"]}
            missed = [
                one for one in report["not_seen"] if "throttled, 4 attempts (RequestLimitExceeded)" in one["reason"]
            ]
            assert cloud.door.refused >= 1
            assert ("EC2 Spot" in sources) == seen
            assert bool(missed) == (not seen)
            assert "Kubernetes" in sources
