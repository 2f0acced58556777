"""Keys and their aliases."""

from __future__ import annotations

from infra.rehearsal.provider.adapter import Made, call

_WINDOW_DAYS = 7  # the shortest that AWS allows, where the configuration says nothing

RESOURCES = {
    "aws_kms_key": Made(
        service="kms",
        create=call(
            "create_key",
            Description="{description}",
            KeyUsage="{key_usage}",
            KeySpec="{customer_master_key_spec}",
            MultiRegion="{multi_region}",
            Policy="{policy}",
            Tags="{tags_all}",
        ),
        id="KeyMetadata.KeyId",
        more=[call("enable_key_rotation", KeyId="{id}", when=["enable_key_rotation"])],
        read=call("describe_key", KeyId="{id}"),
        found="[KeyMetadata][?KeyState != 'PendingDeletion'] | [0]",
        outputs={"arn": "Arn", "key_id": "KeyId"},
        update=[
            call("put_key_policy", KeyId="{id}", PolicyName="default", Policy="{policy}", when=["policy"]),
            call("update_key_description", KeyId="{id}", Description="{description}", when=["description"]),
            call("tag_resource", KeyId="{id}", Tags="{tags_all}", when=["tags_all"]),
        ],
        delete=call(
            "schedule_key_deletion",
            KeyId="{id}",
            PendingWindowInDays=lambda state: state.get("deletion_window_in_days") or _WINDOW_DAYS,
        ),
    ),
    "aws_kms_alias": Made(
        service="kms",
        create=call("create_alias", AliasName="{name}", TargetKeyId="{target_key_id}"),
        id="{name}",
        read=call("describe_key", KeyId="{name}"),
        found="KeyMetadata",
        outputs={
            "arn": "arn:{partition}:kms:{region}:{account_id}:{name}",
            "target_key_arn": "Arn",
            "target_key_id": "KeyId",
        },
        update=[call("update_alias", AliasName="{name}", TargetKeyId="{target_key_id}")],
        delete=call("delete_alias", AliasName="{name}"),
    ),
}
