"""Mirror, bootstrap and plan: who may do what, what starts what, and in which order things are made."""

from __future__ import annotations

import json
import re

import pytest

from bootstrap_doubles import CLUSTER, COMPONENTS, stack
from infra.kubernetes.components import components, mirrored_repositories
from infra_doubles import SITE

PROJECTS = ("mirror", "bootstrap")


def project(name, **case):
    [found] = [one for one in stack(**case).all("aws_codebuild_project") if one["name"] == SITE.named(name)]
    return found


def statements(name, **case):
    """Statements of a project's role."""
    made = stack(**case)
    role = made.follow(project(name, **case)["service_role"])
    [policy] = [one for one in made.all("aws_iam_role_policy") if made.follow(one["role"]) == role]
    return {statement["Sid"]: statement for statement in policy.policy()}


def rule(suffix):
    made = stack()
    [found] = [one for one in made.all("aws_cloudwatch_event_rule") if one["name"] == SITE.named(suffix)]
    [target] = [one for one in made.all("aws_cloudwatch_event_target") if made.follow(one["rule"]) == found]
    return found, target


@pytest.mark.parametrize("name", PROJECTS)
def test_project_is_small_and_unprivileged(name):
    """One build at a time, with a time limit, an encrypted log of its own, without Docker's privileges or a source."""
    one = project(name)
    assert one["concurrent_build_limit"] == 1
    assert one["build_timeout"] <= 120
    assert one["environment"]["privileged_mode"] is False
    assert one["source"]["type"] == "NO_SOURCE"
    assert one["artifacts"]["type"] == "NO_ARTIFACTS"
    made = stack()
    assert made.follow(one["encryption_key"]).kind == "aws_kms_key"
    assert made.follow(one["logs_config"]["cloudwatch_logs"]["group_name"])["name"] == name


def test_only_the_bootstrap_is_in_the_vpc():
    """The mirror has the internet and no VPC; the bootstrap runs in the private subnets of the cluster's VPC."""
    assert "vpc_config" not in project("mirror").values
    config = project("bootstrap")["vpc_config"]
    made = stack()
    assert made.follow(config["vpc_id"]).kind == "aws_vpc"
    assert len({made.follow(subnet).id for subnet in config["subnets"]}) == len(SITE.zones)


@pytest.mark.parametrize("name", PROJECTS)
def test_role_is_for_its_project_alone(name):
    """CodeBuild takes the role only for this project of this account."""
    role = stack().follow(project(name)["service_role"])
    [trust] = role.policy("assume_role_policy")
    assert trust["Principal"] == {"Service": "codebuild.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": SITE.account_id}
    assert trust["Condition"]["ArnEquals"]["aws:SourceArn"].endswith(f":project/{SITE.named(name)}")


def test_mirror_writes_its_own_part_only():
    """It writes charts and tools below the prefix and pushes to the repositories of what is on; no EKS, no EC2."""
    made, allowed = stack(), statements("mirror")
    for place in allowed["WriteArtifacts"]["Resource"]:
        assert made.follow(place).kind == "aws_s3_bucket"
        assert place.endswith(("/bootstrap/charts/*", "/bootstrap/tools/*"))
    pushed = {made.follow(arn)["name"] for arn in allowed["PushImages"]["Resource"]}
    assert pushed == set(mirrored_repositories(COMPONENTS))
    actions = {action for statement in allowed.values() for action in statement["Action"]}
    assert not any(action.startswith(("eks:", "ec2:", "iam:")) for action in actions)


def test_bootstrap_reads_and_describes_only():
    """In AWS it reads its artifacts, describes its one cluster, and lets CodeBuild put it into its subnets."""
    made, allowed = stack(), statements("bootstrap")
    assert allowed["FindCluster"]["Resource"] == SITE.arn("eks", f"cluster/{CLUSTER}")
    assert allowed["ReadArtifacts"]["Action"] == ["s3:GetObject"]
    assert made.follow(allowed["DecryptArtifacts"]["Resource"]).kind == "aws_kms_key"
    permission = allowed["LendInterface"]
    assert permission["Condition"]["StringEquals"] == {"ec2:AuthorizedService": "codebuild.amazonaws.com"}
    assert {one.kind for one in made.references(permission["Condition"]["ArnEquals"])} == {"aws_subnet"}
    actions = {action for statement in allowed.values() for action in statement["Action"]}
    assert not any(action.startswith(("ecr:", "iam:", "s3:Put", "eks:Create", "eks:Update")) for action in actions)


@pytest.mark.parametrize("name", PROJECTS)
def test_no_action_is_a_pattern(name):
    """Every action is named in full, and those on "*" know no resource."""
    for statement in statements(name).values():
        assert not any("*" in action for action in statement["Action"])
        if statement["Resource"] == "*":
            assert statement["Sid"] in ("SeeNetwork", "LogInToRegistry")


@pytest.mark.parametrize(("isolated", "places"), [(True, 2), (False, 3)])
def test_bootstrap_reaches_no_more_than_it_needs(isolated, places):
    """HTTPS to the VPC and to S3; with NAT also to AWS's services by it; nothing comes in."""
    made = stack(isolated=isolated)
    group = made.follow(project("bootstrap", isolated=isolated)["vpc_config"]["security_group_ids"][0])
    rules = [
        one for one in made.all("aws_vpc_security_group_egress_rule") if made.follow(one["security_group_id"]) == group
    ]
    assert len(rules) == places
    assert all((one["from_port"], one["to_port"], one["ip_protocol"]) == (443, 443, "tcp") for one in rules)
    # EC2 refuses other signs, an apostrophe among them.
    assert all(re.fullmatch(r"[\w .:/()#,@\[\]+=;{}!$*-]{1,255}", one["description"]) for one in [group, *rules])
    assert ("0.0.0.0/0" in {one.get("cidr_ipv4") for one in rules}) != isolated
    assert "aws_vpc_security_group_ingress_rule" not in made.kinds()


