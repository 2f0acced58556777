"""The load balancer that CloudFront reaches inside the VPC; nothing of it is public.

Knows no CloudFront: whatever is in the prefix list that it is given may connect, by TLS. It passes on only the paths of
the API, so metrics and SageMaker's routes stay inside. Pods register themselves in the target group by a
TargetGroupBinding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.checkov import skip
from infra.framework import Construct, aws
from infra.site import Site

PATHS = ("/v1/*", "/health", "/ready", "/openapi.json")
"""What is passed on; five patterns a rule are what a load balancer takes."""
# TLS 1.3, and 1.2 with forward secrecy and authenticated encryption only: CloudFront may use either towards an origin.
TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-Res-2021-06"


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadBalancerProps:
    """What the load balancer needs."""

    site: Site
    vpc_id: str
    subnet_ids: tuple[str, ...]
    """Private subnets, in two zones at least."""
    certificate_arn: str
    """Certificate of the API's host name, in this region."""
    origin_prefix_list_id: str
    """Managed prefix list com.amazonaws.global.cloudfront.origin-facing of this region."""
    target_security_group_id: str
    """Of the pods' nodes; port 8080 is opened to the load balancer."""
    target_port: int
    """Port of the server in the pods."""
    log_bucket: str
    """Name of a bucket, let into by its policy below `alb/`; the logs refuse one encrypted with a key of KMS."""
    idle_timeout_s: int
    """Seconds without a byte after which a connection is closed; more than CloudFront's."""
    deletion_protection: bool


class LoadBalancer(Construct):
    """Load balancer, listener, target group, security group."""

    def __init__(self, scope: Any, id: str, props: LoadBalancerProps) -> None:
        super().__init__(scope, id)
        site = props.site
        group = aws.SecurityGroup(
            self,
            "SecurityGroup",
            name=site.named("edge"),
            description="Load balancer behind CloudFront",
            vpc_id=props.vpc_id,
            tags={"Name": site.named("edge")},
        )
        self._open_ports(group.id, props)
        balancer = aws.Lb(
            self,
            "LoadBalancer",
            name=_short(site.name, "edge"),
            internal=True,
            load_balancer_type="application",
            subnets=list(props.subnet_ids),
            security_groups=[group.id],
            drop_invalid_header_fields=True,
            desync_mitigation_mode="defensive",
            enable_deletion_protection=props.deletion_protection,
            idle_timeout=props.idle_timeout_s,
            access_logs={"bucket": props.log_bucket, "prefix": "alb", "enabled": True},
        )
        if not props.deletion_protection:
            skip(balancer, "CKV_AWS_150", "this environment's edge.deletion_protection switches the protection off")
        target = aws.LbTargetGroup(
            self,
            "Target",
            name=_short(site.name, "api"),
            vpc_id=props.vpc_id,
            target_type="ip",
            port=props.target_port,
            protocol="HTTP",
            # Generation times differ by orders of magnitude: the pod with the fewest requests in flight is next.
            load_balancing_algorithm_type="least_outstanding_requests",
            deregistration_delay="120",
            health_check={
                "path": "/ready",
                "port": "traffic-port",
                "protocol": "HTTP",
                "matcher": "200",
                "interval": 10,
                "timeout": 5,
                "healthy_threshold": 2,
                "unhealthy_threshold": 3,
            },
        )
        skip(target, "CKV_AWS_378", "TLS ends at the load balancer; the pods behind it speak HTTP inside the VPC")
        listener = aws.LbListener(
            self,
            "Listener",
            load_balancer_arn=balancer.arn,
            port=443,
            protocol="HTTPS",
            ssl_policy=TLS_POLICY,
            certificate_arn=props.certificate_arn,
            default_action=[
                aws.LbListenerDefaultAction(
                    type="fixed-response",
                    fixed_response=aws.LbListenerDefaultActionFixedResponse(
                        content_type="application/json",
                        status_code="404",
                        message_body='{"error": {"message": "no such route", "type": "invalid_request_error"}}',
                    ),
                )
            ],
        )
        aws.LbListenerRule(
            self,
            "Api",
            listener_arn=listener.arn,
            priority=10,
            condition=[
                aws.LbListenerRuleCondition(path_pattern=aws.LbListenerRuleConditionPathPattern(values=list(PATHS)))
            ],
            action=[aws.LbListenerRuleAction(type="forward", target_group_arn=target.arn)],
        )
        self.arn: str = balancer.arn
        self.arn_suffix: str = balancer.arn_suffix
        """For metrics."""
        self.dns_name: str = balancer.dns_name
        self.target_group_arn: str = target.arn
        """For the TargetGroupBinding."""
        self.security_group_id: str = group.id

    def _open_ports(self, group_id: str, props: LoadBalancerProps) -> None:
        aws.VpcSecurityGroupIngressRule(
            self,
            "FromCloudFront",
            security_group_id=group_id,
            description="TLS from CloudFront",
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            prefix_list_id=props.origin_prefix_list_id,
        )
        for name, rule, own, other, direction in (
            ("ToPods", aws.VpcSecurityGroupEgressRule, group_id, props.target_security_group_id, "To the pods"),
            ("AtPods", aws.VpcSecurityGroupIngressRule, props.target_security_group_id, group_id, "From the edge"),
        ):
            rule(
                self,
                name,
                security_group_id=own,
                referenced_security_group_id=other,
                description=direction,
                ip_protocol="tcp",
                from_port=props.target_port,
                to_port=props.target_port,
            )


def _short(name: str, suffix: str) -> str:
    """Names of load balancers and target groups have 32 characters at most."""
    return f"{name[: 31 - len(suffix)].rstrip('-')}-{suffix}"
