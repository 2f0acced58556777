"""The recorded clusters that diagnoses are tested on are such as a cluster could have told of."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faulty_clusters import CAUSES
from infra.diagnosis import kubernetes_collectors
from infra.diagnosis.kubernetes_reader import Kind
from kubernetes_doubles import core_findings, custom_findings, missing_models
from recorded_clusters import healthy

NOW = datetime(2026, 11, 30, 3, 12, tzinfo=UTC)
KINDS = {
    f"{kind.api.split('/')[2]}/{kind.plural}" if kind.api.startswith("/apis/") else kind.plural: kind
    for kind in vars(kubernetes_collectors).values()
    if isinstance(kind, Kind)
}
# A Helm release's Secret holds what this one only stands for, and a binding is recorded by its name alone.
_NOT_WHOLE = ("secrets", "elbv2.k8s.aws/targetgroupbindings")
CLUSTERS = [healthy, *dict.fromkeys(cluster for _, cluster, _ in CAUSES)]


def objects(cluster):
    """Every object with the version and kind that lists leave out."""
    return [
        {
            "apiVersion": KINDS[plural].api.removeprefix("/apis/").removeprefix("/api/"),
            "kind": KINDS[plural].kind,
            **item,
        }
        for plural, items in cluster(NOW).items()
        for item in items
        if plural not in _NOT_WHOLE
    ]


def test_everything_that_is_read_is_recorded():
    """A kind that a collector asks for is in every cluster, so that none is missed by chance."""
    assert set(healthy(NOW)) == set(KINDS)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_objects_have_the_shape_of_their_kind(cluster):
    """Kubernetes' published schemas know every field of a recorded object, status and all."""
    found, custom = core_findings(objects(cluster), "1.35")
    assert found == []
    assert {item["kind"] for item in custom} <= {"NodePool", "NodeClaim", "ScaledObject"}


@pytest.mark.skipif(missing_models() is not None, reason=str(missing_models()))
def test_custom_resources_have_the_shape_of_their_kind():
    """So do Karpenter's and KEDA's, of all clusters together."""
    custom = [item for cluster in CLUSTERS for item in core_findings(objects(cluster), "1.35")[1]]
    assert len(custom) > 50
    assert custom_findings(custom) == []
