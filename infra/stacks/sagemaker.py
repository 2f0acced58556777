"""The stacks small and medium: a SageMaker endpoint in a VPC of its own.

Both are the same constructs; what differs is in their settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from eagle3.config.deployment import DeploymentConfig
from infra.catalogue.interface_services import endpoint_services
from infra.constructs.endpoint.config import AsyncOutput, EndpointConfig, EndpointConfigProps
from infra.constructs.endpoint.endpoint import Endpoint, EndpointProps, endpoint_name
from infra.constructs.endpoint.model import EndpointModel, EndpointModelProps
from infra.constructs.endpoint.role import BucketFolder, EndpointNetwork, EndpointRole, EndpointRoleProps
from infra.constructs.endpoint.scaling import EndpointScaling, EndpointScalingProps
from infra.constructs.endpoint.security_group import EndpointSecurityGroup, EndpointSecurityGroupProps
from infra.constructs.endpoint.topics import EndpointTopics, EndpointTopicsProps
from infra.constructs.operations.log_groups import LogGroups, LogGroupSpec, LogGroupsProps, endpoint_log_group
from infra.observability.watched import Watched
from infra.settings.endpoint_checks import check_endpoint
from infra.settings.endpoint_container import Image, container_environment, endpoint_deployment, endpoint_image
from infra.settings.endpoint_facts import concurrent_invocations, instance_of, is_isolated, target_concurrency
from infra.settings.root import EndpointStackSettings, Settings
from infra.settings.zones import stack_zones
from infra.stacks.base import KitStack
from infra.stacks.foundation import Foundation, FoundationProps
from infra.stacks.observation import observe
from infra.stacks.releases import RUNTIME, release_repository

_REQUESTS, _ANSWERS, _FAILURES, _CAPTURED = "async/requests/", "async/answers/", "async/failures/", "captured/"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Folders:
    """What the container reads and writes in the model bucket, and where asynchronous answers go."""

    read: tuple[BucketFolder, ...]
    write: tuple[BucketFolder, ...]
    topic_arns: tuple[str, ...]
    async_output: AsyncOutput | None
    capture_uri: str | None


class EndpointStack(KitStack):
    """One endpoint and what it stands on."""

    def __init__(self, scope: Any, id: str, settings: Settings, own: EndpointStackSettings) -> None:
        endpoint, has_nat = own.endpoint, own.network.nat != "none"
        check_endpoint(endpoint, own.deployment, region=settings.region, has_nat=has_nat)
        zones = stack_zones(own.network, settings.region)
        super().__init__(scope, id, settings, zones=zones, budget=own.budget)
        self.settings, self.own = settings, own
        isolated = is_isolated(endpoint)
        self.base = Foundation(
            self,
            FoundationProps(
                settings=settings,
                network=own.network,
                budget=own.budget,
                domains=("data", "logs", "notifications"),
                services=endpoint_services(network_isolation=isolated),
            ),
        )
        self.name = endpoint_name(self.site)
        config = endpoint_deployment(endpoint, own.deployment, endpoint_name=self.name)
        rollback_names = observe(
            self,
            settings.alarms,
            own.budget,
            watched=self._watched(config),
            topic_arn=self.base.notifications.topic_arn,
        )
        image = self._image()
        network = self._network()
        folders = self._folders(config)
        role = self._role(config, image, network, folders)
        model = EndpointModel(
            self,
            "Model",
            EndpointModelProps(
                site=self.site,
                role_arn=role.arn,
                image_uri=image.uri,
                environment=container_environment(endpoint, config),
                weights_uri=self._weights_uri(),
                isolated=isolated,
                network=network,
                after=role.ready,
            ),
        )
        configuration = EndpointConfig(
            self,
            "Configuration",
            EndpointConfigProps(
                site=self.site,
                settings=endpoint,
                model_name=model.name,
                data_key_arn=self.base.keys["data"].arn,
                async_output=folders.async_output,
                capture_uri=folders.capture_uri,
            ),
        )
        made = Endpoint(
            self,
            "Endpoint",
            EndpointProps(
                site=self.site,
                settings=endpoint,
                config_name=configuration.name,
                rollback_alarm_names=rollback_names,
            ),
        )
        if endpoint.autoscaling.enabled and endpoint.mode != "serverless":
            EndpointScaling(
                self,
                "Scaling",
                EndpointScalingProps(
                    site=self.site,
                    settings=endpoint,
                    endpoint_name=made.name,
                    variant=configuration.variant,
                    target_concurrency=target_concurrency(endpoint, config),
                    metrics_namespace=config.metrics.namespace,
                    metrics_endpoint=self.name,
                ),
            )
        self.output("EndpointName", made.name, "SageMaker endpoint (boto3: sagemaker-runtime, invoke_endpoint)")

    def _watched(self, config: DeploymentConfig) -> Watched:
        endpoint = self.own.endpoint
        instance = instance_of(endpoint)
        return Watched(
            runtime_namespace=config.metrics.namespace,
            runtime_metrics=endpoint.image.container == "eagle3",
            always_on=endpoint.mode != "serverless" and endpoint.fewest_instances > 0,
            depth=config.speculation.depth,
            gpu_memory_mib=instance.gpus * instance.gpu_memory_mib if instance and instance.gpus else None,
            endpoint_name=self.name,
            asynchronous=endpoint.mode == "async",
        )

    def _image(self) -> Image:
        repository = release_repository(self.settings, self.site, RUNTIME)
        return endpoint_image(
            self.own.endpoint, self.site, repository_url=repository.url, repository_arn=repository.arn
        )

    def _network(self) -> EndpointNetwork | None:
        if self.own.endpoint.mode == "serverless":
            return None
        base = self.base
        group = EndpointSecurityGroup(
            self,
            "ContainerGroup",
            EndpointSecurityGroupProps(
                site=self.site,
                vpc_id=base.network.vpc_id,
                vpc_cidr=base.network.cidr,
                s3_prefix_list_id=base.vpc_endpoints.s3_prefix_list_id,
                to_internet=self.own.endpoint.weights.source == "hub",
            ),
        )
        return EndpointNetwork(
            vpc_id=base.network.vpc_id,
            subnet_ids=tuple(subnet.id for subnet in base.network.private_subnets),
            security_group_id=group.security_group_id,
        )

    def _weights_uri(self) -> str | None:
        prefix = self.own.endpoint.weights.s3_prefix
        return None if prefix is None else f"s3://{self.base.models.name}/{prefix}"

    def _folders(self, config: DeploymentConfig) -> _Folders:
        endpoint, models = self.own.endpoint, self.base.models
        read: list[str] = []
        write: list[str] = []
        topics: tuple[str, ...] = ()
        output = None
        if endpoint.weights.s3_prefix is not None:
            read.append(endpoint.weights.s3_prefix)
        if endpoint.mode == "async":
            read.append(_REQUESTS)
            write += [_ANSWERS, _FAILURES]
            answers, failures = self._topics()
            topics = tuple(arn for arn in (answers, failures) if arn is not None)
            output = AsyncOutput(
                answers_uri=f"s3://{models.name}/{_ANSWERS}",
                failures_uri=f"s3://{models.name}/{_FAILURES}",
                max_concurrent=concurrent_invocations(endpoint, config),
                success_topic_arn=answers,
                error_topic_arn=failures,
            )
            self.output("RequestFolder", f"s3://{models.name}/{_REQUESTS}", "Where requests are put (input location)")
        captured = endpoint.data_capture_percent > 0
        if captured:
            write.append(_CAPTURED)
        return _Folders(
            read=tuple(BucketFolder(bucket_arn=models.arn, prefix=prefix) for prefix in read),
            write=tuple(BucketFolder(bucket_arn=models.arn, prefix=prefix) for prefix in write),
            topic_arns=topics,
            async_output=output,
            capture_uri=f"s3://{models.name}/{_CAPTURED}" if captured else None,
        )

    def _topics(self) -> tuple[str | None, str | None]:
        if not self.own.endpoint.asynchronous.notify:
            return None, None
        topics = EndpointTopics(
            self, "Topics", EndpointTopicsProps(site=self.site, key_arn=self.base.keys["notifications"].arn)
        )
        return topics.answers_arn, topics.failures_arn

    def _role(
        self, config: DeploymentConfig, image: Image, network: EndpointNetwork | None, folders: _Folders
    ) -> EndpointRole:
        groups = LogGroups(
            self,
            "LogGroups",
            LogGroupsProps(
                site=self.site,
                key_arn=self.base.keys["logs"].arn,
                retention_days=self.settings.alarms.log_retention_days,
                groups=(LogGroupSpec(id="Endpoint", name=endpoint_log_group(self.name), kind="metrics"),),
            ),
        )
        return EndpointRole(
            self,
            "Role",
            EndpointRoleProps(
                site=self.site,
                repository_arn=image.repository_arn,
                log_group_arn=groups.arns["Endpoint"],
                metrics_namespace=config.metrics.namespace,
                data_key_arn=self.base.keys["data"].arn,
                network=network,
                read=folders.read,
                write=folders.write,
                topic_arns=folders.topic_arns,
                topic_key_arn=self.base.keys["notifications"].arn if folders.topic_arns else None,
            ),
        )


class SmallStack(EndpointStack):
    """One instance."""

    def __init__(self, scope: Any, settings: Settings, today: date) -> None:
        super().__init__(scope, "small", settings, settings.small)


class MediumStack(EndpointStack):
    """Larger instances, two at least."""

    def __init__(self, scope: Any, settings: Settings, today: date) -> None:
        super().__init__(scope, "medium", settings, settings.medium)
