"""The edge: nothing public but CloudFront, generation never cached or retried, TLS 1.3, a firewall that is logged."""

from __future__ import annotations

from functools import cache

import pytest
from pydantic import ValidationError

from eagle3.errors import ConfigError
from infra.constructs.edge.cdn import ALL_VIEWER, CACHING_DISABLED, Cdn, CdnProps
from infra.constructs.edge.firewall import Firewall, FirewallProps
from infra.constructs.edge.load_balancer import PATHS, LoadBalancer, LoadBalancerProps
from infra.framework import aws
from infra.settings.edge import EdgeSettings, check_edge
from infra_doubles import SITE, synthesize

CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/edge"
ORIGIN_CERTIFICATE = "arn:aws:acm:eu-west-1:123456789012:certificate/origin"
ENABLED = {
    "enabled": True,
    "domain_name": "api.example.org",
    "certificate_arn": CERTIFICATE,
    "origin_certificate_arn": ORIGIN_CERTIFICATE,
}


@cache
def edge(*, countries=(), protected=True, key_arn=None):
    """A stack with the whole edge before a group of pods."""

    def build(stack):
        east = aws.AwsProvider(stack, "East", region="us-east-1", alias="east")
        pods = aws.SecurityGroup(stack, "Pods", name="pods", description="d", vpc_id="vpc-1")
        balancer = LoadBalancer(
            stack,
            "LoadBalancer",
            LoadBalancerProps(
                site=SITE,
                vpc_id="vpc-1",
                subnet_ids=("subnet-1", "subnet-2"),
                certificate_arn=ORIGIN_CERTIFICATE,
                origin_prefix_list_id="pl-cloudfront",
                target_security_group_id=pods.id,
                target_port=8080,
                log_bucket="logs",
                idle_timeout_s=180,
                deletion_protection=protected,
            ),
        )
        firewall = Firewall(
            stack,
            "Firewall",
            FirewallProps(site=SITE, provider=east, rate_limit=2000, log_retention_days=365, key_arn=key_arn),
        )
        Cdn(
            stack,
            "Cdn",
            CdnProps(
                site=SITE,
                domain_name="api.example.org",
                certificate_arn=CERTIFICATE,
                load_balancer_arn=balancer.arn,
                load_balancer_dns_name=balancer.dns_name,
                web_acl_arn=firewall.arn,
                log_bucket_domain_name="logs.s3.amazonaws.com",
                origin_timeout_s=120,
                price_class="PriceClass_100",
                allowed_countries=countries,
            ),
        )

    return synthesize(build, region="eu-west-1")


def distribution(**values):
    """The distribution of an edge."""
    return edge(**values).only("aws_cloudfront_distribution")


def test_load_balancer_is_private():
    """It has no public address, and only CloudFront's addresses may connect, by TLS."""
    stack = edge()
    balancer = stack.only("aws_lb")
    assert balancer["internal"] is True
    [group] = stack.references(balancer["security_groups"])
    rules = [
        rule
        for rule in stack.all("aws_vpc_security_group_ingress_rule")
        if stack.follow(rule["security_group_id"]) == group
    ]
    [rule] = rules
    assert (rule["from_port"], rule["to_port"], rule["prefix_list_id"]) == (443, 443, "pl-cloudfront")
    assert not {"cidr_ipv4", "cidr_ipv6"} & set(rule.values)


def test_load_balancer_reaches_the_pods_and_nothing_else():
    """One way out, to the pods' group; the pods' group lets the load balancer in on that port."""
    stack = edge()
    [group] = stack.references(stack.only("aws_lb")["security_groups"])
    out = stack.only("aws_vpc_security_group_egress_rule")
    assert stack.follow(out["security_group_id"]) == group
    pods = stack.follow(out["referenced_security_group_id"])
    [at_pods] = [
        rule
        for rule in stack.all("aws_vpc_security_group_ingress_rule")
        if stack.follow(rule["security_group_id"]) == pods
    ]
    assert stack.follow(at_pods["referenced_security_group_id"]) == group
    assert {rule[key] for rule in (out, at_pods) for key in ("from_port", "to_port")} == {8080}


def test_load_balancer_is_hardened():
    """Logged, protected, strict about headers, TLS 1.3 first; a connection outlives CloudFront's patience."""
    stack = edge()
    balancer, listener = stack.only("aws_lb"), stack.only("aws_lb_listener")
    assert balancer["access_logs"] == {"bucket": "logs", "prefix": "alb", "enabled": True}
    assert balancer["enable_deletion_protection"] is True
    assert balancer["drop_invalid_header_fields"] is True
    assert balancer["idle_timeout"] > 120
    assert listener["ssl_policy"].startswith("ELBSecurityPolicy-TLS13-1-2-Res-")
    assert listener["certificate_arn"] == ORIGIN_CERTIFICATE
    assert stack.follow(listener["load_balancer_arn"]) == balancer
    assert len(balancer["name"]) <= 32


