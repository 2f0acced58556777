"""The official openai client against the routes: bodies and streams as it expects them."""

from __future__ import annotations

import httpx
import openai
import pytest

from eagle3.config.limits import Limits
from eagle3.errors import DeadlineError, EngineUnavailableError, OverloadedError
from protocol_doubles import MODEL, ScriptedGateway, protocol_app

TEXT = "Hi é!"
TOKENS = len(TEXT.encode()) + 1  # the end of text is a token as well


def client_of(gateway):
    """An openai client whose requests go straight into the app."""
    transport = httpx.ASGITransport(app=protocol_app(gateway))
    http = httpx.AsyncClient(transport=transport, base_url="http://server/v1")
    return openai.AsyncOpenAI(api_key="unused", base_url="http://server/v1", http_client=http, max_retries=0)


async def test_completion():
    """A completion has text, reason and usage, the counts of drafted tokens among it."""
    gateway = ScriptedGateway(TEXT)
    async with client_of(gateway) as client:
        got = await client.completions.create(model=MODEL, prompt="One")
    assert [(choice.index, choice.text, choice.finish_reason) for choice in got.choices] == [(0, TEXT, "stop")]
    assert got.object == "text_completion"
    assert got.id.startswith("cmpl-")
    assert got.system_fingerprint.startswith("fp_")
    assert (got.usage.prompt_tokens, got.usage.completion_tokens, got.usage.total_tokens) == (3, TOKENS, 3 + TOKENS)
    details = got.usage.completion_tokens_details
    assert (details.accepted_prediction_tokens, details.rejected_prediction_tokens) == (4, 6)
    assert gateway.tenants == ["anonymous"]


async def test_prompts_times_n_in_order():
    """Two prompts with n = 2 give four choices: both answers of the first prompt first, each with its own index."""
    gateway = ScriptedGateway(TEXT)
    async with client_of(gateway) as client:
        got = await client.completions.create(model=MODEL, prompt=["a", "bc"], n=2, echo=True)
    assert [choice.text for choice in got.choices] == ["a" + TEXT, "a" + TEXT, "bc" + TEXT, "bc" + TEXT]
    assert [(request.prompt_ids, request.index) for request in gateway.asked] == [
        ((97,), 0), ((97,), 1), ((98, 99), 0), ((98, 99), 1),
    ]  # fmt: skip
    assert len({request.request_id for request in gateway.asked}) == 4
    assert got.usage.prompt_tokens == 3, "a prompt is counted once, however many answers it has"


async def test_token_ids_as_prompts():
    """Prompts of token ids reach the engine as they are, control tokens included."""
    gateway = ScriptedGateway(TEXT)
    async with client_of(gateway) as client:
        await client.completions.create(model=MODEL, prompt=[104, 256])
        await client.completions.create(model=MODEL, prompt=[[1], [2, 3]])
    assert [request.prompt_ids for request in gateway.asked] == [(104, 256), (1,), (2, 3)]


async def test_streamed_completion():
    """Chunks of a stream add up to the answer; the last says why it ended, and no usage comes unasked."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        stream = await client.completions.create(model=MODEL, prompt="One", n=2, stream=True)
        chunks = [chunk async for chunk in stream]
    for index in range(2):
        mine = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert "".join(choice.text for choice in mine) == TEXT
        assert [choice.finish_reason for choice in mine][-2:] == [None, "stop"]
    assert all(chunk.usage is None for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


async def test_streamed_echo_and_usage():
    """An echoed prompt comes first; include_usage adds one last chunk without choices."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        stream = await client.completions.create(
            model=MODEL, prompt="One ", echo=True, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "One " + TEXT
    assert [len(chunk.choices) for chunk in chunks] == [1] * (len(chunks) - 1) + [0]
    assert chunks[-1].usage.total_tokens == 4 + TOKENS
    assert all(chunk.usage is None for chunk in chunks[:-1])


async def test_completion_logprobs():
    """Every list of the log-probabilities has one entry a token; tokens inside a character share its offset."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        got = await client.completions.create(model=MODEL, prompt="One", logprobs=2)
    logprobs = got.choices[0].logprobs
    assert logprobs.tokens == ["H", "i", " ", "bytes:\\xc3", "bytes:\\xa9", "!", "<|end|>"]
    assert logprobs.text_offset == [0, 1, 2, 3, 3, 4, 5]
    assert logprobs.token_logprobs == [-0.5] * TOKENS
    assert logprobs.top_logprobs[0] == {"H": -0.5, "I": -1.5}
    assert got.usage.completion_tokens == len(logprobs.tokens)


async def test_completion_logprobs_of_nothing_but_the_token():
    """logprobs = 0 reports the emitted token alone."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        got = await client.completions.create(model=MODEL, prompt="One", logprobs=0)
    assert got.choices[0].logprobs.top_logprobs[0] == {"H": -0.5}


