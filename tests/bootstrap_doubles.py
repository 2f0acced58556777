"""Doubles for pools and bootstrap: wired constructs in one stack, and programs that stand in for those of a build."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import subprocess
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from eagle3.config.deployment import DeploymentConfig
from infra.constructs.cluster.artifact_mirror import ArtifactMirror, ArtifactMirrorProps, ArtifactStore, MirrorTarget
from infra.constructs.cluster.bootstrap import ClusterBootstrap, ClusterBootstrapProps
from infra.constructs.cluster.bootstrap_plan import BootstrapPlan, BootstrapPlanProps, Project
from infra.constructs.cluster.build_project import BuildLog
from infra.framework import aws
from infra.kubernetes.components import mirrored_repositories
from infra.kubernetes.helm_values import ClusterFacts, RuntimeImage, RuntimeRelease, helm_values
from infra.kubernetes.karpenter import NodeIdentity, node_class, node_pool
from infra.kubernetes.pool_limits import pool_limits
from infra.settings.components import ComponentSettings, Tool, ToolSettings
from infra.settings.pools import PoolSettings
from infra.site import Subnet
from infra_doubles import SITE, Synthesized, synthesize

CLUSTER = "eagle3-test-unit-cluster"
COMPONENTS = ComponentSettings()
POOL = PoolSettings()
FACTS = ClusterFacts(
    cluster_name=CLUSTER,
    region=SITE.region,
    vpc_id="vpc-1",
    isolated=True,
    interruption_queue="eagle3-test-unit-interruption",
    karpenter_service_account="karpenter",
    emf_endpoint="tcp://cloudwatch-agent.amazon-cloudwatch:25888",
)
RUNTIME = RuntimeRelease(
    deployment=DeploymentConfig(device="cuda", dtype="bfloat16"),
    image=RuntimeImage(repository="123456789012.dkr.ecr.us-east-1.amazonaws.com/eagle3/runtime", tag="0.1.0"),
)


def addresses(settings: ComponentSettings = COMPONENTS) -> dict[str, str]:
    """Addresses of the private repositories."""
    return {
        name: f"123456789012.dkr.ecr.us-east-1.amazonaws.com/eagle3/{name}" for name in mirrored_repositories(settings)
    }


def build(stack: Any, *, isolated: bool = True, own_chart: str | None = None) -> None:
    """Mirror, bootstrap and plan, wired as a stack wires them, on resources of the stack's own."""
    key = aws.KmsKey(stack, "Data", description="data", enable_key_rotation=True)
    bucket = aws.S3Bucket(stack, "Artifacts", bucket="artifacts")
    topic = aws.SnsTopic(stack, "Alarms", name="alarms")
    queue = aws.SqsQueue(stack, "Queue", name="interruption")
    vpc = aws.Vpc(stack, "Vpc", cidr_block="10.0.0.0/16")
    groups = {name: aws.CloudwatchLogGroup(stack, f"{name}Log", name=name) for name in ("mirror", "bootstrap")}
    subnets = tuple(
        Subnet(id=aws.Subnet(stack, f"Subnet{place}", vpc_id=vpc.id, cidr_block=f"10.0.{place}.0/24").id, zone=zone)
        for place, zone in enumerate(SITE.zones)
    )
    nodes = aws.SecurityGroup(stack, "Nodes", vpc_id=vpc.id)
    made = {
        name: aws.EcrRepository(stack, f"Repository{place}", name=name)
        for place, name in enumerate(mirrored_repositories(COMPONENTS))
    }
    store = ArtifactStore(bucket=bucket.id, bucket_arn=bucket.arn, key_arn=key.arn)
    mirror = ArtifactMirror(
        stack,
        "Mirror",
        ArtifactMirrorProps(
            site=SITE,
            components=COMPONENTS,
            store=store,
            repositories={name: MirrorTarget(url=one.repository_url, arn=one.arn) for name, one in made.items()},
            log=BuildLog(name=groups["mirror"].name, arn=groups["mirror"].arn),
        ),
    )
    bootstrap = ClusterBootstrap(
        stack,
        "Bootstrap",
        ClusterBootstrapProps(
            site=SITE,
            components=COMPONENTS,
            pools=(POOL.name,),
            own_chart=own_chart is not None,
            cluster_name=CLUSTER,
            vpc_id=vpc.id,
            vpc_cidr="10.0.0.0/16",
            subnets=subnets,
            s3_prefix_list_id="pl-1",
            isolated=isolated,
            store=store,
            log=BuildLog(name=groups["bootstrap"].name, arn=groups["bootstrap"].arn),
        ),
    )
    entry = aws.EksAccessEntry(stack, "Entry", cluster_name=CLUSTER, principal_arn=bootstrap.role_arn)
    facts = ClusterFacts(
        cluster_name=CLUSTER,
        region=SITE.region,
        vpc_id=vpc.id,
        isolated=isolated,
        interruption_queue=queue.name,
        karpenter_service_account="karpenter",
    )
    BootstrapPlan(
        stack,
        "Plan",
        BootstrapPlanProps(
            site=SITE,
            components=COMPONENTS,
            values=helm_values(
                COMPONENTS,
                facts=facts,
                pools=[POOL],
                repositories={name: one.repository_url for name, one in made.items()},
                runtime=RUNTIME if own_chart is not None else None,
            ),
            node_classes=[
                node_class(
                    POOL,
                    identity=NodeIdentity(instance_profile="profile"),
                    subnet_ids=[subnet.id for subnet in subnets],
                    security_group_ids=[nodes.id],
                    kms_key_arn=key.arn,
                    tags={"Project": SITE.name},
                )
            ],
            node_pools=[
                node_pool(POOL, limits=pool_limits(POOL, region=SITE.region, budget_usd=60_000), zones=SITE.zones)
            ],
            own_chart=own_chart,
            store=store,
            mirror=Project(name=mirror.project_name, arn=mirror.project_arn),
            bootstrap=Project(name=bootstrap.project_name, arn=bootstrap.project_arn),
            topic_arn=topic.arn,
            after=(entry,),
        ),
    )


