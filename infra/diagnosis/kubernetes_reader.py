"""Reads lists of a cluster's API with the official client: GET only, bounded in time and size.

Knows no cause. Invariants: nothing is ever written, neither to the cluster nor to the kubeconfig; no fault of the
network, of credentials or of permissions is raised, each becomes a `NotSeen`; a cluster that does not answer is asked
no further question. Objects are the API's JSON, as dicts, so that a newer Kubernetes breaks nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from infra.diagnosis.evidence import ClusterAccess, NotSeen

SOURCE = "Kubernetes"
CONNECT_S, READ_S = 4.0, 10.0
PAGE, PAGES = 500, 8
"""Objects a request, and requests a list: what lies beyond is said to be not seen."""
# A throttled request waits as the API asks, within reason; a connection that fails is not tried again.
_TRIES = urllib3.Retry(
    total=2, connect=0, read=0, status=2, status_forcelist=(429,), backoff_factor=0.5, retry_after_max=5,
    raise_on_status=False,
)  # fmt: skip

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A list that the API has."""

    api: str
    """Path of group and version: "/api/v1", "/apis/apps/v1"."""
    plural: str
    """As in the path: "pods"."""
    kind: str
    """Of one object: "Pod"; lists of built-in kinds leave it out."""
    namespaced: bool = True
    """Whether objects live in a namespace."""
    labels: str | None = None
    """Label selector; None: every object."""
    fields: str | None = None
    """Field selector; None: every object."""
    metadata_only: bool = False
    """Asks for names and labels alone; for kinds whose contents are no business of a diagnosis."""
    owner: str | None = None
    """What brings the kind into a cluster, where that is not Kubernetes itself."""

    def path(self, namespace: str | None) -> str:
        """Path of the list, of one namespace or of all."""
        return f"{self.api}/namespaces/{namespace}/{self.plural}" if namespace else f"{self.api}/{self.plural}"


class ClusterReader:
    """Lists of one cluster, each read at most once."""

    def __init__(self, api: Any, *, namespace: str, connect_s: float = CONNECT_S, read_s: float = READ_S) -> None:
        self._api = api
        self._namespace = namespace
        self._timeout_s = (connect_s, read_s)
        self._lists: dict[tuple[Kind, str | None], tuple[Object, ...] | None] = {}
        self._lost = False
        self._slow = 0
        self.not_seen: list[NotSeen] = []
        """What could not be read, in the order of asking."""

    def everywhere(self, kind: Kind) -> tuple[Object, ...] | None:
        """Objects of all namespaces; of the server's alone where no more is permitted; None: not seen."""
        found = self._list(kind, None)
        return self.own(kind) if found is None and kind.namespaced else found

    def own(self, kind: Kind) -> tuple[Object, ...] | None:
        """Objects in the server's namespace; None: not seen."""
        return self._list(kind, self._namespace)

    def _list(self, kind: Kind, namespace: str | None) -> tuple[Object, ...] | None:
        if self._lost:
            return None
        key = (kind, namespace)
        if key not in self._lists:
            self._lists[key] = self._read(kind, namespace)
        return self._lists[key]

    def _read(self, kind: Kind, namespace: str | None) -> tuple[Object, ...] | None:
        found: list[Object] = []
        token: str | None = None
        for _ in range(PAGES):
            page = self._page(kind, namespace, token)
            if page is None:
                return tuple(found) if found else None
            found += [{**item, "kind": kind.kind} for item in page["items"]]
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return tuple(found)
        self._miss(kind, namespace, f"more than {PAGES} parts; the first {len(found)} objects were looked at")
        return tuple(found)

    def _page(self, kind: Kind, namespace: str | None, token: str | None) -> Object | None:
        query = {"limit": PAGE, "continue": token, "labelSelector": kind.labels, "fieldSelector": kind.fields}
        form = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1" if kind.metadata_only else ""
        try:
            answer = self._api.call_api(
                kind.path(namespace),
                "GET",
                query_params=[(name, value) for name, value in query.items() if value is not None],
                header_params={"Accept": f"application/json{form}"},
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=self._timeout_s,
            )
            page = json.loads(answer.data)
        except ApiException as error:
            self._miss(kind, namespace, _refusal(error, kind))
            return None
        except urllib3.exceptions.HTTPError as error:
            self._unanswered(kind, namespace, error)
            return None
        except ValueError:
            page = None
        if not isinstance(page, dict) or not isinstance(page.get("items"), list):
            self._miss(kind, namespace, "the answer is no list of Kubernetes; is the address that of the cluster?")
            return None
        return page

    def _unanswered(self, kind: Kind, namespace: str | None, error: urllib3.exceptions.HTTPError) -> None:
        """One list may be slow alone; a second one, or no connection, means the cluster."""
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, urllib3.exceptions.ReadTimeoutError):
            self._slow += 1
            self._miss(kind, namespace, f"no answer within {self._timeout_s[1]:g} s")
        if self._slow > 1 or not isinstance(reason, urllib3.exceptions.ReadTimeoutError):
            self._lost = True
            text = " ".join(str(reason).split())
            text = text.rpartition(">: ")[2] or type(reason).__name__  # the client's objects say nothing
            self.not_seen.append(
                NotSeen(source=SOURCE, reason=f"the cluster's API does not answer, the rest was not asked: {text}")
            )

    def _miss(self, kind: Kind, namespace: str | None, reason: str) -> None:
        place = f" in {namespace}" if namespace else ""
        self.not_seen.append(NotSeen(source=f"{SOURCE} {kind.plural}{place}", reason=reason))


