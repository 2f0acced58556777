"""Where `moto` refuses what AWS takes, or forgets what AWS keeps, closed inside the process of the local AWS.

Each gap is closed for every provider alike. Knows internals of moto, and nothing of our stacks. Invariant: nothing is
allowed here that AWS refuses for the shape of a request; what rights a caller has is no subject of a rehearsal.
"""

from __future__ import annotations

import importlib
from typing import Any

import botocore.session

from infra.rehearsal.moto_answers import keep_endpoint_settings, keep_log_class, keep_rule_descriptions
from infra.rehearsal.moto_operations import add_budget_operations, add_target_tags


def close_gaps() -> None:
    """Close them all; before the first request."""
    _take_current_instance_types(importlib.import_module("moto.sagemaker.models"))
    _skip_bucket_policies(importlib.import_module("moto.s3.models"), importlib.import_module("moto.iam.access_control"))
    _delete_network_acls(importlib.import_module("moto.ec2.models.vpcs"))
    _delete_nat_interfaces(importlib.import_module("moto.ec2.models.nat_gateways"))
    _delete_trails_by_arn(importlib.import_module("moto.cloudtrail.models"))
    _know_certificates(importlib.import_module("moto.elbv2.models"))
    keep_endpoint_settings(importlib.import_module("moto.sagemaker.responses"))
    keep_log_class(importlib.import_module("moto.logs.models"))
    keep_rule_descriptions(importlib.import_module("moto.ec2.models.security_groups"))
    add_budget_operations(importlib.import_module("moto.budgets.responses"))
    add_target_tags(importlib.import_module("moto.applicationautoscaling.responses"))
    _build_without_source(importlib.import_module("moto.codebuild.responses"))


def _take_current_instance_types(models: Any) -> None:
    """Endpoints take the instance types that the AWS SDK lists: moto's own table ends before ml.g5."""
    service = botocore.session.Session().get_service_model("sagemaker")
    types = frozenset(service.shape_for("ProductionVariantInstanceType").enum)

    def validate_instance_type(self: Any, instance_type: str) -> None:
        if instance_type not in types:
            raise models.ValidationError(message=f"Value '{instance_type}' at 'instanceType' is no instance type")

    models.FakeEndpointConfig.validate_instance_type = validate_instance_type


def _skip_bucket_policies(models: Any, access_control: Any) -> None:
    """Objects are put whatever the bucket's policy: moto takes a denial whose condition does not hold for one."""

    def get_permission(self: Any, action: str, resource: str) -> Any:
        return access_control.PermissionResult.NEUTRAL

    models.FakeBucket.get_permission = get_permission


def _delete_network_acls(models: Any) -> None:
    """A VPC takes its default network ACL with it."""
    delete = models.VPCBackend.delete_vpc

    def delete_vpc(self: Any, vpc_id: str) -> Any:
        deleted = delete(self, vpc_id)
        for acl in [acl for acl in self.network_acls.values() if acl.vpc_id == vpc_id]:
            del self.network_acls[acl.id]
        return deleted

    models.VPCBackend.delete_vpc = delete_vpc


def _delete_nat_interfaces(models: Any) -> None:
    """A NAT gateway takes its network interface with it."""
    delete = models.NatGatewayBackend.delete_nat_gateway

    def delete_nat_gateway(self: Any, nat_gateway_id: str) -> Any:
        deleted = delete(self, nat_gateway_id)
        self.enis.pop(deleted._eni.id, None)
        return deleted

    models.NatGatewayBackend.delete_nat_gateway = delete_nat_gateway


def _delete_trails_by_arn(models: Any) -> None:
    """A trail can be deleted by its ARN as well as by its name."""
    delete = models.CloudTrailBackend.delete_trail

    def delete_trail(self: Any, name: str) -> None:
        delete(self, name.rpartition("/")[2])

    models.CloudTrailBackend.delete_trail = delete_trail


def _know_certificates(models: Any) -> None:
    """Listeners take the certificates that settings name: they are made before a stack, and outside of it."""

    def register_certificate(**kwargs: Any) -> None:
        return None

    def certificate_exists(self: Any, certificate_arn: str) -> bool:
        return True

    models.register_certificate = register_certificate
    models.ELBv2Backend._certificate_exists = certificate_exists


def _build_without_source(responses: Any) -> None:
    """Projects of the types NO_SOURCE and CODEPIPELINE need no location."""
    validate = responses._validate_required_params_source

    def validate_source(source: dict[str, Any]) -> None:
        unplaced = source.get("type") in ("NO_SOURCE", "CODEPIPELINE")
        validate({"location": "-", **source} if unplaced else source)

    responses._validate_required_params_source = validate_source
