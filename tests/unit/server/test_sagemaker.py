"""The container's contract of SageMaker, and boto3's client against the server itself."""

from __future__ import annotations

import io
import json

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.eventstream import EventStreamBuffer

from eagle3.errors import EngineUnavailableError
from eagle3.server.aws_event_stream import message, payload_parts
from protocol_doubles import MODEL, ScriptedGateway, protocol_app, serving

TEXT = "Hi é!"
RAW = {"prompt": "x"}
CHAT = {"messages": [{"role": "user", "content": "x"}]}
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


async def invoke(gateway, body, **headers):
    """The response of /invocations."""
    transport = httpx.ASGITransport(protocol_app(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        return await http.post("/invocations", json=body, headers=headers)


@pytest.mark.parametrize(("ready", "status"), [(True, 200), (False, 503)])
async def test_ping(ready, status):
    """/ping says by its status alone whether the model answers."""
    transport = httpx.ASGITransport(protocol_app(ScriptedGateway(ready=ready)))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as http:
        response = await http.get("/ping")
    assert (response.status_code, response.content) == (status, b"")


@pytest.mark.parametrize("named", [{}, {"model": MODEL}])
async def test_invocations_take_both_bodies(named):
    """The fields tell a conversation from raw prompts; the model's name may be left out."""
    raw = (await invoke(ScriptedGateway(TEXT), RAW | named)).json()
    chat = (await invoke(ScriptedGateway(TEXT), CHAT | named)).json()
    assert (raw["object"], raw["choices"][0]["text"]) == ("text_completion", TEXT)
    assert (chat["object"], chat["choices"][0]["message"]["content"]) == ("chat.completion", TEXT)
    assert raw["model"] == chat["model"] == MODEL


@pytest.mark.parametrize(
    ("body", "status"), [({}, 400), (RAW | CHAT, 400), (RAW | {"model": "gpt"}, 404), ({"inputs": "x"}, 400)]
)
async def test_invocations_that_are_neither(body, status):
    """A body of no kind, of both kinds or for another model is refused."""
    assert (await invoke(ScriptedGateway(), body)).status_code == status


@pytest.mark.parametrize(
    ("attributes", "speculate", "timeout_s"),
    [
        ("speculate=false", False, None),
        ("speculate=TRUE, timeout-s=7.5", True, 7.5),
        ("timeout-s=9999;trace=abc;flag", True, 600.0),
        ("", True, None),
    ],
)
async def test_custom_attributes(attributes, speculate, timeout_s):
    """Known attributes count, others are left alone, and all come back with the answer."""
    gateway = ScriptedGateway()
    response = await invoke(gateway, RAW, **{ATTRIBUTES: attributes})
    assert response.headers[ATTRIBUTES] == attributes
    assert (gateway.asked[0].speculate, gateway.timeouts) == (speculate, [timeout_s])


async def test_attributes_count_more_than_the_body():
    """What the header says of speculation replaces what the body says."""
    gateway = ScriptedGateway()
    await invoke(gateway, RAW | {"speculate": True}, **{ATTRIBUTES: "speculate=false"})
    await invoke(gateway, RAW | {"speculate": False}, **{ATTRIBUTES: "other=1"})
    assert [request.speculate for request in gateway.asked] == [False, False]


@pytest.mark.parametrize(
    "attributes", ["x" * 1025, "a\tb", b"\xe9", "speculate=maybe", "timeout-s=-1", "timeout-s=nan"]
)
async def test_custom_attributes_that_cannot_be(attributes):
    """Attributes that could not be sent back, or mean nothing, are refused."""
    response = await invoke(ScriptedGateway(), RAW, **{ATTRIBUTES: attributes})
    assert response.status_code == 400
    assert ATTRIBUTES not in response.headers


@pytest.mark.parametrize(
    ("accept", "stream", "status"),
    [
        ("application/json", False, 200),
        ("*/*", False, 200),
        ("text/html, application/*;q=0.5", False, 200),
        ("text/csv", False, 406),
        ("application/json;q=0", False, 406),
        ("text/event-stream", False, 406),
        ("text/event-stream", True, 200),
        ("application/json", True, 200),
        ("text/csv", True, 406),
    ],
)
async def test_accept(accept, stream, status):
    """A client that takes neither JSON nor, for a stream, events is refused before anything is generated."""
    gateway = ScriptedGateway()
    assert (await invoke(gateway, RAW | {"stream": stream}, Accept=accept)).status_code == status
    assert len(gateway.asked) == (status == 200)


async def test_streamed_invocation_is_the_same_stream():
    """`stream: true` gives the events of the OpenAI routes."""
    response = await invoke(ScriptedGateway(TEXT), RAW | {"stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("data: [DONE]\n\n")


def boto(url):
    """boto3's client with its requests going to `url`."""
    return boto3.client(
        "sagemaker-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="unused",
        aws_secret_access_key="unused",
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
class TestBoto3:
    """A real socket and the real client."""

    @pytest.mark.parametrize("options", [{}, {"ContentType": "application/json", "Accept": "application/json"}])
    def test_invoke_endpoint(self, options):
        """invoke_endpoint answers, with the model's content type and the attributes."""
        with serving(protocol_app(ScriptedGateway(TEXT))) as url:
            response = boto(url).invoke_endpoint(
                EndpointName="my-endpoint", Body=json.dumps(CHAT), CustomAttributes="trace=1", **options
            )
            body = json.loads(response["Body"].read())
        assert body["choices"][0]["message"]["content"] == TEXT
        assert (response["ContentType"], response["CustomAttributes"]) == ("application/json", "trace=1")
        assert response["InvokedProductionVariant"] == "AllTraffic"

    def test_invoke_endpoint_with_response_stream(self):
        """The parts of a streamed answer are the events of the stream."""
        with serving(protocol_app(ScriptedGateway(TEXT))) as url:
            response = boto(url).invoke_endpoint_with_response_stream(
                EndpointName="my-endpoint",
                Body=json.dumps(RAW | {"stream": True}),
                ContentType="application/json",
                Accept="text/event-stream",
                CustomAttributes="trace=1",
            )
            parts = [event["PayloadPart"]["Bytes"] for event in response["Body"]]
        assert (response["ContentType"], response["CustomAttributes"]) == (
            "text/event-stream; charset=utf-8",
            "trace=1",
        )
        lines = b"".join(parts).decode().split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == TEXT
        assert len(parts) > 3, "parts come as they are made"

    def test_a_whole_answer_as_a_stream(self):
        """Without `stream: true` the one body comes in parts, as on AWS."""
        with serving(protocol_app(ScriptedGateway(TEXT))) as url:
            response = boto(url).invoke_endpoint_with_response_stream(EndpointName="a", Body=json.dumps(RAW))
            body = b"".join(event["PayloadPart"]["Bytes"] for event in response["Body"])
        assert json.loads(body)["choices"][0]["text"] == TEXT
        assert response["ContentType"] == "application/json"

    def test_refusals_are_model_errors(self):
        """What the container refuses is a ModelError with its status and its body."""
        gateway = ScriptedGateway()
        with serving(protocol_app(gateway)) as url:
            client = boto(url)
            for call in (client.invoke_endpoint, client.invoke_endpoint_with_response_stream):
                with pytest.raises(client.exceptions.ModelError) as caught:
                    call(EndpointName="a", Body=b'{"prompt": ""}')
                response = caught.value.response
                assert (response["OriginalStatusCode"], response["ResponseMetadata"]["HTTPStatusCode"]) == (400, 424)
                assert json.loads(response["OriginalMessage"])["error"]["param"] == "prompt"
            with pytest.raises(client.exceptions.ModelError) as caught:
                client.invoke_endpoint(EndpointName="a", Body=json.dumps(RAW), Accept="text/csv")
        assert caught.value.response["OriginalStatusCode"] == 406
        assert gateway.refusals == ["invalid", "invalid"], "counted as they are on /invocations"

    def test_an_engine_that_is_gone(self):
        """A container that cannot answer is a ModelError with status 503, and not a broken connection."""
        with serving(protocol_app(ScriptedGateway(fails=EngineUnavailableError("gone")))) as url:
            client = boto(url)
            with pytest.raises(client.exceptions.ModelError) as caught:
                client.invoke_endpoint(EndpointName="a", Body=json.dumps(RAW))
        assert caught.value.response["OriginalStatusCode"] == 503

    def test_other_endpoint_names(self):
        """A name that no endpoint can have is a ValidationError."""
        with serving(protocol_app(ScriptedGateway())) as url:
            client = boto(url)
            with pytest.raises(client.exceptions.ClientError, match="ValidationError"):
                client.invoke_endpoint(EndpointName="a_b", Body=json.dumps(RAW))


@pytest.mark.parametrize("size", [0, 1, 1000, 256 * 1024, 256 * 1024 + 1, 600_000])
def test_botocore_reads_our_framing(size):
    """botocore's own parser, checksums and all, gets every byte back, in parts of a bounded size."""
    payload = bytes(range(256)) * (size // 256 + 1)
    payload = payload[:size]
    buffer = EventStreamBuffer()
    framed = io.BytesIO(payload_parts(payload))
    while chunk := framed.read(1000):
        buffer.add_data(chunk)
    events = list(buffer)
    assert b"".join(event.payload for event in events) == payload
    assert all(event.headers[":event-type"] == "PayloadPart" for event in events)
    assert all(len(event.payload) <= 256 * 1024 for event in events)


def test_damaged_framing_is_noticed():
    """The checksums are real: one changed byte is found by botocore."""
    good = message({":message-type": "event"}, b"payload")
    buffer = EventStreamBuffer()
    buffer.add_data(good.replace(b"payload", b"Payload"))
    with pytest.raises(Exception, match=r"[Cc]hecksum"):
        list(buffer)
