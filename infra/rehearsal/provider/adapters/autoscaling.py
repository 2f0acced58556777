"""Application Auto Scaling: targets and policies."""

from __future__ import annotations

from infra.rehearsal.provider.adapter import Made, call, fill

_TARGET = {"ServiceNamespace": "{service_namespace}", "ScalableDimension": "{scalable_dimension}"}

RESOURCES = {
    "aws_appautoscaling_target": Made(
        service="application-autoscaling",
        create=fill("register_scalable_target"),
        id="{resource_id}",
        read=call("describe_scalable_targets", ResourceIds=["{resource_id}"], **_TARGET),
        found="ScalableTargets[0]",
        outputs={"arn": "ScalableTargetARN", "role_arn": "RoleARN"},
        update=[fill("register_scalable_target")],
        delete=call("deregister_scalable_target", ResourceId="{resource_id}", **_TARGET),
    ),
    "aws_appautoscaling_policy": Made(
        service="application-autoscaling",
        create=fill("put_scaling_policy", PolicyName="{name}"),
        id="{name}",
        read=call("describe_scaling_policies", PolicyNames=["{name}"], ResourceId="{resource_id}", **_TARGET),
        found="ScalingPolicies[0]",
        outputs={"arn": "PolicyARN", "alarm_arns": "Alarms[].AlarmARN"},
        update=[fill("put_scaling_policy", PolicyName="{name}")],
        delete=call("delete_scaling_policy", PolicyName="{name}", ResourceId="{resource_id}", **_TARGET),
    ),
}
