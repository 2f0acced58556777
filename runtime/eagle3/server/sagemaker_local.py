"""The two routes of SageMaker's runtime API, so that boto3 works with `endpoint_url` set to this server.

On AWS that API stands in front of the container; here it is the server's own. Signatures are not checked: access is
what the server's API keys say. Knows no endpoints: any valid name is this one.
Invariant: what the container refuses comes out as ModelError (424) with its status and body, as on AWS.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from eagle3.errors import Eagle3Error
from eagle3.server import chat, completions
from eagle3.server.answering import client_gone
from eagle3.server.aws_event_stream import CONTENT_TYPE, payload_parts
from eagle3.server.disconnect import ClientGoneError
from eagle3.server.errors import error_body, reject_reason
from eagle3.server.gateway import Gateway
from eagle3.server.openai_requests import ChatRequest, CompletionRequest
from eagle3.server.openai_responses import ChatCompletion, Completion
from eagle3.server.openapi_docs import answers_with, body_of
from eagle3.server.request_headers import ATTRIBUTES_HEADER
from eagle3.server.sagemaker import invoke
from eagle3.server.sse import StreamedResponse

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
_MAX_NAME = 63
_VARIANT = {"x-Amzn-Invoked-Production-Variant": "AllTraffic"}
_STREAM_CONTENT_TYPE = "X-Amzn-SageMaker-Content-Type"
_STREAM_ACCEPT = "X-Amzn-SageMaker-Accept"
_EXAMPLES = completions.EXAMPLES | chat.EXAMPLES
_PARTS: dict[int | str, dict[str, Any]] = {200: {"description": "PayloadPart events", "content": {CONTENT_TYPE: {}}}}
_ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"description": "ValidationError: no such endpoint name"},
    401: {"description": "No API key, or an unknown one"},
    408: {"description": "The body came too slowly"},
    413: {"description": "The body is too large"},
    424: {"description": "ModelError: the model's refusal, with OriginalStatusCode and OriginalMessage"},
}


def sagemaker_local_router(gateway: Gateway, *, clock: Callable[[], float] = time.time) -> APIRouter:
    """The two routes; `clock` gives seconds since 1970."""
    router = APIRouter(tags=["SageMaker runtime API"])
    body = body_of(gateway.model_name, CompletionRequest, ChatRequest, examples=_EXAMPLES)

    @router.post(
        "/endpoints/{endpoint_name}/invocations",
        summary="InvokeEndpoint",
        response_class=Response,
        responses=answers_with(Completion, ChatCompletion) | _ERRORS,
        openapi_extra=body,
    )
    async def invoke_endpoint(endpoint_name: str, request: Request) -> Response:
        """What /invocations answers to the same body."""
        response = await _invoke(request, gateway, endpoint_name, created=int(clock()))
        response.headers.update(_VARIANT)
        return response

    @router.post(
        "/endpoints/{endpoint_name}/invocations-response-stream",
        summary="InvokeEndpointWithResponseStream",
        response_class=Response,
        responses=_PARTS | _ERRORS,
        openapi_extra=body,
    )
    async def invoke_endpoint_with_response_stream(endpoint_name: str, request: Request) -> Response:
        """What /invocations answers to the same body, as PayloadPart events."""
        response = await _invoke(request, gateway, endpoint_name, created=int(clock()), accept=_STREAM_ACCEPT)
        return _framed(response) if response.status_code == 200 else response

    return router


async def _invoke(
    request: Request, gateway: Gateway, endpoint_name: str, *, created: int, accept: str = "Accept"
) -> Response:
    if len(endpoint_name) > _MAX_NAME or not _NAME.fullmatch(endpoint_name):
        return _error(400, "ValidationError", {"Message": "the endpoint's name must be letters, digits and hyphens"})
    try:
        return await invoke(request, gateway, created=created, accept=request.headers.get(accept))
    except ClientGoneError:
        return client_gone()
    except (Eagle3Error, HTTPException) as error:
        reason = reject_reason(error)
        if reason is not None:
            gateway.count_refusal(reason)
        status, body = error_body(error)
        message = json.dumps(body)
        details = {
            "Message": f"Received client error ({status}) from the model with message {message!r}",
            "OriginalStatusCode": status,
            "OriginalMessage": message,
            "LogStreamArn": "",
        }
        return _error(424, "ModelError", details)


def _error(status: int, kind: str, details: dict[str, Any]) -> Response:
    return Response(
        json.dumps(details), status_code=status, media_type="application/json", headers={"x-amzn-ErrorType": kind}
    )


def _framed(response: Response) -> Response:
    """The same answer, its bytes in PayloadPart events and its type in SageMaker's header."""
    headers = _VARIANT | {_STREAM_CONTENT_TYPE: response.headers["content-type"]}
    if ATTRIBUTES_HEADER in response.headers:
        headers[ATTRIBUTES_HEADER] = response.headers[ATTRIBUTES_HEADER]
    pieces = response.body_iterator if isinstance(response, StreamedResponse) else _once(bytes(response.body))
    return StreamedResponse(pieces, media_type=CONTENT_TYPE, headers=headers, frame=payload_parts)


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
