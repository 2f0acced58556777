"""What `moto` takes and then forgets: the real provider reads it back, and would plan to change it again.

Knows internals of moto, and nothing of our stacks. Runs inside the process of the local AWS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def keep_endpoint_settings(responses: Any) -> None:
    """SageMaker's isolation of models and deployment of endpoints; an endpoint can get another configuration."""
    kind = responses.SageMakerResponse
    create_model_before, create_endpoint_before = kind.create_model, kind.create_endpoint

    def create_model(self: Any) -> Any:
        answer = create_model_before(self)
        model = self.sagemaker_backend.describe_model(self._get_param("ModelName"))
        model.enable_network_isolation = bool(self._get_param("EnableNetworkIsolation"))
        return answer

    def create_endpoint(self: Any) -> Any:
        answer = create_endpoint_before(self)
        endpoint = self.sagemaker_backend.endpoints[self._get_param("EndpointName")]
        endpoint.last_deployment_config = self._get_param("DeploymentConfig")
        return answer

    def update_endpoint(self: Any) -> Any:
        backend, name = self.sagemaker_backend, self._get_param("EndpointName")
        backend.describe_endpoint(name)  # raises if there is none
        config = backend.describe_endpoint_config(self._get_param("EndpointConfigName"))
        endpoint = backend.endpoints[name]
        endpoint.endpoint_config_name = config["EndpointConfigName"]
        endpoint.production_variants = endpoint._process_production_variants(config["ProductionVariants"])
        endpoint.last_deployment_config = self._get_param("DeploymentConfig") or endpoint.last_deployment_config
        return responses.ActionResult({"EndpointArn": endpoint.arn})

    def describe_endpoint_config(self: Any) -> Any:
        found = self.sagemaker_backend.describe_endpoint_config(self._get_param("EndpointConfigName"))
        # Capture that was never asked for is not answered.
        return responses.ActionResult({k: value for k, value in found.items() if k != "DataCaptureConfig" or value})

    for operation in (create_model, create_endpoint, update_endpoint, describe_endpoint_config):
        setattr(kind, operation.__name__, operation)


def keep_log_class(models: Any) -> None:
    """Log groups have a class."""
    before = models.LogGroup.to_describe_dict

    def to_describe_dict(self: Any) -> dict[str, Any]:
        return {"logGroupClass": "STANDARD", **before(self)}

    models.LogGroup.to_describe_dict = to_describe_dict


def keep_rule_descriptions(models: Any) -> None:
    """Rules for security groups and prefix lists have descriptions too, not those for addresses only."""
    kind = models.SecurityGroupRule
    before = kind.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        peers = [value for value in (*args, *kwargs.values()) if isinstance(value, Mapping)]
        self._description = next((peer["Description"] for peer in peers if peer.get("Description")), None)

    kind.__init__ = init
    kind.description = property(lambda self: self._description)
