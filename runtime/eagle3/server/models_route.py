"""GET /v1/models: what is served. Knows one model. Invariant: answered while the engine loads, too."""

from __future__ import annotations

from fastapi import APIRouter

from eagle3.server.gateway import Gateway
from eagle3.server.model_name import check_model
from eagle3.server.openai_responses import ErrorBody, Model, ModelList


def models_router(gateway: Gateway) -> APIRouter:
    """The two routes."""
    router = APIRouter(tags=["OpenAI"])

    def served() -> Model:
        return Model(
            id=gateway.model_name,
            object="model",
            created=gateway.created,
            owned_by="eagle3",
            max_model_len=gateway.context_tokens,
        )

    @router.get("/v1/models", summary="List the models", responses={401: {"model": ErrorBody}})
    async def models() -> ModelList:
        """The one model of this server."""
        return ModelList(object="list", data=[served()])

    @router.get(
        "/v1/models/{model_id:path}",
        summary="Describe a model",
        responses={401: {"model": ErrorBody}, 404: {"model": ErrorBody}},
    )
    async def model(model_id: str) -> Model:
        """The model of that name."""
        check_model(gateway, model_id)
        return served()

    return router