def _refusal(error: Any, kind: Kind) -> str:
    """Why the API refused, in one line."""
    if error.status == 401:
        return "401, the credentials were not accepted; `aws eks update-kubeconfig`, and see who you are"
    if error.status == 404:
        return f"404, the cluster has no such kind; {kind.owner or 'its version'} is not installed, or another version"
    if error.status == 429:
        return "429, the API is throttled, and was after further tries"
    try:
        message = json.loads(error.body or "")["message"]
    except (ValueError, TypeError, KeyError):
        message = error.reason
    return " ".join(f"{error.status}, {message}".split())


@contextmanager
def opened(access: ClusterAccess, cluster_name: str, **limits: float) -> Iterator[ClusterReader | NotSeen]:
    """A reader of the cluster, closed at the end; `NotSeen` where the kubeconfig does not lead to it."""
    try:
        settings = _settings(access, cluster_name)
    except (config.ConfigException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        yield NotSeen(source=SOURCE, reason=f"{reason}; `aws eks update-kubeconfig --name {cluster_name}` makes one")
        return
    api = client.ApiClient(settings)
    try:
        yield ClusterReader(api, namespace=access.namespace, **limits)
    finally:
        api.rest_client.pool_manager.clear()
        api.close()


def _settings(access: ClusterAccess, cluster_name: str) -> Any:
    settings = client.Configuration()
    settings.retries = _TRIES
    path = None if access.kubeconfig is None else str(access.kubeconfig)
    try:
        contexts, current = config.list_kube_config_contexts(path)
    except (config.ConfigException, TypeError, AttributeError, yaml.YAMLError) as error:  # whatever the file holds
        if path is not None:
            raise config.ConfigException(f"{path} is no kubeconfig") from error
        try:
            config.load_incluster_config(settings)  # in a pod there is a service account instead
        except config.ConfigException:
            raise config.ConfigException("there is no kubeconfig") from error
        return settings
    chosen = access.context or _context(contexts, current, cluster_name)
    config.load_kube_config(path, context=chosen, client_configuration=settings, persist_config=False)
    return settings


def _context(contexts: list[Object], current: Object, cluster_name: str) -> str:
    """The context of the cluster: by the name that EKS gives it, else the current one unless it is of another."""
    clusters = {str(one["name"]): str(one["context"].get("cluster", "")) for one in contexts}
    for context, cluster in clusters.items():
        if cluster_name in (context, cluster.rpartition("/")[2]):
            return context
    chosen = str(current["name"])
    if clusters[chosen].startswith("arn:"):
        raise config.ConfigException(
            f"no context of the kubeconfig is of the cluster {cluster_name}; the current one is of {clusters[chosen]}"
        )
    return chosen
