"""The bootstrap's script: installs what was mirrored into a cluster whose API is private.

Runs inside the VPC, with nothing but its endpoints. Invariants: it fetches from the artifact bucket alone; tools and
pinned charts are checked against their SHA-256 again; a release that does not become ready is rolled back; node pools
that are not in the settings any more are taken away.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from infra.kubernetes.buildspec import buildspec, helm_file, kubectl_file
from infra.kubernetes.components import Component, components
from infra.kubernetes.karpenter import MANAGED_BY
from infra.settings.components import ComponentSettings

NODE_CLASSES = "node-classes"
NODE_POOLS = "node-pools"

_FUNCTIONS = """
set -euo pipefail
work=$(mktemp -d)
cd "$work"
mkdir bin
export PATH="$work/bin:$PATH" KUBECONFIG="$work/kubeconfig"

get() { aws s3 cp --only-show-errors "s3://$BUCKET/$PREFIX/$1" "$2"; }
# tool FILE SHA256
tool() {
  get "tools/$1" "$1"
  echo "$2  $1" | sha256sum --check --quiet
}
plan() { aws s3api head-object --bucket "$BUCKET" --key "$PREFIX/plan.json" --query VersionId --output text; }
# release NAME NAMESPACE ARCHIVE SHA256 TIMEOUT HELM_ARGUMENTS...
release() {
  name=$1 namespace=$2 archive=$3 sum=$4 limit=$5
  shift 5
  get "charts/$archive" "$archive"
  if [ -n "$sum" ]; then echo "$sum  $archive" | sha256sum --check --quiet; fi
  get "values/$name.json" "$name.json"
  helm upgrade "$name" "$archive" --install --namespace "$namespace" --create-namespace --values "$name.json" \\
    --atomic --wait --timeout "$limit" --history-max 5 "$@"
}
apply() {
  get "manifests/$1.json" "$1.json"
  kubectl apply --server-side --force-conflicts --field-manager "$MANAGER" --filename "$1.json"
}
# prune KIND KEPT: deletes what this bootstrap made once and is not among the kept any more
prune() {
  existing=$(kubectl get "$1" --selector "app.kubernetes.io/managed-by=$MANAGER" --output name)
  for found in $existing; do
    case " $2 " in
      *" $found "*) ;;
      *) kubectl delete "$found" --wait=false ;;
    esac
  done
}
# drain: takes away what makes Karpenter launch instances, and waits until they are gone
drain() {
  if [ -z "$(kubectl get crd nodepools.karpenter.sh --ignore-not-found --output name)" ]; then return; fi
  kubectl delete nodepools.karpenter.sh --all --wait=false
  for attempt in $(seq 180); do
    claims=$(kubectl get nodeclaims.karpenter.sh --output name)
    if [ -z "$claims" ]; then
      kubectl delete ec2nodeclasses.karpenter.k8s.aws --all
      return
    fi
    echo "waiting for nodes to drain ($attempt):" $claims
    sleep 10
  done
  echo "nodes are still there; see what blocks their drain, then start this build again" >&2
  return 1
}
# The entry that lets this role in takes effect a little after it is made.
enter() {
  aws eks update-kubeconfig --name "$CLUSTER" --kubeconfig "$KUBECONFIG" >/dev/null
  for attempt in $(seq 60); do
    if kubectl auth can-i create customresourcedefinitions.apiextensions.k8s.io --quiet; then return; fi
    echo "waiting for access to $CLUSTER ($attempt)"
    sleep 10
  done
  echo "$CLUSTER does not let this role in: see its access entries and the control plane's security group" >&2
  return 1
}
"""

# The plan may change while it is carried out: a build that was started then would have been refused.
_MAIN = """
enter
case "$ACTION" in
  install)
    for round in 1 2 3; do
      before=$(plan)
      install_all
      if [ "$(plan)" = "$before" ]; then echo "installed plan $before"; exit 0; fi
      echo "the plan changed while it was installed; once more ($round)"
    done
    echo "the plan keeps changing: start the build again when deployments have ended" >&2
    exit 1
    ;;
  remove) remove_all ;;
  *)
    echo "ACTION is install or remove; got $ACTION" >&2
    exit 1
    ;;
esac
"""


def bootstrap_buildspec(settings: ComponentSettings, *, pools: Sequence[str], own_chart: bool) -> str:
    """The buildspec of the bootstrap; its environment: BUCKET, PREFIX, CLUSTER and ACTION ("install" or "remove").

    `own_chart`: whether the kit's own chart is in the bucket; without it that release is left alone.
    ACTION `remove` takes away what launches instances that Terraform does not know, before the stack is destroyed.
    """
    tools = settings.tools
    everything = components(settings)
    install = [
        line
        for component in everything
        if component.source is not None or own_chart
        for line in _install(component, pools)
    ]
    remove = [*(_uninstall(component) for component in everything if component.source is None), "drain"]
    setup = [
        f"MANAGER={MANAGED_BY}",
        f"tool {helm_file(settings)} {tools.helm.sha256}",
        f"tar --extract --gzip --file {helm_file(settings)} --directory bin --strip-components 1 linux-amd64/helm",
        f"tool {kubectl_file(settings)} {tools.kubectl.sha256}",
        f"install -m 0755 {kubectl_file(settings)} bin/kubectl",
    ]
    text = [
        _FUNCTIONS,
        *setup,
        _function("install_all", install),
        _function("remove_all", remove),
        _MAIN,
    ]
    return buildspec("\n".join(text))


def _install(component: Component, pools: Sequence[str]) -> list[str]:
    if not component.chart.enabled:
        return [_uninstall(component)]
    words = [
        "release",
        component.release,
        component.namespace,
        component.archive,
        component.chart.sha256 or "",
        f"{component.chart.timeout_s}s",
    ]
    if component.skip_crds:
        words.append("--skip-crds")
    lines = [shlex.join(words)]
    if component.release == "karpenter":
        lines += [f"apply {NODE_CLASSES}", f"apply {NODE_POOLS}"]
        for kind, one in (
            ("nodepools.karpenter.sh", "nodepool.karpenter.sh"),
            ("ec2nodeclasses.karpenter.k8s.aws", "ec2nodeclass.karpenter.k8s.aws"),
        ):
            lines.append(shlex.join(["prune", kind, " ".join(f"{one}/{pool}" for pool in pools)]))
    return lines


def _uninstall(component: Component) -> str:
    return shlex.join(
        ["helm", "uninstall", component.release, "--namespace", component.namespace, "--ignore-not-found", "--wait"]
    )


def _function(name: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{name}() {{", *(f"  {line}" for line in lines), "}"])
