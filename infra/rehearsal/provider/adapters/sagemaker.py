"""Models, endpoint configurations, endpoints."""

from __future__ import annotations

from infra.rehearsal.provider.adapter import Made, call, fill

_TAGS = call("add_tags", ResourceArn="{arn}", Tags="{tags_all}", when=["tags_all"])

RESOURCES = {
    "aws_sagemaker_model": Made(
        service="sagemaker",
        create=fill("create_model", ModelName="{name}"),
        id="{name}",
        read=call("describe_model", ModelName="{id}"),
        outputs={"arn": "ModelArn"},
        update=[_TAGS],
        delete=call("delete_model", ModelName="{id}"),
    ),
    "aws_sagemaker_endpoint_configuration": Made(
        service="sagemaker",
        create=fill("create_endpoint_config", EndpointConfigName="{name}", KmsKeyId="{kms_key_arn}"),
        id="{name}",
        read=call("describe_endpoint_config", EndpointConfigName="{id}"),
        outputs={"arn": "EndpointConfigArn"},
        update=[_TAGS],
        delete=call("delete_endpoint_config", EndpointConfigName="{id}"),
    ),
    "aws_sagemaker_endpoint": Made(
        service="sagemaker",
        create=fill("create_endpoint", EndpointName="{name}"),
        id="{name}",
        read=call("describe_endpoint", EndpointName="{id}"),
        outputs={"arn": "EndpointArn"},
        update=[
            _TAGS,
            fill("update_endpoint", EndpointName="{id}", when=["endpoint_config_name", "deployment_config"]),
        ],
        delete=call("delete_endpoint", EndpointName="{id}"),
    ),
}
