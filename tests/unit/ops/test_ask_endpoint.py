"""Asking a SageMaker endpoint: real bytes of the wire through the real client, and every state an endpoint can have."""

from __future__ import annotations

import json
from dataclasses import replace

import boto3
import botocore.exceptions as aws
import pytest
import urllib3
from botocore.stub import Stubber
from moto import mock_aws

from ask_doubles import (
    CHUNKS,
    STREAM,
    TEXTS,
    framed,
    refusing_runtime,
    stream_fault,
    streaming_runtime,
    whole,
)
from ask_doubles import Runtime as PlainRuntime
from eagle3.errors import (
    ConfigError,
    DeadlineError,
    EngineUnavailableError,
    InvalidInputError,
    OverloadedError,
)
from eagle3.ops.ask.aws_fault import aws_fault
from eagle3.ops.ask.endpoint import ask_endpoint
from eagle3.ops.ask.endpoint_clients import endpoint_clients
from eagle3.ops.ask.endpoint_state import checked_name
from eagle3.ops.ask.question import Question

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
HI = Question(prompt="Hi", max_tokens=9)
NAME = "eagle3-dev-small-endpoint"
MISSING = {"Message": f"Endpoint {NAME} of account 111122223333 not found."}


def ask(runtime, question=HI):
    return list(ask_endpoint(runtime.clients, NAME, question))


@pytest.mark.parametrize("size", [7, 100, 100_000])
def test_a_stream(size):
    """PayloadPart events of any size give the server's objects; the call carries the question to the endpoint."""
    runtime = streaming_runtime(framed([STREAM[start : start + size] for start in range(0, len(STREAM), size)]))
    assert ask(runtime) == CHUNKS
    (sent,) = runtime.requests
    assert sent.url.endswith(f"/endpoints/{NAME}/invocations-response-stream")
    assert json.loads(sent.body) == HI.body()
    assert runtime.raw.closed


def test_a_whole_answer():
    """Without a stream it is InvokeEndpoint; a container that does not stream is read from events too."""
    plain = PlainRuntime([json.dumps(whole("x")).encode()], Content_Type="application/json")
    assert ask(plain, Question(prompt="Hi", stream=False)) == [whole("x")]
    assert plain.requests[0].url.endswith(f"/endpoints/{NAME}/invocations")
    unstreamed = streaming_runtime(
        framed([json.dumps(whole("x"), indent=1).encode()]), X_Amzn_SageMaker_Content_Type="application/json"
    )
    assert ask(unstreamed) == [whole("x")]


def test_a_stream_that_is_left_is_closed():
    """A reader that goes away, as on Ctrl-C, ends the connection, so that the endpoint stops generating."""
    runtime = streaming_runtime(framed([STREAM]))
    objects = ask_endpoint(runtime.clients, NAME, HI)
    assert next(objects) == CHUNKS[0]
    objects.close()
    assert runtime.raw.closed


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ModelStreamError", {"Message": "closed", "ErrorCode": "StreamBroken"}),
        ("InternalStreamFailure", {"Message": "closed"}),
    ],
)
def test_a_fault_within_the_stream(kind, fields):
    """AWS's own errors between the parts say what they are, and that the text is incomplete."""
    runtime = streaming_runtime([*framed([STREAM[:300]]), stream_fault(kind, **fields)])
    with pytest.raises(EngineUnavailableError, match="text is incomplete"):
        ask(runtime)
    with pytest.raises(EngineUnavailableError, match=r"^(?!.*incomplete)"):
        ask(streaming_runtime([stream_fault(kind, **fields)]))


@pytest.mark.parametrize(
    ("fails", "kind"),
    [
        (urllib3.exceptions.ProtocolError("Connection broken"), EngineUnavailableError),
        (urllib3.exceptions.ReadTimeoutError(None, None, "Read timed out."), DeadlineError),
        (ConnectionResetError(104, "reset"), EngineUnavailableError),
    ],
)
def test_a_connection_that_breaks(fails, kind):
    """What the network does to a stream is one of our errors, with what came of the text."""
    with pytest.raises(kind, match="text is incomplete"):
        ask(streaming_runtime(framed([STREAM[:300]]), fails=fails))


def test_a_stream_that_stops_silently():
    """A stream cut between or within events gives what came and no error: the answer's reader sees the missing end."""
    cut = b"".join(framed([STREAM[:400], STREAM[400:]]))
    assert ask(streaming_runtime([cut[:-30]])) == CHUNKS[: len(ask(streaming_runtime([cut[:-30]])))]


