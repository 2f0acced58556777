"""The local AWS: clients by service, the facts of the account, calls with retries where AWS is slow to let go.

Knows no resource type. Invariant: the endpoint comes from AWS_ENDPOINT_URL and is never a host of AWS itself, so a
rehearsal cannot reach an account.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from eagle3.errors import ConfigError
from infra.rehearsal.provider import shapes

ENDPOINT = "AWS_ENDPOINT_URL"
_BUSY = ("DependencyViolation", "DeleteConflict", "ResourceInUse", "InUse", "OperationAborted", "Conflict")
_MISSING = ("NotFound", "NoSuch", "NonExistent", "Nonexistent", "DoesNotExist", "NotExist")
_UNIMPLEMENTED = ("not been implemented", "not yet implemented", "notimplemented", "unknownoperation")
_RETRY_S = 6.0


@dataclass(slots=True)
class Cloud:
    """One region of one account of the local AWS."""

    region: str
    endpoint: str
    account_id: str = "123456789012"
    partition: str = "aws"
    _clients: dict[str, Any] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _others: dict[str, Cloud] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, str]:
        """Fields that templates may use beside the attributes of a resource."""
        suffix = "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"
        facts = {"region": self.region, "partition": self.partition, "account_id": self.account_id}
        return {**facts, "dns_suffix": suffix}

    def token(self) -> str:
        """Seventeen random hexadecimal digits, as in AWS's ids."""
        return secrets.token_hex(9)[:17]

    def elsewhere(self, region: Any) -> Cloud:
        """The same account in another region; a resource may name one of its own."""
        if not isinstance(region, str) or region == self.region:
            return self
        with self._lock:
            if region not in self._others:
                self._others[region] = Cloud(region, self.endpoint, self.account_id, self.partition)
            return self._others[region]

    def client(self, service: str) -> Any:
        """boto3's client; one a service, made when first asked for."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = boto3.Session().client(
                    service,
                    region_name=self.region,
                    endpoint_url=self.endpoint,
                    aws_access_key_id="local",
                    aws_secret_access_key="local",  # noqa: S106 - the local AWS takes any
                    config=Config(
                        s3={"addressing_style": "path"},
                        retries={"total_max_attempts": 3},
                        request_checksum_calculation="when_required",
                        response_checksum_validation="when_required",
                        parameter_validation=True,
                    ),
                )
            return self._clients[service]

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """One operation; the answer without its metadata."""
        answer: dict[str, Any] = getattr(self.client(service), operation)(**parameters)
        answer.pop("ResponseMetadata", None)
        return answer

    def retried(self, service: str, operation: str, parameters: Mapping[str, Any]) -> None:
        """A removal: gone already is success; what is still in use is tried again for a few seconds."""
        deadline = time.monotonic() + _RETRY_S
        while True:
            try:
                self.call(service, operation, parameters)
            except ClientError as error:
                if is_missing(error):
                    return
                if not _is_busy(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.25)
            else:
                return

    def parameters(
        self,
        service: str,
        operation: str,
        given: Mapping[str, Any],
        state: Mapping[str, Any],
        omit: Collection[str] = (),
    ) -> dict[str, Any]:
        """The request: what is given, converted to the shapes of the members, and the rest from the state."""
        client = self.client(service)
        shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[operation]).input_shape
        if shape is None:
            return {}
        filled = shapes.structure(shape, state, {*given, *omit}) if state else {}
        for member, value in given.items():
            assert member in shape.members, f"{service} {operation} has no member {member}"
            converted = shapes.convert(shape.members[member], value)
            if isinstance(value, shapes.Exactly) or converted not in (None, "", [], {}):
                filled[member] = converted
        return filled


def cloud_at(endpoint: str | None, region: str) -> Cloud:
    """The local AWS at an endpoint."""
    host = urlsplit(endpoint or "").hostname
    if endpoint is None or host is None:
        raise ConfigError(
            f"{ENDPOINT} must be the URL of a local AWS, such as http://127.0.0.1:5000; got {endpoint!r}. "
            "This stand-in provider knows no account; use `eagle3 rehearse`, or the real provider"
        )
    if host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".aws")):
        raise ConfigError(f"{ENDPOINT} is a host of AWS ({host}); this stand-in provider works on a local AWS only")
    return Cloud(region=region, endpoint=endpoint, partition=_partition(region))


def is_missing(error: Exception) -> bool:
    """Whether an error says that the resource is not there."""
    code, text = error_code(error), str(error).lower()
    if code in ("ValidationException", "ValidationError"):  # SageMaker and others say it in words only
        return "could not find" in text or "does not exist" in text
    return code == "404" or any(word in code for word in _MISSING)


def is_unimplemented(error: Exception) -> bool:
    """Whether the local AWS does not know the operation at all."""
    if not isinstance(error, ClientError):
        return False
    status, text = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode"), str(error).lower()
    return status == 501 or any(word in text for word in _UNIMPLEMENTED)


def error_code(error: Exception) -> str:
    """AWS's code of an error, or the name of its class."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__


AWS_ERRORS = (ClientError, BotoCoreError)


def _is_busy(error: ClientError) -> bool:
    return any(word in error_code(error) for word in _BUSY)


def _partition(region: str) -> str:
    return {"cn": "aws-cn"}.get(region.split("-")[0], "aws-us-gov" if region.startswith("us-gov-") else "aws")
