"""AWS services that each kind of stack calls from inside its VPC, where each needs an interface endpoint.

Knows no resource and no framework, so that what an endpoint costs is counted by the same rules that make it.
"""

from __future__ import annotations

from typing import Literal, get_args

InterfaceService = Literal[
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "sts",
    "ssm",
    "ssmmessages",
    "sqs",
    "eks",
    "eks-auth",
    "kms",
    "logs",
    "monitoring",
    "secretsmanager",
    "elasticloadbalancing",
    "codebuild",
    "sagemaker.runtime",
]
INTERFACE_SERVICES: tuple[InterfaceService, ...] = get_args(InterfaceService)

# Karpenter, nodes, Pod Identity and controllers on nodes without NAT; the S3 gateway comes with every VPC.
_CLUSTER: tuple[InterfaceService, ...] = (
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "sts",
    "ssm",
    "sqs",
    "eks",
    "eks-auth",
    "kms",
    "logs",
    "monitoring",
    "secretsmanager",
)


def cluster_services(*, edge: bool = False, node_shells: bool = False) -> tuple[InterfaceService, ...]:
    """Interface endpoints of a private cluster whose bootstrap is a CodeBuild project inside the VPC.

    `edge`: a controller in the cluster registers pods with a load balancer. `node_shells`: Session Manager on nodes.
    Builds use what nodes use: ecr, eks, logs, S3. `codebuild` is not among them, since only a build that calls
    CodeBuild's own API would need it.
    """
    more: tuple[InterfaceService, ...] = ()
    if edge:
        more += ("elasticloadbalancing",)
    if node_shells:
        more += ("ssmmessages",)
    return _CLUSTER + more


def endpoint_services(*, network_isolation: bool, private_callers: bool = False) -> tuple[InterfaceService, ...]:
    """Interface endpoints of a SageMaker model in a VPC.

    SageMaker itself pulls the image and ships the container's logs, and fetches the model through the S3 gateway. An
    isolated container calls nothing; one that is not may send metrics and logs of its own. `private_callers`: clients
    in the VPC invoke the endpoint.
    """
    calls: tuple[InterfaceService, ...] = () if network_isolation else ("logs", "monitoring")
    return calls + (("sagemaker.runtime",) if private_callers else ())
