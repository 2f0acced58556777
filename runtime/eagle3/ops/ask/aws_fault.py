"""What an exception of botocore means, as one of this product's own errors.

Knows botocore's exceptions by name, so that importing this module imports no library. Invariant: what the caller can
mend (credentials, region, permissions) is a ConfigError; what AWS or the network did is not.
"""

from __future__ import annotations

from eagle3.errors import (
    ConfigError,
    DeadlineError,
    Eagle3Error,
    EngineUnavailableError,
    InvalidInputError,
    OverloadedError,
)

_CREDENTIALS = "give --profile, set AWS_PROFILE, or sign in (`aws sso login`, `aws configure`)"
_RETRY_AFTER_S = 5
_NO_CREDENTIALS = {
    "NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "NoAuthTokenError",
    "TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError", "SSOError", "LoginRefreshRequired",
    "LoginTokenLoadError", "LoginError", "RefreshWithMFAUnsupportedError", "MetadataRetrievalError",
}  # fmt: skip
_NOT_ACCEPTED = {
    "ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException", "InvalidClientTokenId",
    "InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken",
    "AuthFailure", "RequestExpired",
}  # fmt: skip
_THROTTLED = {
    "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "RequestLimitExceeded",
    "LimitExceededException",
}  # fmt: skip
_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_UNREACHED = {"EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError", "SSLError"}


def error_code(error: Exception) -> str | None:
    """AWS's code of a ClientError; None for other exceptions."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code")) if isinstance(response, dict) else None


def aws_fault(error: Exception, doing: str, *, part: bool = False) -> Eagle3Error:
    """The error that a BotoCoreError, a ClientError or an exception of the stream below them stands for.

    `doing` says what was tried ("ask the endpoint x in us-east-1"); `part` says that some of the text came already.
    """
    ending = ": the text is incomplete" if part else ""
    name, code = type(error).__name__, error_code(error)
    said = " ".join(str(error).split()).rstrip(".")
    if code is not None:
        return _refused(code, f"cannot {doing}{ending}: {_message(error)} ({code})")
    if name in _NO_CREDENTIALS:
        return ConfigError(f"no AWS credentials to {doing} ({said}); {_CREDENTIALS}")
    if name == "ProfileNotFound":
        return ConfigError(f"{said}; `aws configure list-profiles` shows the profiles there are")
    if name in ("NoRegionError", "InvalidRegionError", "UnknownRegionError"):
        return ConfigError(f"{said}; give --region with a name such as us-east-1")
    if name == "ReadTimeoutError":
        return DeadlineError(f"cannot {doing}{ending}: nothing came in time; see --timeout-s")
    if name in _UNREACHED:
        return EngineUnavailableError(f"cannot {doing}: {said}; check the region and the way to the network")
    return EngineUnavailableError(f"cannot {doing}{ending}: {name}: {said}")


def _message(error: Exception) -> str:
    """AWS's own words, without what botocore puts around them."""
    return " ".join(str(vars(error)["response"]["Error"].get("Message") or "no message").split()).rstrip(".")


def _refused(code: str, said: str) -> Eagle3Error:
    if code in _NOT_ACCEPTED:
        return ConfigError(f"{said}; AWS does not accept these credentials: {_CREDENTIALS}")
    if code in _DENIED:
        return ConfigError(f"{said}; the role needs sagemaker:InvokeEndpoint on this endpoint")
    if code in _THROTTLED:
        return OverloadedError(f"{said}; ask again after {_RETRY_AFTER_S} s", retry_after_s=_RETRY_AFTER_S)
    if code in ("ValidationError", "ValidationException"):
        return InvalidInputError(said)
    return EngineUnavailableError(said)
