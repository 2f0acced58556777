"""Networks: VPC, subnets, gateways, routes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.provider.adapter import Call, Made, call, fill
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.ec2_tags import RETAG, tagged
from infra.rehearsal.provider.templates import State

_DESTINATIONS = ("destination_cidr_block", "destination_ipv6_cidr_block", "destination_prefix_list_id")


def _vpc_setting(attribute: str, member: str) -> Call:
    params: dict[str, Any] = {"VpcId": "{id}", member: {"Value": f"{{{attribute}}}"}}
    return Call(operation="modify_vpc_attribute", params=params, when=frozenset({attribute}))


def _subnet_setting(attribute: str, member: str) -> Call:
    params: dict[str, Any] = {"SubnetId": "{id}", member: {"Value": f"{{{attribute}}}"}}
    return Call(operation="modify_subnet_attribute", params=params, when=frozenset({attribute}))


def _default_of_vpc(operation: str, found: str) -> Any:
    """A function that finds what AWS makes together with a VPC."""

    def find(cloud: Cloud, state: State) -> Any:
        filters = [{"Name": "vpc-id", "Values": [state["id"]]}]
        answer = cloud.call("ec2", operation, {"Filters": filters})
        [items] = answer.values()
        return next((item[found] for item in items if _is_default(item)), None)

    return find


def _is_default(item: Mapping[str, Any]) -> bool:
    main = any(each.get("Main") for each in item.get("Associations", []))
    return main or bool(item.get("IsDefault")) or item.get("GroupName") == "default"


def _detach_gateway(cloud: Cloud, state: State) -> None:
    if state.get("vpc_id"):
        parameters = {"InternetGatewayId": state["id"], "VpcId": state["vpc_id"]}
        cloud.retried("ec2", "detach_internet_gateway", parameters)


def _route(answer: Mapping[str, Any], state: State) -> Any:
    """The route to the destination that the resource has, in the answer about its table."""
    wanted = {name.replace("_", ""): state[name] for name in _DESTINATIONS if state.get(name)}
    for table in answer["RouteTables"]:
        for route in table["Routes"]:
            if wanted.items() <= {name.lower(): value for name, value in route.items()}.items():
                return route
    return None


def _route_id(cloud: Cloud, state: State) -> str:
    destination = next(state[name] for name in _DESTINATIONS if state.get(name))
    return f"r-{state['route_table_id']}-{destination}"


_TABLE_ROUTE = {
    "RouteTableId": "{id}",
    "DestinationCidrBlock": "{cidr_block}",
    "GatewayId": "{gateway_id}",
    "NatGatewayId": "{nat_gateway_id}",
    "VpcPeeringConnectionId": "{vpc_peering_connection_id}",
    "TransitGatewayId": "{transit_gateway_id}",
}

RESOURCES = {
    "aws_vpc": Made(
        service="ec2",
        create=fill("create_vpc", TagSpecifications=tagged("vpc")),
        id="Vpc.VpcId",
        more=[
            _vpc_setting("enable_dns_support", "EnableDnsSupport"),
            _vpc_setting("enable_dns_hostnames", "EnableDnsHostnames"),
        ],
        read=call("describe_vpcs", VpcIds=["{id}"]),
        found="Vpcs[0]",
        outputs={
            "arn": "arn:{partition}:ec2:{region}:{account_id}:vpc/{id}",
            "owner_id": "{account_id}",
            "main_route_table_id": _default_of_vpc("describe_route_tables", "RouteTableId"),
            "default_route_table_id": _default_of_vpc("describe_route_tables", "RouteTableId"),
            "default_network_acl_id": _default_of_vpc("describe_network_acls", "NetworkAclId"),
            "default_security_group_id": _default_of_vpc("describe_security_groups", "GroupId"),
        },
        update=[
            _vpc_setting("enable_dns_support", "EnableDnsSupport"),
            _vpc_setting("enable_dns_hostnames", "EnableDnsHostnames"),
            RETAG,
        ],
        delete=call("delete_vpc", VpcId="{id}"),
    ),
    "aws_subnet": Made(
        service="ec2",
        create=fill("create_subnet", TagSpecifications=tagged("subnet")),
        id="Subnet.SubnetId",
        more=[_subnet_setting("map_public_ip_on_launch", "MapPublicIpOnLaunch")],
        read=call("describe_subnets", SubnetIds=["{id}"]),
        found="Subnets[0]",
        outputs={"arn": "SubnetArn"},
        update=[_subnet_setting("map_public_ip_on_launch", "MapPublicIpOnLaunch"), RETAG],
        delete=call("delete_subnet", SubnetId="{id}"),
    ),
    "aws_internet_gateway": Made(
        service="ec2",
        create=call("create_internet_gateway", TagSpecifications=tagged("internet-gateway")),
        id="InternetGateway.InternetGatewayId",
        more=[call("attach_internet_gateway", InternetGatewayId="{id}", VpcId="{vpc_id}", when=["vpc_id"])],
        read=call("describe_internet_gateways", InternetGatewayIds=["{id}"]),
        found="InternetGateways[0]",
        outputs={
            "arn": "arn:{partition}:ec2:{region}:{account_id}:internet-gateway/{id}",
            "owner_id": "{account_id}",
            "vpc_id": "Attachments[0].VpcId",
        },
        update=[RETAG],
        before_delete=_detach_gateway,
        delete=call("delete_internet_gateway", InternetGatewayId="{id}"),
    ),
    "aws_eip": Made(
        service="ec2",
        create=call("allocate_address", Domain="{domain}", TagSpecifications=tagged("elastic-ip")),
        id="AllocationId",
        read=call("describe_addresses", AllocationIds=["{id}"]),
        found="Addresses[0]",
        outputs={"arn": "arn:{partition}:ec2:{region}:{account_id}:elastic-ip/{id}"},
        update=[RETAG],
        delete=call("release_address", AllocationId="{id}"),
    ),
    "aws_nat_gateway": Made(
        service="ec2",
        create=call(
            "create_nat_gateway",
            SubnetId="{subnet_id}",
            AllocationId="{allocation_id}",
            ConnectivityType="{connectivity_type}",
            TagSpecifications=tagged("natgateway"),
        ),
        id="NatGateway.NatGatewayId",
        read=call("describe_nat_gateways", NatGatewayIds=["{id}"]),
        found="NatGateways[?State != 'deleted'] | [0]",
        outputs={
            "public_ip": "NatGatewayAddresses[0].PublicIp",
            "private_ip": "NatGatewayAddresses[0].PrivateIp",
            "network_interface_id": "NatGatewayAddresses[0].NetworkInterfaceId",
        },
        update=[RETAG],
        delete=call("delete_nat_gateway", NatGatewayId="{id}"),
    ),
    "aws_route_table": Made(
        service="ec2",
        create=call("create_route_table", VpcId="{vpc_id}", TagSpecifications=tagged("route-table")),
        id="RouteTable.RouteTableId",
        more=[call("create_route", each="route", **_TABLE_ROUTE)],
        read=call("describe_route_tables", RouteTableIds=["{id}"]),
        found="RouteTables[0]",
        outputs={
            "arn": "arn:{partition}:ec2:{region}:{account_id}:route-table/{id}",
            "owner_id": "{account_id}",
        },
        update=[RETAG],
        delete=call("delete_route_table", RouteTableId="{id}"),
    ),
    "aws_route": Made(
        service="ec2",
        create=fill("create_route"),
        id=_route_id,
        read=call("describe_route_tables", RouteTableIds=["{route_table_id}"]),
        found=_route,
        update=[fill("replace_route")],
        delete=fill("delete_route"),
    ),
    "aws_route_table_association": Made(
        service="ec2",
        create=fill("associate_route_table"),
        id="AssociationId",
        read=call(
            "describe_route_tables",
            Filters=[{"Name": "association.route-table-association-id", "Values": ["{id}"]}],
        ),
        found="RouteTables[0]",
        delete=call("disassociate_route_table", AssociationId="{id}"),
    ),
}