@pytest.mark.parametrize(
    ("original", "kind", "words"),
    [
        (400, InvalidInputError, "max_tokens is 9"),
        (429, OverloadedError, "max_tokens is 9"),
        (503, EngineUnavailableError, "max_tokens is 9"),
    ],
)
def test_the_models_refusal(original, kind, words):
    """A ModelError is what the container said, not what AWS wraps around it."""
    said = json.dumps({"error": {"message": words, "type": "x", "param": None, "code": None}})
    body = {"Message": "Received client error", "OriginalStatusCode": original, "OriginalMessage": said}
    with pytest.raises(kind, match=words) as caught:
        ask(refusing_runtime(424, "ModelError", body))
    assert "Received" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "status", "kind", "words"),
    [
        ("AccessDeniedException", 403, ConfigError, "sagemaker:InvokeEndpoint"),
        ("ExpiredTokenException", 403, ConfigError, "does not accept these credentials"),
        ("UnrecognizedClientException", 403, ConfigError, "does not accept these credentials"),
        ("ThrottlingException", 400, OverloadedError, "after 5 s"),
    ],
)
def test_what_aws_refuses(code, status, kind, words):
    """Permissions, credentials and throttling are told apart, and nothing more is asked."""
    runtime = refusing_runtime(status, code, {"Message": "said so"})
    with Stubber(runtime.clients.control), pytest.raises(kind, match=words):
        ask(runtime)


def states(runtime, **found):
    stubber = Stubber(runtime.clients.control)
    described = {
        "EndpointName": NAME,
        "EndpointArn": f"arn:aws:sagemaker:r-1:1:endpoint/{NAME}",
        "EndpointConfigName": "c",
    }
    stubber.add_response(
        "describe_endpoint", described | {"CreationTime": 0, "LastModifiedTime": 0} | found, {"EndpointName": NAME}
    )
    return stubber


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        ({"EndpointStatus": "Creating"}, InvalidInputError, "still being created"),
        ({"EndpointStatus": "Deleting"}, InvalidInputError, "being deleted"),
        ({"EndpointStatus": "OutOfService"}, InvalidInputError, "out of service"),
        ({"EndpointStatus": "Failed", "FailureReason": "no ping"}, EngineUnavailableError, "is Failed: no ping"),
        ({"EndpointStatus": "UpdateRollbackFailed"}, EngineUnavailableError, "no reason given"),
        (
            {"EndpointStatus": "InService", "AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b/"}}},
            InvalidInputError, "asynchronous",
        ),
        ({"EndpointStatus": "InService"}, InvalidInputError, "not found"),
    ],
)  # fmt: skip
def test_states_of_an_endpoint(found, kind, words):
    """A refusal is explained by the endpoint's state; a healthy endpoint's refusal stays what AWS said."""
    runtime = refusing_runtime(400, "ValidationError", MISSING)
    with states(runtime, **found) as stubber, pytest.raises(kind, match=words):
        ask(runtime)
    stubber.assert_no_pending_responses()


def absent(names, *, listing_denied=False):
    runtime = refusing_runtime(400, "ValidationError", MISSING)
    stubber = Stubber(runtime.clients.control)
    stubber.add_client_error("describe_endpoint", "ValidationException", "Could not find endpoint")
    if listing_denied:
        stubber.add_client_error("list_endpoints", "AccessDeniedException", "no")
    else:
        row = {"EndpointArn": "arn:aws:sagemaker:r-1:1:endpoint/x12345678", "CreationTime": 0, "LastModifiedTime": 0}
        rows = [row | {"EndpointName": name, "EndpointStatus": "InService"} for name in names]
        stubber.add_response("list_endpoints", {"Endpoints": rows})
    return runtime, stubber


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["other", "eagle3-prod-small-endpoint"], "did you mean eagle3-prod-small-endpoint?"),
        (["zzz", "abc"], "there are: abc, zzz"),
        ([], "there is none; see --region and --profile"),
    ],
)
def test_no_such_endpoint(names, words):
    """The nearest name is suggested, else the names are shown; exit code 2."""
    runtime, stubber = absent(names)
    with stubber, pytest.raises(InvalidInputError, match="no endpoint") as caught:
        ask(runtime)
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


def test_what_may_not_be_looked_at_is_said():
    """Neither a missing permission to list nor one to describe hides the refusal."""
    runtime, stubber = absent([], listing_denied=True)
    with stubber, pytest.raises(InvalidInputError, match=r"no endpoint .*could not be looked at \(AccessDenied"):
        ask(runtime)
    runtime = refusing_runtime(400, "ValidationError", MISSING)
    stubber = Stubber(runtime.clients.control)
    stubber.add_client_error("describe_endpoint", "AccessDeniedException", "no")
    with stubber, pytest.raises(InvalidInputError, match=r"not found.*could not be looked at: AccessDenied"):
        ask(runtime)


