"""VPC endpoints, flow logs, launch templates; zones and prefix lists as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Made, call, fill
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.ec2_tags import RETAG, tagged
from infra.rehearsal.provider.templates import State


def _template(state: State) -> dict[str, Any]:
    """What a launch template says, without what is said about the template itself."""
    about = ("name", "name_prefix", "tags", "tags_all", "description", "id", "arn", "region")
    data = {name: value for name, value in state.items() if name not in about}
    # One name for two members: with a VPC, groups are given by id.
    data["security_group_ids"] = data.pop("vpc_security_group_ids", None)
    return data


def _destination(state: State) -> Any:
    """Where flow logs go. AWS takes a bucket with a folder; the local AWS looks for a bucket of the whole name."""
    target = state.get("log_destination")
    return target.split("/")[0] if target and state.get("log_destination_type") == "s3" else target


def _zones(cloud: Cloud, config: State) -> Mapping[str, Any]:
    filters = [{"Name": each["name"], "Values": each["values"]} for each in config.get("filter") or []]
    zones = cloud.call("ec2", "describe_availability_zones", {"Filters": filters})["AvailabilityZones"]
    kept = [
        zone
        for zone in zones
        if config.get("state") in (None, zone["State"])
        and zone["ZoneName"] not in (config.get("exclude_names") or [])
        and zone["ZoneId"] not in (config.get("exclude_zone_ids") or [])
    ]
    return {
        "id": cloud.region,
        "names": [zone["ZoneName"] for zone in kept],
        "zone_ids": [zone["ZoneId"] for zone in kept],
        "group_names": sorted({zone["GroupName"] for zone in kept if "GroupName" in zone}),
    }


def _prefix_list_of_service(cloud: Cloud, state: State) -> str | None:
    """The addresses that the route of a gateway endpoint leads to."""
    if state.get("vpc_endpoint_type") != "Gateway":
        return None
    found = cloud.call("ec2", "describe_managed_prefix_lists", {})["PrefixLists"]
    return next((each["PrefixListId"] for each in found if each["PrefixListName"] == state["service_name"]), None)


def _prefix_list(cloud: Cloud, config: State) -> Mapping[str, Any]:
    filters = [{"Name": each["name"], "Values": each["values"]} for each in config.get("filter") or []]
    if config.get("name"):
        filters.append({"Name": "prefix-list-name", "Values": [config["name"]]})
    request: dict[str, Any] = {"Filters": filters}
    if config.get("id"):
        request["PrefixListIds"] = [config["id"]]
    found = cloud.call("ec2", "describe_managed_prefix_lists", request)["PrefixLists"]
    named = [each for each in found if config.get("name") in (None, each["PrefixListName"])]
    if len(named) != 1:
        raise LookupError(
            f"{len(named)} managed prefix lists match {config.get('name') or config.get('id')!r}, not one"
        )
    return {
        "id": named[0]["PrefixListId"],
        "arn": named[0]["PrefixListArn"],
        "name": named[0]["PrefixListName"],
        "address_family": named[0].get("AddressFamily"),
        "max_entries": named[0].get("MaxEntries"),
        "owner_id": named[0].get("OwnerId"),
        "version": named[0].get("Version"),
        "entries": [],
    }


RESOURCES = {
    "aws_vpc_endpoint": Made(
        service="ec2",
        create=fill("create_vpc_endpoint", PolicyDocument="{policy}", TagSpecifications=tagged("vpc-endpoint")),
        id="VpcEndpoint.VpcEndpointId",
        read=call("describe_vpc_endpoints", VpcEndpointIds=["{id}"]),
        found="VpcEndpoints[0]",
        outputs={
            "arn": "arn:{partition}:ec2:{region}:{account_id}:vpc-endpoint/{id}",
            "owner_id": "{account_id}",
            "dns_entry": "DnsEntries",
            "policy": "PolicyDocument",
            "security_group_ids": "Groups[].GroupId",
            "prefix_list_id": _prefix_list_of_service,
        },
        update=[
            call("modify_vpc_endpoint", VpcEndpointId="{id}", PolicyDocument="{policy}", when=["policy"]),
            RETAG,
        ],
        delete=call("delete_vpc_endpoints", VpcEndpointIds=["{id}"]),
    ),
    "aws_flow_log": Made(
        service="ec2",
        create=call(
            "create_flow_logs",
            ResourceIds=lambda state: [state[name] for name in ("vpc_id", "subnet_id", "eni_id") if state.get(name)],
            ResourceType=lambda state: (
                "VPC" if state.get("vpc_id") else "Subnet" if state.get("subnet_id") else "NetworkInterface"
            ),
            TrafficType="{traffic_type}",
            LogDestinationType="{log_destination_type}",
            LogDestination=_destination,
            LogFormat="{log_format}",
            DeliverLogsPermissionArn="{iam_role_arn}",
            MaxAggregationInterval="{max_aggregation_interval}",
            DestinationOptions="{destination_options}",
            TagSpecifications=tagged("vpc-flow-log"),
        ),
        id="FlowLogIds[0]",
        read=call("describe_flow_logs", FlowLogIds=["{id}"]),
        found="FlowLogs[0]",
        outputs={"arn": "arn:{partition}:ec2:{region}:{account_id}:vpc-flow-log/{id}"},
        update=[RETAG],
        delete=call("delete_flow_logs", FlowLogIds=["{id}"]),
    ),
    "aws_launch_template": Made(
        service="ec2",
        create=call(
            "create_launch_template",
            LaunchTemplateName="{name}",
            VersionDescription="{description}",
            LaunchTemplateData=_template,
            TagSpecifications=tagged("launch-template"),
        ),
        id="LaunchTemplate.LaunchTemplateId",
        read=call("describe_launch_templates", LaunchTemplateIds=["{id}"]),
        found="LaunchTemplates[0]",
        outputs={
            "arn": "arn:{partition}:ec2:{region}:{account_id}:launch-template/{id}",
            "latest_version": "LatestVersionNumber",
            "default_version": "DefaultVersionNumber",
        },
        update=[
            call(
                "create_launch_template_version",
                LaunchTemplateId="{id}",
                VersionDescription="{description}",
                LaunchTemplateData=_template,
            ),
            RETAG,
        ],
        delete=call("delete_launch_template", LaunchTemplateId="{id}"),
        volatile=frozenset({"latest_version"}),
    ),
}

DATA = {"aws_availability_zones": _zones, "aws_ec2_managed_prefix_list": _prefix_list}