def test_only_the_api_is_passed_on():
    """Paths of the API go to the pods; every other, metrics among them, is answered 404 at the load balancer."""
    stack = edge()
    [default] = stack.only("aws_lb_listener")["default_action"]
    assert default["fixed_response"]["status_code"] == "404"
    rule = stack.only("aws_lb_listener_rule")
    [condition] = rule["condition"]
    assert condition["path_pattern"]["values"] == list(PATHS)
    assert not {"/metrics", "/invocations", "/*"} & set(PATHS)
    target = stack.follow(rule["action"][0]["target_group_arn"])
    assert (target["target_type"], target["port"], target["health_check"]["path"]) == ("ip", 8080, "/ready")


def test_unprotected_load_balancer_is_an_exception_with_a_reason():
    """Protection can be switched off, and the reason stands beside the resource."""
    balancer = edge(protected=False).only("aws_lb")
    assert balancer["enable_deletion_protection"] is False
    assert "CKV_AWS_150" in balancer["//"]["checkov"]
    assert "checkov" not in edge().only("aws_lb")["//"]


def test_generation_is_never_cached_and_never_asked_twice():
    """What is not named goes through uncached with every method and header; one attempt to connect, 60 s or more."""
    stack = edge()
    found = distribution()
    behavior = found["default_cache_behavior"]
    assert "POST" in behavior["allowed_methods"]
    assert behavior["cache_policy_id"] == CACHING_DISABLED
    assert behavior["origin_request_policy_id"] == ALL_VIEWER
    assert behavior["compress"] is False
    [origin] = found["origin"]
    assert origin["connection_attempts"] == 1
    assert origin["vpc_origin_config"]["origin_read_timeout"] >= 60
    vpc_origin = stack.follow(origin["vpc_origin_config"]["vpc_origin_id"])
    [config] = vpc_origin["vpc_origin_endpoint_config"]
    assert config["origin_protocol_policy"] == "https-only"
    assert stack.follow(config["arn"]) == stack.only("aws_lb")
    assert "origin_group" not in found.values


def test_reads_are_cached_shortly_and_apart_for_each_key():
    """GETs of the named paths are cached for a minute at most, by API key, and compressed; no POST reaches a cache."""
    stack = edge()
    behaviors = {item["path_pattern"]: item for item in distribution()["ordered_cache_behavior"]}
    assert set(behaviors) == {"/v1/models", "/v1/models/*", "/openapi.json", "/health"}
    for path, behavior in behaviors.items():
        assert "POST" not in behavior["allowed_methods"]
        assert behavior["compress"] is True
        policy = stack.follow(behavior["cache_policy_id"])
        assert policy["max_ttl"] == (1 if path == "/health" else 60)
        key = policy["parameters_in_cache_key_and_forwarded_to_origin"]
        assert key["headers_config"]["headers"]["items"] == ["Authorization"]


def test_viewers_speak_tls_1_3_only():
    """The oldest protocol is TLS 1.3, under the API's own name, and plain HTTP is refused."""
    found = distribution()
    assert found["viewer_certificate"]["minimum_protocol_version"] == "TLSv1.3_2025"
    assert found["viewer_certificate"]["acm_certificate_arn"] == CERTIFICATE
    assert found["aliases"] == ["api.example.org"]
    for behavior in (found["default_cache_behavior"], *found["ordered_cache_behavior"]):
        assert behavior["viewer_protocol_policy"] == "https-only"
        headers = edge().follow(behavior["response_headers_policy_id"])["security_headers_config"]
        assert headers["strict_transport_security"]["access_control_max_age_sec"] >= 31_536_000


def test_requests_are_logged():
    """CloudFront writes its log to the bucket of access logs, without cookies."""
    assert distribution()["logging_config"] == {
        "bucket": "logs.s3.amazonaws.com",
        "prefix": "cloudfront/",
        "include_cookies": False,
    }


def test_countries():
    """Named countries are served and no other; none named is an exception with a reason."""
    some = distribution(countries=("DE", "FR"))
    assert some["restrictions"]["geo_restriction"] == {"restriction_type": "whitelist", "locations": ["DE", "FR"]}
    assert "CKV_AWS_374" not in some["//"]["checkov"]
    everywhere = distribution()
    assert everywhere["restrictions"]["geo_restriction"]["restriction_type"] == "none"
    assert "CKV_AWS_374" in everywhere["//"]["checkov"]


def test_firewall_is_before_the_distribution():
    """Distribution → web ACL of scope CLOUDFRONT, made in us-east-1, with its log and that log's key."""
    stack = edge()
    acl = stack.follow(distribution()["web_acl_id"])
    assert acl["scope"] == "CLOUDFRONT"
    logging = stack.only("aws_wafv2_web_acl_logging_configuration")
    assert stack.follow(logging["resource_arn"]) == acl
    [destination] = logging["log_destination_configs"]
    group = stack.follow(destination)
    assert group["name"].startswith("aws-waf-logs-")
    key = stack.follow(group["kms_key_id"])
    assert key["enable_key_rotation"] is True
    for resource in (acl, logging, group, key):
        assert resource["provider"] == "aws.east"
    redacted = {item["single_header"]["name"] for item in logging["redacted_fields"]}
    assert redacted == {"authorization", "cookie"}