@cache
def stack(*, isolated: bool = True, own_chart: str | None = None) -> Synthesized:
    """The wired constructs, synthesized once for each case."""
    return synthesize(lambda scope: build(scope, isolated=isolated, own_chart=own_chart))


def script_of(buildspec: str) -> str:
    """The shell text of a buildspec."""
    [command] = yaml.safe_load(buildspec)["phases"]["build"]["commands"]
    return str(command)


class BuildMachine:
    """A folder in which a buildspec's script runs: a bucket, a registry, downloads, and programs that use them.

    Every call of a program that changes something is a line of `calls`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bucket = folder / "bucket"
        self.registry = folder / "registry"
        self.downloads = folder / "downloads"
        self._bin = folder / "bin"
        for place in (self.bucket, self.registry, self.downloads, self._bin):
            place.mkdir()
        for name, text in _PROGRAMS.items():
            self._program(self._bin / name, text)
        self._archive("helm-v{}-linux-amd64.tar.gz", "linux-amd64/helm", _HELM)
        self._archive("go-containerregistry_Linux_x86_64.tar.gz", "crane", _CRANE)
        (self.downloads / "kubectl").write_text("#!/bin/bash\n" + _KUBECTL, encoding="utf-8")

    def settings(self, **changes: Any) -> ComponentSettings:
        """Components whose tools have the digests of this machine's downloads."""

        def tool(version: str, file: str) -> Tool:
            return Tool(version=version, sha256=hashlib.sha256((self.downloads / file).read_bytes()).hexdigest())

        default = COMPONENTS.tools
        tools = ToolSettings(
            helm=tool(default.helm.version, f"helm-v{default.helm.version}-linux-amd64.tar.gz"),
            kubectl=tool(default.kubectl.version, "kubectl"),
            crane=tool(default.crane.version, "go-containerregistry_Linux_x86_64.tar.gz"),
        )
        return COMPONENTS.model_copy(update={"tools": tools, **changes})

    def run(self, buildspec: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a buildspec's script with bash."""
        return subprocess.run(
            ["bash", "-c", script_of(buildspec)],
            env={
                "PATH": f"{self._bin}:{os.environ['PATH']}",
                "MACHINE": str(self.folder),
                "BUCKET": "artifacts",
                "PREFIX": "bootstrap",
                "REGISTRY": "registry",
                "CLUSTER": CLUSTER,
                "ACTION": "install",
                "TMPDIR": str(self.folder),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def calls(self) -> list[str]:
        """What was called, in order."""
        log = self.folder / "calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def put(self, path: str, value: Any) -> None:
        """Put an object into the bucket below the prefix, as JSON where it is no text."""
        file = self.bucket / "bootstrap" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")

    def _archive(self, name: str, member: str, program: str) -> None:
        data = ("#!/bin/bash\n" + program).encode()
        entry = tarfile.TarInfo(member)
        entry.size, entry.mode = len(data), 0o755
        with tarfile.open(self.downloads / name.format(COMPONENTS.tools.helm.version), "w:gz") as archive:
            archive.addfile(entry, io.BytesIO(data))

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text("#!/bin/bash\n" + text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


_AWS = """
case "$1 $2" in
  "s3api head-object")
    while [ $# -gt 0 ]; do [ "$1" = --key ] && key=$2; shift; done
    [ -f "$MACHINE/bucket/$key" ] || exit 254
    echo "$(sha256sum "$MACHINE/bucket/$key" | cut -c1-12)" ;;
  "s3 cp")
    from=$4 to=$5
    case "$from" in s3://artifacts/*) from=$MACHINE/bucket/$(echo "$from" | cut -d/ -f4-) ;; esac
    case "$to" in s3://artifacts/*)
      echo "put $(echo "$to" | cut -d/ -f5-)" >> "$MACHINE/calls"
      to=$MACHINE/bucket/$(echo "$to" | cut -d/ -f4-); mkdir -p "$(dirname "$to")" ;;
    esac
    cp "$from" "$to" ;;
  "ecr get-login-password") echo secret ;;
  "eks update-kubeconfig") echo "kubeconfig $4" >> "$MACHINE/calls" ;;
  *) echo "unexpected: aws $*" >&2; exit 1 ;;
esac
"""
_CURL = """
for word in "$@"; do last=$word; done
while [ $# -gt 0 ]; do [ "$1" = --output ] && to=$2; shift; done
cp "$MACHINE/downloads/$(basename "$last")" "$to"
"""
_CRANE = """
name=$(echo "$3" | tr / _)
case "$1" in
  auth) read -r word; [ "$word" = secret ] ;;
  digest) cat "$MACHINE/registry/$(echo "$2" | tr / _)" ;;
  copy)
    echo "copy $2 $3" >> "$MACHINE/calls"
    case "$2" in *@*) echo "$2" | cut -d@ -f2 > "$MACHINE/registry/$name" ;; *) echo sha256:0 > "$MACHINE/registry/$name" ;; esac ;;
esac
"""  # noqa: E501
_HELM = """
case "$1" in
  pull)
    chart=$(basename "$2")
    while [ $# -gt 0 ]; do [ "$1" = --version ] && version=$2; shift; done
    echo "pull $chart $version" >> "$MACHINE/calls"
    echo "$chart" > "$chart-$version.tgz" ;;
  upgrade)
    [ -f "$3" ] && [ -f "$2.json" ] || exit 1
    echo "$*" >> "$MACHINE/calls"
    if [ -f "$MACHINE/change-the-plan-once" ]; then
      rm "$MACHINE/change-the-plan-once"; echo changed > "$MACHINE/bucket/bootstrap/plan.json"
    fi
    if [ -f "$MACHINE/fail-$2" ]; then echo "$2 is not ready" >&2; exit 1; fi ;;
  uninstall) echo "$*" >> "$MACHINE/calls" ;;
esac
"""
_KUBECTL = """
case "$1 $2" in
  "auth can-i") [ ! -f "$MACHINE/no-access" ] ;;
  "get nodepools.karpenter.sh") printf "nodepool.karpenter.sh/gpu\\nnodepool.karpenter.sh/old\\n" ;;
  "get ec2nodeclasses.karpenter.k8s.aws") echo ec2nodeclass.karpenter.k8s.aws/gpu ;;
  "get crd") [ -f "$MACHINE/no-crd" ] || echo crd ;;
  "get nodeclaims.karpenter.sh") cat "$MACHINE/claims" 2>/dev/null; rm -f "$MACHINE/claims" ;;
  apply*) [ -f "$(echo "$*" | sed "s/.*--filename //")" ] && echo "kubectl $*" >> "$MACHINE/calls" ;;
  *) echo "kubectl $*" >> "$MACHINE/calls" ;;
esac
"""
_PROGRAMS = {"aws": _AWS, "curl": _CURL, "sleep": "exit 0"}
