"""The protocols that the server speaks, as routers."""

from __future__ import annotations

from fastapi import APIRouter

from eagle3.server.chat import chat_router
from eagle3.server.completions import completions_router
from eagle3.server.gateway import Gateway
from eagle3.server.models_route import models_router
from eagle3.server.sagemaker import sagemaker_router
from eagle3.server.sagemaker_local import sagemaker_local_router


def protocol_routers(gateway: Gateway) -> list[APIRouter]:
    """OpenAI's and SageMaker's routes."""
    return [
        completions_router(gateway),
        chat_router(gateway),
        models_router(gateway),
        sagemaker_router(gateway),
        sagemaker_local_router(gateway),
    ]