def test_states_in_moto():
    """SageMaker's own API, as moto plays it, has the operations and shapes that are used here."""
    runtime = refusing_runtime(400, "ValidationError", MISSING)
    with mock_aws():
        control = boto3.client("sagemaker", region_name="us-east-1")
        role = "arn:aws:iam::111122223333:role/r"
        control.create_model(ModelName="m", ExecutionRoleArn=role, PrimaryContainer={"Image": "i"})
        variant = {"VariantName": "v", "ModelName": "m", "InitialInstanceCount": 1, "InstanceType": "ml.m5.large"}
        control.create_endpoint_config(EndpointConfigName="c", ProductionVariants=[variant])
        control.create_endpoint(EndpointName="eagle3-dev-smalls-endpoint", EndpointConfigName="c")
        before = control.list_endpoints()["Endpoints"]
        with pytest.raises(InvalidInputError, match=r"did you mean eagle3-dev-smalls-endpoint\?"):
            list(ask_endpoint(replace(runtime.clients, control=control), NAME, HI))
        assert control.list_endpoints()["Endpoints"] == before


@pytest.mark.parametrize("name", ["", "a b", "under_score", "-a", "a-", "a" * 64])
def test_names_no_endpoint_can_have(name):
    """They are refused before AWS is asked; the longest good one is not."""
    with pytest.raises(InvalidInputError, match="--endpoint"):
        checked_name(name)
    assert checked_name("a" * 63) == "a" * 63


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (aws.NoCredentialsError(), ConfigError, "no AWS credentials"),
        (aws.PartialCredentialsError(provider="env", cred_var="x"), ConfigError, "no AWS credentials"),
        (aws.UnauthorizedSSOTokenError(), ConfigError, "aws sso login"),
        (aws.TokenRetrievalError(provider="sso", error_msg="expired"), ConfigError, "no AWS credentials"),
        (aws.ProfileNotFound(profile="p"), ConfigError, "list-profiles"),
        (aws.InvalidRegionError(region_name="us east"), ConfigError, "--region"),
        (aws.EndpointConnectionError(endpoint_url="https://x"), EngineUnavailableError, "check the region"),
        (aws.ConnectTimeoutError(endpoint_url="https://x"), EngineUnavailableError, "check the region"),
        (aws.ReadTimeoutError(endpoint_url="https://x"), DeadlineError, "--timeout-s"),
        (aws.ResponseStreamingError(error="cut"), EngineUnavailableError, "ResponseStreamingError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_exceptions_of_botocore(error, kind, words):
    """Each is what a person can act on, in one line that says what was tried."""
    fault = aws_fault(error, "ask the endpoint x")
    assert type(fault) is kind
    assert words in str(fault)
    assert "\n" not in str(fault)


@pytest.fixture
def no_aws(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def made(**values):
    return endpoint_clients(
        **({"region": None, "profile": None, "timeout_s": 3.0, "sdk": "boto3", "environ": {}} | values)
    )


@pytest.mark.usefixtures("no_aws")
def test_the_region():
    """The flag wins over AWS_REGION; without either it is said what to give."""
    assert made(region="eu-west-1", environ={"AWS_REGION": "us-west-2"}).region == "eu-west-1"
    assert made(environ={"AWS_REGION": "us-west-2"}).runtime.meta.region_name == "us-west-2"
    with pytest.raises(ConfigError, match="no AWS region"):
        made()


@pytest.mark.usefixtures("no_aws")
def test_a_question_is_sent_once():
    """Neither client repeats a call, and the time to wait is the one asked for."""
    clients = made(region="us-east-1")
    assert clients.runtime.meta.config.retries["total_max_attempts"] == 1
    assert clients.runtime.meta.config.read_timeout == 3.0


@pytest.mark.usefixtures("no_aws")
def test_the_sdk_that_is_missing(monkeypatch):
    """The SageMaker SDK is an extra of its own, which its absence names."""
    monkeypatch.setitem(__import__("sys").modules, "sagemaker", None)
    with pytest.raises(ConfigError, match=r"eagle3-kit\[sagemaker\]"):
        made(region="us-east-1", sdk="sagemaker")


def test_texts_are_those_of_the_doubles():
    """The stream of the doubles says what its chunks say; otherwise the tests above would compare nothing."""
    assert [item["choices"][0]["delta"].get("content") for item in CHUNKS[:3]] == list(TEXTS)