def test_firewall_log_has_no_cycle():
    """D26: the key names the group by its ARN as text, and lets the logs of us-east-1 in."""
    stack = edge()
    key = stack.only("aws_kms_key")
    assert stack.references(key["policy"]) == []
    [statement] = [item for item in key.policy() if "Service" in item["Principal"]]
    assert statement["Principal"]["Service"] == "logs.us-east-1.amazonaws.com"
    pattern = statement["Condition"]["ArnLike"]["kms:EncryptionContext:aws:logs:arn"]
    assert pattern.endswith(stack.only("aws_cloudwatch_log_group")["name"])


def test_firewall_takes_a_key():
    """A key of us-east-1 that is there already is used, and none made."""
    given = edge(key_arn="arn:aws:kms:us-east-1:123456789012:key/k")
    assert "aws_kms_key" not in given.kinds()
    assert given.only("aws_cloudwatch_log_group")["kms_key_id"].endswith("key/k")


def test_firewall_writes_through_a_policy():
    """Log deliveries of this account may write to the group, before logging is switched on."""
    stack = edge()
    policy = stack.only("aws_cloudwatch_log_resource_policy")
    [statement] = policy.policy("policy_document")
    assert stack.follow(statement["Resource"]) == stack.only("aws_cloudwatch_log_group")
    assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": SITE.account_id}
    [waits_for] = stack.only("aws_wafv2_web_acl_logging_configuration")["depends_on"]
    assert waits_for == f"{policy.kind}.{policy.id}"


def test_firewall_rules():
    """A rate limit blocks; managed rules stop exploits, Log4j among them, but prompts may be long and hold markup."""
    rules = {rule["name"]: rule for rule in edge().only("aws_wafv2_web_acl")["rule"]}
    rate = rules.pop("rate-limit")
    assert rate["action"] == {"block": {}}
    assert rate["statement"]["rate_based_statement"]["limit"] == 2000
    assert rate["statement"]["rate_based_statement"]["evaluation_window_sec"] == 300
    assert len({rule["priority"] for rule in [rate, *rules.values()]}) == len(rules) + 1
    overrides = {
        name: {
            item["name"] for item in rule["statement"]["managed_rule_group_statement"].get("rule_action_override", ())
        }
        for name, rule in rules.items()
    }
    assert all(rule["override_action"] == {"none": {}} for rule in rules.values())
    assert overrides["AWSManagedRulesKnownBadInputsRuleSet"] == set()
    assert overrides["AWSManagedRulesAmazonIpReputationList"] == set()
    assert overrides["AWSManagedRulesCommonRuleSet"] >= {"SizeRestrictions_BODY", "CrossSiteScripting_BODY"}
    assert all(name.endswith("_BODY") for name in overrides["AWSManagedRulesCommonRuleSet"])


def test_settings_are_off_by_default():
    """Nothing is public unless asked for, and then with a name and both certificates."""
    assert EdgeSettings().enabled is False
    assert EdgeSettings.model_validate(ENABLED).enabled is True
    for key in ("domain_name", "certificate_arn", "origin_certificate_arn"):
        with pytest.raises(ValidationError, match=f"edge.{key}"):
            EdgeSettings.model_validate({name: value for name, value in ENABLED.items() if name != key})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("certificate_arn", ORIGIN_CERTIFICATE),
        ("domain_name", "localhost"),
        ("allowed_countries", ["Germany"]),
        ("rate_limit", 9),
        ("price_class", "PriceClass_50"),
        ("origin_timeout_s", 59),
        ("origin_timeout_s", 121),
    ],
)
def test_settings_refuse(key, value):
    """A certificate of another region, names that are none, and times that CloudFront does not take are refused."""
    with pytest.raises(ValidationError, match=key):
        EdgeSettings.model_validate({**ENABLED, key: value})


def test_edge_fits_its_stack():
    """The load balancer's certificate is of its region, and the VPC has the gateway that a VPC origin needs."""
    settings = EdgeSettings.model_validate(ENABLED)
    check_edge(settings, region="eu-west-1", has_internet_gateway=True)
    check_edge(EdgeSettings(), region="eu-west-1", has_internet_gateway=False)
    with pytest.raises(ConfigError, match="certificate of eu-west-1; the load balancer is in us-west-2"):
        check_edge(settings, region="us-west-2", has_internet_gateway=True)
    with pytest.raises(ConfigError, match="internet gateway"):
        check_edge(settings, region="eu-west-1", has_internet_gateway=False)
