"""Asks a SageMaker endpoint (`sagemaker-runtime`), streamed or at once.

Knows no OpenAI client. Invariant: nothing but InvokeEndpoint is called unless it is refused, and then only reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from eagle3.errors import Eagle3Error
from eagle3.ops.ask.aws_fault import aws_fault, error_code
from eagle3.ops.ask.endpoint_clients import EndpointClients
from eagle3.ops.ask.endpoint_state import explained
from eagle3.ops.ask.event_lines import json_objects
from eagle3.ops.ask.question import Question
from eagle3.ops.ask.refusal import refusal

_JSON = "application/json"
_UNEXPLAINED = {"ValidationError", "ValidationException", "ServiceUnavailable", "InternalFailure"}


def ask_endpoint(clients: EndpointClients, name: str, question: Question) -> Iterator[Mapping[str, Any]]:
    """The server's objects as they come; errors say what is wrong with the endpoint, the account or the request."""
    doing = f"ask the endpoint {name} in {clients.region}"
    call = clients.runtime.invoke_endpoint_with_response_stream if question.stream else clients.runtime.invoke_endpoint
    try:
        response = call(
            EndpointName=name, Body=json.dumps(question.body()).encode(), ContentType=_JSON, Accept=_accept(question)
        )
    except Exception as error:
        raise _refused(clients, name, error, doing) from error
    body = response["Body"]
    taken = False
    try:
        for found in json_objects(_parts(body), content_type=response.get("ContentType") or ""):
            yield found
            taken = True
    except Eagle3Error:
        raise
    except Exception as error:
        raise aws_fault(error, doing, part=taken) from error
    finally:
        body.close()


def _accept(question: Question) -> str:
    return "text/event-stream" if question.stream else _JSON


def _parts(body: Any) -> Iterator[bytes]:
    """Bytes of an event stream, whose errors botocore raises, or of a plain body."""
    for part in body:
        yield part["PayloadPart"]["Bytes"] if isinstance(part, Mapping) else part


def _refused(clients: EndpointClients, name: str, error: Exception, doing: str) -> Eagle3Error:
    code = error_code(error)
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    status = response.get("OriginalStatusCode")
    if code == "ModelError" and status is not None:
        return refusal(int(status), response.get("OriginalMessage"))
    fault = aws_fault(error, doing)
    return explained(clients, name, fault) if code in _UNEXPLAINED else fault
