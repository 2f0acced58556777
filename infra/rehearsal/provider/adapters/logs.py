"""Log groups and trails."""

from __future__ import annotations

from typing import Any

from infra.rehearsal.provider.adapter import Made, call, fill
from infra.rehearsal.provider.cloud import Cloud
from infra.rehearsal.provider.templates import State


def _switch(cloud: Cloud, prior: State, state: State) -> None:
    """A trail records unless the configuration says otherwise."""
    operation = "stop_logging" if state.get("enable_logging") is False else "start_logging"
    cloud.call("cloudtrail", operation, {"Name": state["name"]})


def _selectors(state: State) -> Any:
    """Event selectors; a selector's data resources are values under a type."""
    return [
        {
            "ReadWriteType": block.get("read_write_type"),
            "IncludeManagementEvents": block.get("include_management_events"),
            "DataResources": [{"Type": each["type"], "Values": each["values"]} for each in block["data_resource"]],
        }
        for block in state.get("event_selector") or []
    ] or None


_SELECT = call("put_event_selectors", TrailName="{name}", EventSelectors=_selectors, when=["event_selector"])

RESOURCES = {
    "aws_cloudwatch_log_group": Made(
        service="logs",
        create=call(
            "create_log_group",
            logGroupName="{name}",
            kmsKeyId="{kms_key_id}",
            logGroupClass="{log_group_class}",
            tags="{tags_all}",
        ),
        id="{name}",
        more=[
            call(
                "put_retention_policy",
                logGroupName="{name}",
                retentionInDays="{retention_in_days}",
                when=["retention_in_days"],
            )
        ],
        read=call("describe_log_groups", logGroupNamePrefix="{id}"),
        found=lambda answer, state: next(
            (group for group in answer["logGroups"] if group["logGroupName"] == state["id"]), None
        ),
        # The ARN that Terraform shows is that of the group, without the ":*" for its streams.
        outputs={"arn": "arn:{partition}:logs:{region}:{account_id}:log-group:{id}"},
        update=[
            call(
                "put_retention_policy",
                logGroupName="{name}",
                retentionInDays="{retention_in_days}",
                when=["retention_in_days"],
            ),
            call("tag_log_group", logGroupName="{id}", tags="{tags_all}", when=["tags_all"]),
        ],
        delete=call("delete_log_group", logGroupName="{id}"),
    ),
    "aws_cloudtrail": Made(
        service="cloudtrail",
        create=fill("create_trail"),
        id="TrailARN",
        more=[_switch, _SELECT],
        read=call("get_trail", Name="{name}"),
        found="Trail",
        outputs={"arn": "TrailARN", "home_region": "HomeRegion"},
        update=[
            fill("update_trail"),
            _switch,
            _SELECT,
            call("add_tags", ResourceId="{id}", TagsList="{tags_all}", when=["tags_all"]),
        ],
        delete=call("delete_trail", Name="{name}"),
    ),
}
