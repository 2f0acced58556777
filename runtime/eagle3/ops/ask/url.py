"""Asks a server that speaks OpenAI's chat completions, through OpenAI's own client.

Knows no AWS. Invariant: a question is sent once, since one that is sent again is generated again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from eagle3.errors import (
    ConfigError,
    DeadlineError,
    Eagle3Error,
    EngineUnavailableError,
    InvalidInputError,
)
from eagle3.ops.ask.question import Question
from eagle3.ops.ask.refusal import refusal, retry_after_of

KEY_VARIABLES = ("EAGLE3KIT_API_KEY", "OPENAI_API_KEY")
_NO_KEY = "none"  # the client insists on one; a server without keys does not look at it
_CONNECT_TIMEOUT_S = 10.0


def base_url(url: str) -> str:
    """The API's address: /v1 is added to an address without a path; InvalidInputError if it is no http(s) URL."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port != 0
    except ValueError:
        port_is_valid = False
    if not port_is_valid or parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise InvalidInputError(f"--url: got {url!r}; give the server's address, such as http://127.0.0.1:8080")
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") or "/v1", fragment=""))


def api_key(environ: Mapping[str, str]) -> str | None:
    """The key that the environment gives, the kit's own variable first."""
    return next((environ[name] for name in KEY_VARIABLES if environ.get(name)), None)


def ask_url(url: str, question: Question, *, key: str | None, timeout_s: float) -> Iterator[Mapping[str, Any]]:
    """The server's objects as they come; errors say what is wrong with the server or the request.

    The model's name is asked for at once where the question has none, the rest when the first object is.
    """
    try:
        import openai
    except ImportError as error:
        raise ConfigError("--url needs openai, which is not installed; install eagle3-kit[ask]") from error
    address = base_url(url)
    timeout = openai.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
    client = openai.OpenAI(base_url=address, api_key=key or _NO_KEY, timeout=timeout, max_retries=0)
    if question.model is None:
        try:
            question = replace(question, model=_only_model(client, address))
        except openai.APIError as error:
            raise _fault(openai, error, address, part=False) from error
    return _objects(openai, client, question, address)


def _objects(openai: Any, client: Any, question: Question, address: str) -> Iterator[Mapping[str, Any]]:
    taken = False
    with client:
        try:
            made = client.chat.completions.create(**question.body())
            if not question.stream:
                yield made.to_dict()
                return
            with made:
                for chunk in made:
                    yield chunk.to_dict()
                    taken = True
        except openai.APIError as error:
            raise _fault(openai, error, address, part=taken) from error
        except (AttributeError, TypeError, ValueError) as error:
            raise _no_api(address) from error


def _only_model(client: Any, address: str) -> str:
    try:
        names = [str(model.id) for model in client.models.list()]
    except (AttributeError, TypeError, ValueError) as error:  # what the client makes of a page that is no JSON
        raise _no_api(address) from error
    if len(names) != 1:
        listed = ", ".join(names) or "none"
        raise InvalidInputError(f"{address} does not serve exactly one model: {listed}; choose with --model")
    return names[0]


def _no_api(address: str) -> EngineUnavailableError:
    return EngineUnavailableError(f"{address} does not answer as OpenAI's API does; see --url")


def _fault(openai: Any, error: Any, address: str, *, part: bool) -> Eagle3Error:
    ending = ": the text is incomplete" if part else ""
    if isinstance(error, openai.APIStatusError):
        said = error.body if error.body else error.response.text
        return refusal(error.status_code, said, part=part, retry_after=retry_after_of(error.response.headers))
    if isinstance(error, openai.APITimeoutError):
        return DeadlineError(f"{address} sent nothing in time{ending}; see --timeout-s")
    if isinstance(error, openai.APIConnectionError):
        cause = " ".join(str(error.__cause__ or error).split())
        if part:
            return EngineUnavailableError(f"the connection to {address} broke{ending}: {cause}; ask again")
        return EngineUnavailableError(f"cannot reach {address}: {cause}; is a server running there?")
    return refusal(None, error.body if isinstance(error.body, Mapping) else error.message, part=part)
