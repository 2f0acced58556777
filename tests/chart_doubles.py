"""Renders the kit's charts with real Helm, as a library, and reads what comes out.

Knows no cluster: `lookup` finds nothing. Invariants: a rendering is made once for the same arguments and handed out as
copies, so no test sees another's changes; a key that stands twice in one mapping is an error, as it is for Kubernetes.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import helm_python
import yaml
from helm_python import _native

ROOT = Path(__file__).resolve().parents[1]
CHARTS = ROOT / "charts"
"""Folder of the charts."""


class _Loader(yaml.CSafeLoader):
    """YAML in which a repeated key is an error."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    twice = sorted({str(key) for key in keys if keys.count(key) > 1})
    assert not twice, f"{', '.join(twice)} stands twice {node.start_mark}"
    return dict(loader.construct_pairs(node, deep=True))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendered:
    """What one rendering gave."""

    texts: MappingProxyType[str, str]
    """Text of every template that rendered, by its path in the chart, such as "templates/NOTES.txt"."""
    objects: tuple[dict[str, Any], ...]
    """Every Kubernetes object, hooks among them."""

    def all(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Copies of the objects of a kind; of all objects without one."""
        return [copy.deepcopy(item) for item in self.objects if kind is None or item["kind"] == kind]

    def only(self, kind: str, name: str | None = None) -> dict[str, Any]:
        """The one object of a kind, of that name where one is given."""
        found = [item for item in self.all(kind) if name is None or item["metadata"]["name"] == name]
        names = [f"{item['kind']}/{item['metadata']['name']}" for item in self.objects]
        assert len(found) == 1, f"{len(found)} objects are {kind}/{name or '*'}; rendered: {', '.join(names)}"
        return found[0]

    def named(self) -> dict[str, dict[str, Any]]:
        """Copies of all objects by "Kind/name"; no two may have the same."""
        found = {f"{item['kind']}/{item['metadata']['name']}": item for item in self.all()}
        assert len(found) == len(self.objects), "two objects have one kind and name"
        return found


def render(
    values: dict[str, Any] | None = None,
    *,
    chart: str = "eagle3",
    release: str = "eagle3",
    namespace: str = "eagle3",
    kube_version: str | None = None,
    api_versions: Sequence[str] = (),
    upgrade: bool = False,
) -> Rendered:
    """Render a chart of the kit; HelmError where Helm refuses it. `kube_version`: such as "1.35"."""
    options: dict[str, Any] = {"name": release, "namespace": namespace}
    if kube_version is not None:
        options["kube_version"] = kube_version
    if api_versions:
        options["api_versions"] = list(api_versions)
    if upgrade:
        options |= {"is_install": False, "is_upgrade": True}
    return _render(chart, json.dumps(values or {}, sort_keys=True), json.dumps(options, sort_keys=True))


def fails(values: dict[str, Any] | None = None, **options: Any) -> str:
    """The error text of a rendering that Helm refuses; an AssertionError where it does not."""
    try:
        render(values, **options)
    except helm_python.HelmError as error:
        return str(error)
    raise AssertionError(f"these values rendered, but should not: {values}")


def lint(values: dict[str, Any] | None = None, *, chart: str = "eagle3", kube_version: str | None = None) -> list[str]:
    """What `helm lint --strict` finds: warnings and errors; notes of mere taste are left out."""
    version = None if kube_version is None else f"v{kube_version.removeprefix('v')}"
    report = helm_python.lint(CHARTS / chart, values, strict=True, namespace="eagle3", kube_version=version)
    found = [f"{item['path']}: {item['error']}" for item in report["messages"] if item["severity"] != 1]
    return found + [error for error in report["errors"] if not any(error in text for text in found)]


def values_file(name: str, *, chart: str = "eagle3") -> dict[str, Any]:
    """A values file that the chart ships, such as "values-cpu.yaml"."""
    values: dict[str, Any] = load_yaml((CHARTS / chart / name).read_text(encoding="utf-8"))[0]
    return values


def merged(base: dict[str, Any], *overrides: dict[str, Any]) -> dict[str, Any]:
    """Values with others over them, as `helm --values` twice would: mappings join, anything else is replaced."""
    whole = copy.deepcopy(base)
    for override in overrides:
        for key, value in override.items():
            both = isinstance(value, dict) and isinstance(whole.get(key), dict)
            whole[key] = merged(whole[key], value) if both else copy.deepcopy(value)
    return whole


def load_yaml(text: str) -> list[Any]:
    """The documents of a YAML text that hold something; a repeated key is an error."""
    return [item for item in yaml.load_all(text, Loader=_Loader) if item is not None]


def pod_spec(item: dict[str, Any]) -> dict[str, Any] | None:
    """The pod spec of an object; None where it makes no pods."""
    match item["kind"]:
        case "Pod":
            return item["spec"]
        case "Deployment" | "StatefulSet" | "DaemonSet" | "Job":
            return item["spec"]["template"]["spec"]
        case "LeaderWorkerSet":
            return item["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    return None


@functools.cache
def _loaded(chart: str) -> helm_python.Chart:
    return helm_python.Chart.load(CHARTS / chart)


@functools.lru_cache(maxsize=512)
def _render(chart: str, values: str, options: str) -> Rendered:
    # The package's own `Chart.render` does not pass a Kubernetes version or API versions on; the library takes both.
    raw = _native.call_string("helm_render", _loaded(chart)._raw(), values, options)
    texts = {path.removeprefix(f"{chart}/"): text for path, text in json.loads(raw).items()}
    objects: list[dict[str, Any]] = []
    for path, text in texts.items():
        if not path.endswith((".yaml", ".yml")):
            continue
        try:
            documents = load_yaml(text)
        except (yaml.YAMLError, AssertionError) as error:
            raise AssertionError(f"{path} is no YAML: {error}\n{text}") from error
        for document in documents:
            assert isinstance(document, dict), f"{path} holds a document that is no mapping: {document!r}"
            assert {"apiVersion", "kind", "metadata"} <= set(document), f"{path} holds no object: {sorted(document)}"
            objects.append(document)
    return Rendered(texts=MappingProxyType(texts), objects=tuple(objects))
