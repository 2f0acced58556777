"""Pod security of the chart eagle3: every pod keeps to the `restricted` standard."""

from __future__ import annotations

from typing import Any

import pytest

from chart_doubles import fails, merged, pod_spec, render

GPUS: dict[str, Any] = {
    "config": {"target": "/models/target", "device": "cuda", "engine": {"tensor_parallel": 4, "name": "vllm"}},
    "model": {"weightsGiB": 16},
}
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "pre-pull and keys": {"prePull": {"enabled": True}, "apiKeys": {"existingSecret": "keys"}},
    "copy": merged(GPUS, {"modelCache": {"kind": "ephemeral", "source": "s3://models/llama"}}),
    "bucket": merged(GPUS, {"modelCache": {"kind": "s3", "source": "s3://models/llama"}}),
    "claim": merged(GPUS, {"modelCache": {"kind": "pvc"}}),
}
ALLOWED_VOLUMES = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "projected", "downwardAPI"}


def pods(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Pod specs of everything that makes pods."""
    return [spec for item in render(values).all() if (spec := pod_spec(item)) is not None]


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_pods_are_restricted(values: dict[str, Any]) -> None:
    """No pod runs as root, shares the node's namespaces, or mounts anything that the restricted standard forbids."""
    for spec in pods(values):
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (10001, 10001, 10001)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        for volume in spec.get("volumes", []):
            assert set(volume) - {"name"} <= ALLOWED_VOLUMES


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_containers_hold_no_rights(values: dict[str, Any]) -> None:
    """No container, init container or test can gain rights or write to its image's file system; each says its needs."""
    for spec in pods(values):
        for container in [*spec.get("initContainers", []), *spec["containers"]]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_what_is_written_has_a_volume(values: dict[str, Any]) -> None:
    """The server's home and /tmp are writable, config, keys and weights are not."""
    spec = render(values).only("Deployment")["spec"]["template"]["spec"]
    container = spec["containers"][0]
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable <= {"/tmp", "/home/eagle3/.cache", "/dev/shm"}
    assert {"/tmp", "/home/eagle3/.cache"} <= writable
    environment = {variable["name"]: variable["value"] for variable in container["env"]}
    assert environment["HOME"] == "/home/eagle3"
    caches = [environment[name] for name in ("TRITON_CACHE_DIR", "CUDA_CACHE_PATH") if name in environment]
    assert len(caches) == (2 if "nvidia.com/gpu" in container["resources"]["limits"] else 0)
    assert all(path.startswith("/home/eagle3/.cache/") for path in caches)


def test_no_token_of_the_kubernetes_api() -> None:
    """No pod gets a token unless asked for; the service account itself never hands one out."""
    rendered = render({"prePull": {"enabled": True}})
    assert rendered.only("ServiceAccount")["automountServiceAccountToken"] is False
    for spec in pods({"prePull": {"enabled": True}}):
        assert spec["automountServiceAccountToken"] is False
    asked = render({"serviceAccount": {"automountToken": True}}).only("Deployment")
    assert asked["spec"]["template"]["spec"]["automountServiceAccountToken"] is True


def test_the_service_account_is_ones_own_or_the_charts() -> None:
    """Pods name the account that is made; without one, the one that is named, or the namespace's default."""

    def account(values: dict[str, Any]) -> str:
        spec = render({"serviceAccount": values}).only("Deployment")["spec"]["template"]["spec"]
        return str(spec["serviceAccountName"])

    assert account({}) == render().only("ServiceAccount")["metadata"]["name"] == "eagle3"
    assert account({"create": False, "name": "mine"}) == "mine"
    assert account({"create": False}) == "default"
    assert not render({"serviceAccount": {"create": False}}).all("ServiceAccount")


def test_root_cannot_be_asked_for() -> None:
    """A user of 0 is refused; another user is taken."""
    assert "/podSecurity/runAsUser" in fails({"podSecurity": {"runAsUser": 0}})
    large = 4_000_000_000
    spec = render({"podSecurity": {"runAsUser": large}}).only("Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsUser"] == large