def test_change_starts_mirror_and_mirror_starts_bootstrap():
    """Plan written → mirror; mirror succeeded → bootstrap; both by one role that can start these two projects only."""
    made = stack()
    changed, to_mirror = rule("plan-changed")
    pattern = json.loads(changed["event_pattern"])
    plan = next(one for one in made.all("aws_s3_object") if one["key"].endswith("plan.json"))
    assert pattern["detail"]["object"]["key"] == [plan["key"]]
    assert made.follow(pattern["detail"]["bucket"]["name"][0]) == made.follow(plan["bucket"])
    assert made.follow(to_mirror["arn"]) == project("mirror")
    mirrored, to_bootstrap = rule("mirrored")
    pattern = json.loads(mirrored["event_pattern"])["detail"]
    assert pattern["build-status"] == ["SUCCEEDED"]
    assert made.follow(pattern["project-name"][0]) == project("mirror")
    assert made.follow(to_bootstrap["arn"]) == project("bootstrap")
    role = made.follow(to_mirror["role_arn"])
    assert made.follow(to_bootstrap["role_arn"]) == role
    [policy] = [one for one in made.all("aws_iam_role_policy") if made.follow(one["role"]) == role]
    [statement] = policy.policy()
    assert statement["Action"] == ["codebuild:StartBuild"]
    assert {made.follow(arn)["name"] for arn in statement["Resource"]} == {SITE.named(name) for name in PROJECTS}


def test_failure_is_told():
    """Every end of a build but success goes to the topic, from both projects."""
    made = stack()
    failed, target = rule("bootstrap-failed")
    pattern = json.loads(failed["event_pattern"])["detail"]
    assert set(pattern["build-status"]) == {"FAILED", "FAULT", "STOPPED", "TIMED_OUT"}
    assert {made.follow(name)["name"] for name in pattern["project-name"]} == {SITE.named(name) for name in PROJECTS}
    assert made.follow(target["arn"]).kind == "aws_sns_topic"


def test_plan_comes_last():
    """The plan names the version of every other object, and waits for the rules and for the cluster's access entry."""
    made = stack()
    objects = made.all("aws_s3_object")
    [plan] = [one for one in objects if one["key"].endswith("plan.json")]
    named = {one.id for one in made.references(plan["content"])}
    assert named == {one.id for one in objects if one.id != plan.id}
    waits = {place.split(".")[0] for place in plan["depends_on"]}
    assert {"aws_cloudwatch_event_target", "aws_eks_access_entry"} <= waits


def test_objects_are_encrypted_by_our_key():
    """Values and manifests are encrypted with the key of the domain data."""
    made = stack()
    for one in made.all("aws_s3_object"):
        assert made.follow(one["kms_key_id"]).kind == "aws_kms_key"


def test_values_and_manifests_are_there():
    """Every release that is installed has its values in the bucket, and the pools have their manifests."""
    keys = {one["key"].removeprefix("bootstrap/") for one in stack().all("aws_s3_object")}
    on = {part.release for part in components(COMPONENTS) if part.chart.enabled and part.source is not None}
    manifests = {"manifests/node-classes.json", "manifests/node-pools.json"}
    assert keys == {f"values/{release}.json" for release in on} | manifests | {"plan.json"}


def test_references_reach_the_manifests():
    """D6, D3: the queue's name, subnets, groups and key in what is installed are those of Terraform's resources."""
    made = stack()
    by_key = {one["key"].removeprefix("bootstrap/"): json.loads(one["content"]) for one in made.all("aws_s3_object")}
    queue = by_key["values/karpenter.json"]["settings"]["interruptionQueue"]
    assert made.follow(queue).kind == "aws_sqs_queue"
    assert queue.endswith(".name}")
    [item] = by_key["manifests/node-classes.json"]["items"]
    assert [made.follow(term["id"]).kind for term in item["spec"]["subnetSelectorTerms"]] == ["aws_subnet"] * 2
    assert made.follow(item["spec"]["blockDeviceMappings"][0]["ebs"]["kmsKeyID"]).kind == "aws_kms_key"
    image = by_key["values/karpenter.json"]["controller"]["image"]["repository"]
    assert made.follow(image)["name"] == "karpenter/controller"


def test_own_chart_is_uploaded_where_there_is_one(tmp_path):
    """With a packaged chart, it and its values are in the bucket, under the name that the bootstrap looks for."""
    file = tmp_path / "eagle3.tgz"
    file.write_bytes(b"chart")
    objects = {one["key"]: one for one in stack(own_chart=str(file)).all("aws_s3_object")}
    assert objects["bootstrap/charts/eagle3-0.1.0.tgz"]["source"] == str(file)
    assert "bootstrap/values/eagle3.json" in objects
    assert "eagle3-0.1.0.tgz" in project("bootstrap", own_chart=str(file))["source"]["buildspec"]


def test_environment_holds_addresses_and_nothing_secret():
    """What differs between stacks comes in plain variables; the mirror has one for each repository."""
    made = stack()
    variables = {one["name"]: one["value"] for one in project("mirror")["environment"]["environment_variable"]}
    addressed = {made.follow(url)["name"] for name, url in variables.items() if name.startswith("REPOSITORY_")}
    assert addressed == set(mirrored_repositories(COMPONENTS))
    assert not any("SECRET" in name or "TOKEN" in name or "PASSWORD" in name for name in variables)
