"""Closed-loop users against one server, in a process of its own: `python serve_worker.py < spec.json > result.json`.

Run by path and importing nothing of eagle3: locust patches the standard library for gevent when it is imported, and
that must neither meet torch nor leave this process. Knows nothing of what serves. Each user sends its next request
when the last one ended; times are seconds after the load began. Invariant: every request that was sent is in the
result, as an answer or as an error.
"""

from __future__ import annotations

from locust import HttpUser, constant, task  # first: it patches what is imported after it
from locust.env import Environment
from locust.exception import StopUser

# isort: split
import json
import sys
import time
from typing import Any

_CONNECT_S = 10.0
_REFUSED_S = 0.05  # before the next request to a server that refuses at once


class Load:
    """What is to be sent, and what came back."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.answers: list[dict[str, Any]] = []
        self.errors: dict[str, int] = {}
        self.users_done = 0
        self._next = 0
        self._start_s = time.perf_counter()

    def now_s(self) -> float:
        """Seconds since the load began."""
        return time.perf_counter() - self._start_s

    def take(self) -> str | None:
        """The next prompt, or None when enough was sent."""
        count, duration_s = self.spec["requests"], self.spec["duration_s"]
        # Every user sends once at least, so that a level always has its number of users.
        if self._next >= self.spec["concurrency"] and count is None and self.now_s() >= duration_s:
            return None
        if count is not None and self._next >= count:
            return None
        prompt: str = self.spec["prompts"][self._next % len(self.spec["prompts"])]
        self._next += 1
        return prompt

    def body(self, prompt: str) -> dict[str, Any]:
        """The request; greedy, so that every system is asked for the same text."""
        return {
            "model": self.spec["model"],
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.spec["max_tokens"],
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def failed(self, what: str) -> None:
        """Count an error by its kind."""
        self.errors[what] = self.errors.get(what, 0) + 1


class BrokenAnswerError(Exception):
    """A stream that ended without its usage or its end mark, or carried an error."""


def read_stream(lines: Any, now_s: Any) -> dict[str, Any]:
    """Times of the chunks that carried text, and the token counts of the last chunk."""
    chunk_s: list[float] = []
    usage = None
    done = False
    for line in lines:
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            done = True
            break
        chunk = json.loads(data)
        if "error" in chunk:
            raise BrokenAnswerError("an error in the stream")
        if any(choice.get("delta", {}).get("content") for choice in chunk.get("choices", ())):
            chunk_s.append(now_s())
        usage = chunk.get("usage") or usage
    if not done:
        raise BrokenAnswerError("a stream without its end")
    if usage is None:
        raise BrokenAnswerError("a stream without usage")
    return {
        "end_s": now_s(),
        "chunk_s": chunk_s,
        "prompt_tokens": usage["prompt_tokens"],
        "output_tokens": usage["completion_tokens"],
    }


def user_class(load: Load) -> type[HttpUser]:
    """Users of this load; locust makes as many as the level wants."""

    class ChatUser(HttpUser):
        """One reader who asks again as soon as the answer is complete."""

        wait_time = constant(0)  # type: ignore[no-untyped-call, unused-ignore]

        def on_stop(self) -> None:
            load.users_done += 1

        @task
        def ask(self) -> None:
            """Send one request and read its stream."""
            prompt = load.take()
            if prompt is None:
                raise StopUser
            start_s = load.now_s()
            with self.client.post(
                "/v1/chat/completions",
                json=load.body(prompt),
                headers={"Accept-Encoding": "identity", **load.spec["headers"]},
                stream=True,
                catch_response=True,
                timeout=(_CONNECT_S, load.spec["timeout_s"]),
            ) as response:
                if response.status_code != 200:
                    what = f"HTTP {response.status_code}" if response.status_code else _cause(response)
                    load.failed(what)
                    response.failure(what)
                    time.sleep(_REFUSED_S)
                    return
                try:
                    answer = read_stream(response.iter_lines(chunk_size=None), load.now_s)
                except (BrokenAnswerError, OSError, ValueError, KeyError, TypeError) as error:
                    what = str(error) if isinstance(error, BrokenAnswerError) else type(error).__name__
                    load.failed(what)
                    response.failure(what)
                    return
                load.answers.append({"start_s": start_s, **answer})
                response.success()

    return ChatUser


def _cause(response: Any) -> str:
    error = getattr(response, "error", None)
    return type(error).__name__ if error is not None else "no response"


def main() -> None:
    """Read the specification, put the load on, write what happened."""
    load = Load(json.load(sys.stdin))
    users = load.spec["concurrency"]
    environment = Environment(user_classes=[user_class(load)], host=load.spec["url"])
    runner = environment.create_local_runner()
    runner.start(users, spawn_rate=users)
    while load.users_done < users:
        time.sleep(0.02)
    runner.quit()
    json.dump({"answers": load.answers, "errors": load.errors}, sys.stdout)


if __name__ == "__main__":
    main()
