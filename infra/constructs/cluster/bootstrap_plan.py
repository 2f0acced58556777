"""What is to be installed, as objects in the bucket, and what starts the installation when it changes.

The last object, plan.json, names the version of every other one and the digests of both scripts, so it changes when
any of them does. S3's notice of that starts the mirror, the mirror's success starts the bootstrap, and a failure of
either goes to the topic. Knows no project's inside. Invariant: the plan is written after everything that it names,
after the rules that wait for it, and after what the caller says must be ready.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.constructs.cluster.artifact_mirror import ArtifactStore
from infra.framework import Construct, aws
from infra.kubernetes.bootstrap_buildspec import NODE_CLASSES, NODE_POOLS, bootstrap_buildspec
from infra.kubernetes.components import components
from infra.kubernetes.karpenter import manifest_list
from infra.kubernetes.mirror_buildspec import mirror_buildspec
from infra.policy import Statement, policy_document, trust_policy
from infra.settings.components import ComponentSettings
from infra.site import Site

PLAN = "plan.json"
# EventBridge keeps trying while another build runs.
_RETRY_S = 3 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A CodeBuild project that is started by events."""

    name: str
    """Token or text."""
    arn: str
    """For the role that starts it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BootstrapPlanProps:
    """What is installed, by what."""

    site: Site
    """Where it is."""
    components: ComponentSettings
    """The same as those of mirror and bootstrap."""
    values: Mapping[str, Mapping[str, Any]]
    """Name of a release to its values (`helm_values`)."""
    node_classes: Sequence[Mapping[str, Any]]
    """EC2NodeClass manifests."""
    node_pools: Sequence[Mapping[str, Any]]
    """NodePool manifests."""
    own_chart: str | None
    """Path of the packaged chart of the kit (.tgz); null: it is not installed."""
    store: ArtifactStore
    """Where the objects go; its bucket sends its changes to EventBridge."""
    mirror: Project
    """Started when the plan changes."""
    bootstrap: Project
    """Started when the mirror has succeeded."""
    topic_arn: str
    """Told of failures; its policy and key let events.amazonaws.com publish."""
    after: tuple[Any, ...]
    """Resources that must be there first: access entries, nodes, add-ons, Pod Identity associations."""


class BootstrapPlan(Construct):
    """Objects, rules and their targets."""

    def __init__(self, scope: Any, id: str, props: BootstrapPlanProps) -> None:
        super().__init__(scope, id)
        self._props = props
        versions = {f"values/{name}.json": self._json(f"{_pascal(name)}Values", f"values/{name}.json", values)
                    for name, values in props.values.items()}  # fmt: skip
        for id, key, manifests in (
            ("NodeClasses", NODE_CLASSES, props.node_classes),
            ("NodePools", NODE_POOLS, props.node_pools),
        ):
            path = f"manifests/{key}.json"
            versions[path] = self._json(id, path, manifest_list(manifests))
        if props.own_chart is not None:
            archive = next(part.archive for part in components(props.components) if part.source is None)
            versions[f"charts/{archive}"] = self._upload("OwnChart", f"charts/{archive}", props.own_chart)
        targets = self._triggers()
        plan = {
            "objects": versions,
            "scripts": {
                "mirror": _digest(mirror_buildspec(props.components)),
                "bootstrap": _digest(
                    bootstrap_buildspec(
                        props.components,
                        pools=[manifest["metadata"]["name"] for manifest in props.node_pools],
                        own_chart=props.own_chart is not None,
                    )
                ),
            },
        }
        self._json("Plan", PLAN, plan, after=(*targets, *props.after))
        self.plan_key: str = f"{props.store.prefix}/{PLAN}"
        """Key of the plan."""
        self.start_command: str = (
            f"aws codebuild start-build --region {props.site.region} --project-name {props.site.named('mirror')}"
        )
        """What to run to install everything again."""

    def _json(self, id: str, path: str, value: Any, *, after: tuple[Any, ...] = ()) -> str:
        store = self._props.store
        written = aws.S3Object(
            self,
            id,
            bucket=store.bucket,
            key=f"{store.prefix}/{path}",
            content=json.dumps(value, indent=1, sort_keys=True),
            content_type="application/json",
            kms_key_id=store.key_arn,
            depends_on=list(after) or None,
        )
        return str(written.version_id)

    def _upload(self, id: str, path: str, file: str) -> str:
        store = self._props.store
        written = aws.S3Object(
            self,
            id,
            bucket=store.bucket,
            key=f"{store.prefix}/{path}",
            source=file,
            kms_key_id=store.key_arn,
        )
        return str(written.version_id)

    def _triggers(self) -> tuple[Any, ...]:
        props, site = self._props, self._props.site
        role = aws.IamRole(
            self,
            "StarterRole",
            name=site.named("bootstrap-start"),
            description="EventBridge rules that start mirror and bootstrap",
            assume_role_policy=trust_policy(
                "events.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": site.account_id}}
            ),
        )
        rights = aws.IamRolePolicy(
            self,
            "StarterPolicy",
            name="start",
            role=role.name,
            policy=policy_document(
                [
                    Statement(
                        sid="StartBuilds",
                        actions=["codebuild:StartBuild"],
                        resources=[props.mirror.arn, props.bootstrap.arn],
                    )
                ]
            ),
        )
        changed = {
            "source": ["aws.s3"],
            "detail-type": ["Object Created"],
            "detail": {
                "bucket": {"name": [props.store.bucket]},
                "object": {"key": [f"{props.store.prefix}/{PLAN}"]},
            },
        }
        mirrored = _builds([props.mirror.name], ["SUCCEEDED"])
        failed = _builds([props.mirror.name, props.bootstrap.name], ["FAILED", "FAULT", "STOPPED", "TIMED_OUT"])
        start: dict[str, Any] = {
            "role_arn": role.arn,
            "retry_policy": {"maximum_event_age_in_seconds": _RETRY_S, "maximum_retry_attempts": 60},
        }
        return (
            rights,
            self._rule("Changed", "plan-changed", "the bootstrap's plan changed", changed, props.mirror.arn, start),
            self._rule("Mirrored", "mirrored", "the mirror has succeeded", mirrored, props.bootstrap.arn, start),
            self._rule("Failed", "bootstrap-failed", "mirror or bootstrap failed", failed, props.topic_arn, {}),
        )

    def _rule(
        self, id: str, suffix: str, description: str, pattern: Mapping[str, Any], target: str, more: Mapping[str, Any]
    ) -> Any:
        rule = aws.CloudwatchEventRule(
            self,
            f"{id}Rule",
            name=self._props.site.named(suffix),
            description=description,
            event_pattern=json.dumps(pattern),
        )
        return aws.CloudwatchEventTarget(self, f"{id}Target", rule=rule.name, target_id=suffix, arn=target, **more)


def _builds(projects: Sequence[str], statuses: Sequence[str]) -> dict[str, Any]:
    return {
        "source": ["aws.codebuild"],
        "detail-type": ["CodeBuild Build State Change"],
        "detail": {"project-name": list(projects), "build-status": list(statuses)},
    }


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
