"""Why an endpoint does not take a question: there is none, it is not ready yet, has failed, or is asynchronous.

Asked only after a question was refused, so that asking needs no permission but InvokeEndpoint. Reads, never changes.
Invariant: what could not be looked at is said, and the refusal itself is never lost.
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from eagle3.errors import Eagle3Error, EngineUnavailableError, InvalidInputError
from eagle3.ops.ask.aws_fault import error_code
from eagle3.ops.ask.endpoint_clients import EndpointClients

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_ANSWERS = {"InService", "Updating", "SystemUpdating", "RollingBack"}
_LATER = {
    "Creating": "is still being created; wait until it is InService (ten minutes and more with a GPU)",
    "Deleting": "is being deleted",
    "OutOfService": "is out of service and must be deployed again",
}
_SHOWN = 5


def checked_name(name: str) -> str:
    """A name that an endpoint can have; InvalidInputError for any other."""
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"--endpoint: {name!r} is no endpoint's name; letters, digits and hyphens, 63 at most")
    return name


def explained(clients: EndpointClients, name: str, refused: Eagle3Error) -> Eagle3Error:
    """The refusal, or what its cause is where the endpoint's state shows one."""
    try:
        found = clients.control.describe_endpoint(EndpointName=name)
    except Exception as error:
        code = error_code(error)
        if code == "ValidationException":
            return InvalidInputError(f"no endpoint {name} in {clients.region}; {_nearest(clients, name)}")
        seen = f"{refused} (and its state could not be looked at: {code or type(error).__name__})"
        return type(refused)(seen) if type(refused) in (InvalidInputError, EngineUnavailableError) else refused
    status = str(found.get("EndpointStatus"))
    if status in _LATER:
        return InvalidInputError(f"the endpoint {name} {_LATER[status]} (status {status})")
    if status not in _ANSWERS:
        reason = found.get("FailureReason") or "no reason given"
        return EngineUnavailableError(f"the endpoint {name} is {status}: {reason}")
    if found.get("AsyncInferenceConfig"):
        return InvalidInputError(
            f"the endpoint {name} is asynchronous and answers into a bucket: put the request into the stack's output "
            f"RequestFolder and call invoke_endpoint_async"
        )
    return refused


def _nearest(clients: EndpointClients, name: str) -> str:
    try:
        pages = clients.control.get_paginator("list_endpoints").paginate(PaginationConfig={"MaxItems": 500})
        names: list[Any] = [endpoint["EndpointName"] for page in pages for endpoint in page["Endpoints"]]
    except Exception as error:
        return f"which ones there are could not be looked at ({error_code(error) or type(error).__name__})"
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    shown = ", ".join(sorted(names)[:_SHOWN])
    return f"there are: {shown}" if names else "there is none; see --region and --profile"
