"""Asks a server for a completion: the check of `helm test`. Standard library alone; reads no environment.

python completion_check.py URL SECONDS [FILE_OF_API_KEYS]. Ends with 0 once /ready says 200 and a conversation gets an
answer of at least one token; else with 1 and the reason on stderr. URL is http:// or https://.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from typing import Any

_PAUSE_S = 2.0
_QUESTION = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0}


def say(text: str) -> None:
    """One line of progress."""
    sys.stdout.write(f"{text}\n")


def api_key(path: str) -> str:
    """The first key of a file with one `name:key` a line; ValueError where it has none."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    keys = [line.partition(":")[2].strip() for line in lines if line and not line.startswith("#")]
    if not keys:
        raise ValueError(f"{path} holds no key")
    return keys[0]


def wait_until_ready(url: str, deadline: float) -> None:
    """Return when /ready says 200; TimeoutError with the last answer after the deadline."""
    while True:
        try:
            with urllib.request.urlopen(f"{url}/ready", timeout=5) as answer:  # noqa: S310 (see URL above)
                say(f"/ready: {answer.status}")
                return
        except (urllib.error.URLError, TimeoutError) as error:
            if time.monotonic() + _PAUSE_S > deadline:
                raise TimeoutError(f"{url}/ready does not say 200: {error}") from error
        time.sleep(_PAUSE_S)


def asked(url: str, deadline: float, key: str | None, body: dict[str, object] | None = None) -> dict[str, Any]:
    """The JSON that the server answers; HTTPError where it refuses."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=max(1.0, deadline - time.monotonic())) as response:  # noqa: S310
        answer: dict[str, Any] = json.load(response)
    return answer


def completion(url: str, deadline: float, key: str | None) -> str:
    """The text of the served model's answer; ValueError where there is none."""
    model = asked(f"{url}/v1/models", deadline, key)["data"][0]["id"]
    answer = asked(f"{url}/v1/chat/completions", deadline, key, {"model": model, **_QUESTION})
    text = answer["choices"][0]["message"]["content"]
    tokens = answer["usage"]["completion_tokens"]
    if not text or tokens < 1:
        raise ValueError(f"the answer is empty: {answer}")
    say(f"{tokens} tokens: {text!r}")
    return str(text)


def main(arguments: list[str]) -> int:
    """The exit code of the check."""
    url, seconds, *keys = arguments
    deadline = time.monotonic() + float(seconds)
    try:
        wait_until_ready(url, deadline)
        completion(url, deadline, api_key(keys[0]) if keys else None)
    except urllib.error.HTTPError as error:
        sys.stderr.write(f"failed: {error}: {error.read().decode(errors='replace')}\n")
        return 1
    except (OSError, ValueError, KeyError, IndexError) as error:
        sys.stderr.write(f"failed: {error!r}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
