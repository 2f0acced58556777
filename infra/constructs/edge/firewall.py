"""The firewall of the edge: a rate limit and AWS's managed rules, with a log of what was stopped.

Knows no distribution. Everything lives in us-east-1, where CloudFront looks for it, through the provider that is handed
in. Prompts are texts about anything, programs among them, so rules that judge the body of a request are only counted,
but for those of known exploits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.framework import Construct, aws
from infra.policy import Statement, policy_document
from infra.site import Site

REGION = "us-east-1"
_COUNTED = {
    # Larger than 8 KiB, or holding what looks like markup or a path, is what prompts are.
    "AWSManagedRulesCommonRuleSet": (
        "SizeRestrictions_BODY",
        "CrossSiteScripting_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "EC2MetaDataSSRF_BODY",
    ),
    # Log4j and Java exploits.
    "AWSManagedRulesKnownBadInputsRuleSet": (),
    "AWSManagedRulesAmazonIpReputationList": (),
    # Callers of an API are servers: their hosting providers are no reason to refuse them.
    "AWSManagedRulesAnonymousIpList": ("HostingProviderIPList",),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FirewallProps:
    """What the firewall needs."""

    site: Site
    provider: Any
    """AWS provider of us-east-1."""
    rate_limit: int
    """Requests of one address in five minutes."""
    log_retention_days: int
    key_arn: str | None = None
    """Key of us-east-1 that lets CloudWatch Logs in; None makes one."""


class Firewall(Construct):
    """Web ACL of scope CLOUDFRONT and its log."""

    def __init__(self, scope: Any, id: str, props: FirewallProps) -> None:
        super().__init__(scope, id)
        name = props.site.named("edge")
        acl = aws.Wafv2WebAcl(
            self,
            "Acl",
            provider=props.provider,
            name=name,
            description="Rate limit and managed rules before the API",
            scope="CLOUDFRONT",
            default_action={"allow": {}},
            rule=[_rate_rule(props.rate_limit), *(_managed(i, g) for i, g in enumerate(_COUNTED, 1))],
            visibility_config=aws.Wafv2WebAclVisibilityConfig(**_visibility("edge")),
        )
        log_group = self._log_group(props)
        aws.Wafv2WebAclLoggingConfiguration(
            self,
            "Logging",
            provider=props.provider,
            resource_arn=acl.arn,
            log_destination_configs=[log_group.arn],
            redacted_fields=[
                aws.Wafv2WebAclLoggingConfigurationRedactedFields(
                    single_header=aws.Wafv2WebAclLoggingConfigurationRedactedFieldsSingleHeader(name=header)
                )
                for header in ("authorization", "cookie")
            ],
            depends_on=[self._delivery(props, log_group)],
        )
        self.arn: str = acl.arn

    def _log_group(self, props: FirewallProps) -> Any:
        # A name of its own prefix is what AWS WAF demands.
        return aws.CloudwatchLogGroup(
            self,
            "LogGroup",
            provider=props.provider,
            name=f"aws-waf-logs-{props.site.name}",
            kms_key_id=props.key_arn if props.key_arn is not None else self._key(props),
            retention_in_days=props.log_retention_days,
        )

    def _key(self, props: FirewallProps) -> str:
        site = props.site
        logs = f"arn:{site.partition}:logs:{REGION}:{site.account_id}:log-group:aws-waf-logs-{site.name}"
        policy = policy_document(
            [
                Statement(sid="OwnerManages", actions=["kms:*"], accounts=[site.root_arn]),
                Statement(
                    sid="LogsOfTheFirewall",
                    actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
                    services=[f"logs.{REGION}.{site.dns_suffix}"],
                    conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs}},
                ),
            ]
        )
        key = aws.KmsKey(
            self,
            "Key",
            provider=props.provider,
            description=f"Logs of the firewall of {site.name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            policy=policy,
        )
        return str(key.arn)

    def _delivery(self, props: FirewallProps, log_group: Any) -> Any:
        """Who may write to the group: otherwise AWS WAF would add a policy that Terraform does not know."""
        site = props.site
        return aws.CloudwatchLogResourcePolicy(
            self,
            "Delivery",
            provider=props.provider,
            policy_name=f"aws-waf-logs-{site.name}",
            policy_document=policy_document(
                [
                    Statement(
                        sid="FirewallWrites",
                        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                        resources=[f"{log_group.arn}:*"],
                        services=["delivery.logs.amazonaws.com"],
                        conditions={"StringEquals": {"aws:SourceAccount": site.account_id}},
                    )
                ]
            ),
        )


def _rate_rule(limit: int) -> Any:
    return aws.Wafv2WebAclRule(
        name="rate-limit",
        priority=0,
        action={"block": {}},
        statement={"rate_based_statement": {"limit": limit, "aggregate_key_type": "IP", "evaluation_window_sec": 300}},
        visibility_config=aws.Wafv2WebAclRuleVisibilityConfig(**_visibility("rate-limit")),
    )


def _managed(priority: int, group: str) -> Any:
    statement: dict[str, Any] = {"vendor_name": "AWS", "name": group}
    if _COUNTED[group]:
        statement["rule_action_override"] = [{"name": rule, "action_to_use": {"count": {}}} for rule in _COUNTED[group]]
    return aws.Wafv2WebAclRule(
        name=group,
        priority=priority,
        override_action={"none": {}},
        statement={"managed_rule_group_statement": statement},
        visibility_config=aws.Wafv2WebAclRuleVisibilityConfig(**_visibility(group)),
    )


def _visibility(name: str) -> dict[str, Any]:
    # Sampled requests would keep prompts where the firewall's users see them.
    return {"cloudwatch_metrics_enabled": True, "metric_name": name, "sampled_requests_enabled": False}
