"""A SageMaker model: image, environment, weights and network of the endpoint's container.

Knows no endpoint. Invariant: the model has no fixed name and its successor is made first, since a model in use cannot
be replaced; without weights from the Hub its container has no network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.checkov import skip
from infra.constructs.endpoint.role import EndpointNetwork
from infra.framework import Construct, Lifecycle, aws
from infra.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointModelProps:
    """What the container is."""

    site: Site
    """Names."""
    role_arn: str
    """Execution role."""
    image_uri: str
    """Image with tag or digest."""
    environment: Mapping[str, str]
    """Of the container, made from the deployment config."""
    weights_uri: str | None
    """Folder in S3, "s3://bucket/prefix/", whose objects lie in /opt/ml/model; None: the weights are elsewhere."""
    isolated: bool
    """Whether the container has no network."""
    network: EndpointNetwork | None
    """None for a container outside of the VPC (serverless)."""
    after: tuple[Any, ...] = ()
    """Resources that must exist first: the role's policy."""


class EndpointModel(Construct):
    """One model."""

    def __init__(self, scope: Any, id: str, props: EndpointModelProps) -> None:
        super().__init__(scope, id)
        network = props.network
        model = aws.SagemakerModel(
            self,
            "Model",
            execution_role_arn=props.role_arn,
            enable_network_isolation=props.isolated,
            primary_container=aws.SagemakerModelPrimaryContainer(
                image=props.image_uri,
                environment=dict(props.environment),
                model_data_source=None if props.weights_uri is None else _folder(props.weights_uri),
            ),
            vpc_config=None
            if network is None
            else aws.SagemakerModelVpcConfig(
                subnets=list(network.subnet_ids), security_group_ids=[network.security_group_id]
            ),
            tags={"Name": props.site.named("model")},
            lifecycle=Lifecycle(create_before_destroy=True),
            depends_on=list(props.after) or None,
        )
        if not props.isolated:
            reason = (
                "a serverless endpoint cannot have an isolated container"
                if network is None
                else "the container downloads its weights from the Hub"
            )
            skip(model, "CKV_AWS_370", reason)
        self.name: str = model.name
        """The model."""


def _folder(uri: str) -> Any:
    assert uri.endswith("/"), f"SageMaker takes only a folder as a prefix: {uri!r}"
    return aws.SagemakerModelPrimaryContainerModelDataSource(
        s3_data_source=[
            aws.SagemakerModelPrimaryContainerModelDataSourceS3DataSource(
                s3_uri=uri, s3_data_type="S3Prefix", compression_type="None"
            )
        ]
    )
