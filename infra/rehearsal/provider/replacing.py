"""Attributes that AWS cannot change in place: another value means another resource.

Facts of the real provider, which its schema does not tell; a dotted path leads into a block, "*" is every attribute
but the tags. A type that is not here follows the usual names. Invariant: `region` is one of them everywhere.
"""

from __future__ import annotations

from infra.rehearsal.provider.schema import Block

_USUAL = frozenset({"name", "name_prefix", "bucket", "bucket_prefix"})
_ALWAYS = frozenset({"region"})
_CHANGEABLE = frozenset({"tags", "tags_all", "timeouts", "id"})

_BY_TYPE = {
    "aws_appautoscaling_policy": "name resource_id scalable_dimension service_namespace",
    "aws_appautoscaling_target": "resource_id scalable_dimension service_namespace",
    "aws_budgets_budget": "account_id name name_prefix",
    "aws_ce_cost_allocation_tag": "",
    "aws_cloudfront_cache_policy": "",
    "aws_cloudfront_distribution": "staging",
    "aws_cloudfront_function": "name",
    "aws_cloudfront_monitoring_subscription": "distribution_id",
    "aws_cloudfront_response_headers_policy": "",
    "aws_cloudfront_vpc_origin": "",
    "aws_cloudtrail": "name",
    "aws_cloudwatch_composite_alarm": "actions_enabled alarm_name",
    "aws_cloudwatch_dashboard": "dashboard_name",
    "aws_cloudwatch_event_rule": "event_bus_name name name_prefix",
    "aws_cloudwatch_event_target": "event_bus_name rule target_id",
    "aws_cloudwatch_log_group": "log_group_class name name_prefix",
    "aws_cloudwatch_log_metric_filter": "log_group_name name",
    "aws_cloudwatch_log_resource_policy": "policy_name",
    "aws_cloudwatch_metric_alarm": "alarm_name",
    "aws_codebuild_project": "name",
    "aws_default_security_group": "vpc_id",
    "aws_ecr_lifecycle_policy": "repository",
    "aws_ecr_pull_through_cache_rule": "ecr_repository_prefix upstream_registry_url upstream_repository_prefix",
    "aws_ecr_repository": "encryption_configuration name",
    "aws_ecr_repository_policy": "repository",
    "aws_eip": "address domain ipam_pool_id network_border_group public_ipv4_pool",
    "aws_eks_access_entry": "cluster_name principal_arn type",
    "aws_eks_access_policy_association": (
        "access_scope.namespaces access_scope.type cluster_name policy_arn principal_arn"
    ),
    "aws_eks_addon": "addon_name cluster_name",
    "aws_eks_cluster": (
        "access_config.bootstrap_cluster_creator_admin_permissions bootstrap_self_managed_addons "
        "compute_config.node_role_arn kubernetes_network_config.ip_family "
        "kubernetes_network_config.service_ipv4_cidr name outpost_config remote_network_config role_arn"
    ),
    "aws_eks_node_group": (
        "ami_type capacity_type cluster_name disk_size instance_types launch_template.id launch_template.name "
        "node_group_name node_group_name_prefix node_role_arn remote_access subnet_ids"
    ),
    "aws_eks_pod_identity_association": "cluster_name namespace service_account",
    "aws_flow_log": (
        "deliver_cross_account_role destination_options eni_id iam_role_arn log_destination "
        "log_destination_type log_format max_aggregation_interval subnet_id traffic_type "
        "transit_gateway_attachment_id transit_gateway_id vpc_id"
    ),
    "aws_iam_instance_profile": "name name_prefix path",
    "aws_iam_policy": "description name name_prefix path",
    "aws_iam_role": "name name_prefix path",
    "aws_iam_role_policy": "name name_prefix role",
    "aws_iam_role_policy_attachment": "policy_arn role",
    "aws_internet_gateway": "",
    "aws_kms_alias": "name name_prefix",
    "aws_kms_grant": (
        "constraints grant_creation_tokens grantee_principal key_id name operations retire_on_delete retiring_principal"
    ),
    "aws_kms_key": "custom_key_store_id customer_master_key_spec key_usage multi_region xks_key_id",
    "aws_launch_template": "name name_prefix",
    "aws_lb": "customer_owned_ipv4_pool internal load_balancer_type name name_prefix",
    "aws_lb_listener": "load_balancer_arn",
    "aws_lb_listener_rule": "listener_arn",
    "aws_lb_target_group": "ip_address_type name name_prefix port protocol protocol_version target_type vpc_id",
    "aws_nat_gateway": "allocation_id connectivity_type private_ip subnet_id",
    "aws_placement_group": "name partition_count spread_level strategy",
    "aws_route": "destination_cidr_block destination_ipv6_cidr_block destination_prefix_list_id route_table_id",
    "aws_route_table": "vpc_id",
    # The real provider changes route_table_id in place, but the id changes with it.
    "aws_route_table_association": "gateway_id route_table_id subnet_id",
    "aws_s3_bucket": "bucket bucket_prefix object_lock_enabled",
    "aws_s3_bucket_acl": "bucket expected_bucket_owner",
    "aws_s3_bucket_intelligent_tiering_configuration": "bucket name",
    "aws_s3_bucket_lifecycle_configuration": "bucket expected_bucket_owner",
    "aws_s3_bucket_logging": "bucket expected_bucket_owner",
    "aws_s3_bucket_notification": "bucket",
    "aws_s3_bucket_ownership_controls": "bucket",
    "aws_s3_bucket_policy": "bucket",
    "aws_s3_bucket_public_access_block": "bucket",
    "aws_s3_bucket_server_side_encryption_configuration": "bucket expected_bucket_owner",
    "aws_s3_bucket_versioning": "bucket expected_bucket_owner",
    "aws_s3_object": "bucket key",
    "aws_sagemaker_endpoint": "name",
    "aws_sagemaker_endpoint_configuration": "*",
    "aws_sagemaker_model": "*",
    "aws_secretsmanager_secret": "name name_prefix",
    "aws_security_group": "description name name_prefix vpc_id",
    "aws_sns_topic": "fifo_topic name name_prefix",
    "aws_sns_topic_policy": "arn",
    "aws_sns_topic_subscription": "endpoint protocol topic_arn",
    "aws_sqs_queue": "fifo_queue name name_prefix",
    "aws_sqs_queue_policy": "queue_url",
    "aws_ssm_parameter": "data_type name",
    "aws_subnet": "availability_zone availability_zone_id cidr_block ipv6_native outpost_arn vpc_id",
    "aws_vpc": "cidr_block instance_tenancy ipv4_ipam_pool_id ipv4_netmask_length",
    "aws_vpc_endpoint": (
        "resource_configuration_arn service_name service_network_arn service_region vpc_endpoint_type vpc_id"
    ),
    "aws_vpc_security_group_egress_rule": "security_group_id",
    "aws_vpc_security_group_ingress_rule": "security_group_id",
    "aws_wafv2_ip_set": "ip_address_version name name_prefix scope",
    "aws_wafv2_web_acl": "name name_prefix scope",
    "aws_wafv2_web_acl_logging_configuration": "log_destination_configs resource_arn",
}


def immutable(type_: str, block: Block) -> frozenset[str]:
    """Names, or dotted paths into blocks, that the body has."""
    members = block.attributes.keys() | block.blocks.keys()
    listed = _BY_TYPE.get(type_)
    if listed is None:
        wanted = _USUAL
    elif listed == "*":
        wanted = frozenset(members) - _CHANGEABLE
    else:
        wanted = frozenset(listed.split())
    return frozenset(path for path in wanted | _ALWAYS if path.split(".")[0] in members)