async def test_streamed_logprobs_add_up():
    """The log-probabilities of a stream, put together, are those of the whole body."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        whole = await client.completions.create(model=MODEL, prompt="One", logprobs=1)
        stream = await client.completions.create(model=MODEL, prompt="One", logprobs=1, stream=True)
        parts = [choice.logprobs async for chunk in stream for choice in chunk.choices]
    for name in ("tokens", "text_offset", "token_logprobs", "top_logprobs"):
        assert [item for part in parts for item in getattr(part, name)] == getattr(whole.choices[0].logprobs, name)


async def test_chat():
    """A conversation is answered by a message of the assistant."""
    gateway = ScriptedGateway(TEXT)
    async with client_of(gateway) as client:
        got = await client.chat.completions.create(
            model=MODEL,
            messages=[
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            ],
        )
    assert got.object == "chat.completion"
    assert (got.choices[0].message.role, got.choices[0].message.content) == ("assistant", TEXT)
    assert got.choices[0].finish_reason == "stop"
    assert got.choices[0].logprobs is None
    assert bytes(gateway.asked[0].prompt_ids).decode() == "system: Be brief.\nuser: a\nb\nassistant: "


async def test_an_answer_can_be_sent_back():
    """What the client library makes of an answer is accepted as a message of the next request."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        messages = [{"role": "user", "content": "Hi"}]
        first = await client.chat.completions.create(model=MODEL, messages=messages)
        again = [*messages, first.choices[0].message.model_dump(), {"role": "user", "content": "And?"}]
        second = await client.chat.completions.create(model=MODEL, messages=again)
    assert second.choices[0].message.content == TEXT


async def test_streamed_chat():
    """The role comes first, then text, then the reason; with include_usage the counts come last."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": "Hi"}],
            stream=True,
            n=2,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    for index in range(2):
        mine = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert (mine[0].delta.role, mine[0].delta.content) == ("assistant", "")
        assert "".join(choice.delta.content or "" for choice in mine) == TEXT
        assert [choice.finish_reason for choice in mine] == [None] * (len(mine) - 1) + ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 2 * TOKENS


async def test_chat_logprobs():
    """The bytes of the tokens are the bytes of the answer; alternatives come in the asked number."""
    async with client_of(ScriptedGateway(TEXT)) as client:
        arguments = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "logprobs": True}
        got = await client.chat.completions.create(**arguments, top_logprobs=2)
        stream = await client.chat.completions.create(**arguments, top_logprobs=2, stream=True)
        parts = [choice.logprobs async for chunk in stream for choice in chunk.choices if choice.logprobs]
    content = got.choices[0].logprobs.content
    assert bytes(byte for token in content[:-1] for byte in token.bytes).decode() == TEXT
    assert [len(token.top_logprobs) for token in content] == [2] * TOKENS
    assert [token for part in parts for token in part.content] == content


async def test_models():
    """The served model is listed and described, slashes in its name included; another one is not found."""
    async with client_of(ScriptedGateway()) as client:
        listed = [model async for model in client.models.list()]
        model = await client.models.retrieve(MODEL)
        with pytest.raises(openai.NotFoundError, match="not served here"):
            await client.models.retrieve("gpt")
    assert listed == [model]
    assert (model.id, model.created, model.owned_by) == (MODEL, 1_700_000_000, "eagle3")


async def test_another_model_is_not_found():
    """A request for another model gets OpenAI's code and the name of the one that is served."""
    async with client_of(ScriptedGateway()) as client:
        with pytest.raises(openai.NotFoundError, match=MODEL) as caught:
            await client.completions.create(model="gpt", prompt="x")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OverloadedError("full", retry_after_s=7), 429),
        (EngineUnavailableError("gone"), 503),
        (DeadlineError("late"), 504),
        (RuntimeError("prompt text"), 500),
    ],
)
async def test_errors_before_the_first_token_have_their_status(stream, error, status):
    """Streamed or not, what fails before the first delta is answered with a status, not with a broken stream."""
    async with client_of(ScriptedGateway(fails=error)) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.completions.create(model=MODEL, prompt="x", stream=stream)
    assert caught.value.status_code == status
    assert caught.value.body["message"]
    assert caught.value.response.headers.get("retry-after") == {429: "7", 503: "5"}.get(status)
    assert "prompt text" not in caught.value.response.text


@pytest.mark.parametrize("error", [EngineUnavailableError("the engine crashed"), DeadlineError("too late")])
async def test_an_error_in_a_stream_is_an_event(error):
    """What fails after the first delta reaches the client as an error of the stream, after what came before it."""
    gateway = ScriptedGateway(TEXT, fails=error, fails_after=2)
    got = ""
    async with client_of(gateway) as client:
        with pytest.raises(openai.APIError, match=str(error)):  # noqa: PT012
            async for chunk in await client.completions.create(model=MODEL, prompt="x", stream=True):
                got += chunk.choices[0].text
    assert got == TEXT[:2]
    assert gateway.cancelled.is_set()


async def test_limits_are_named():
    """More answers, tokens or prompt than allowed are refused with the number and the limit."""
    gateway = ScriptedGateway(limits=Limits(max_answers=2, max_output_tokens=50, max_prompt_tokens=10))
    async with client_of(gateway) as client:
        for arguments, message in [
            ({"n": 3}, "n is 3; at most 2"),
            ({"max_tokens": 51}, "max_tokens is 51; at most 50"),
            ({"prompt": "x" * 11}, "prompt has 11 tokens; at most 10"),
            ({"prompt": "x" * 41}, "prompt has 41 characters, which is more than 10 tokens can hold"),
        ]:
            with pytest.raises(openai.BadRequestError, match=message):
                await client.completions.create(**({"model": MODEL, "prompt": "x"} | arguments))
    assert gateway.asked == []
