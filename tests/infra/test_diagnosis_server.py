"""What a server's own metrics show: the injected cause is the one that is named."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from diagnosis_doubles import PROJECT, causes, context
from infra.diagnosis.collectors import COLLECTORS
from infra.diagnosis.diagnose import diagnose
from infra.diagnosis.evidence import ServerAccess
from infra.diagnosis.page import Page

STEADY = {
    "eagle3_queue_depth": 0, "eagle3_running": 1, "eagle3_output_tokens_total": 1000, "eagle3_cycles_total": 500,
    "eagle3_cycle_tokens_total": 1000, "eagle3_drafted_cycles_total": 500, "eagle3_drafted_cycle_tokens_total": 1000,
    "eagle3_prompt_tokens_total": 300, "eagle3_engine_restarts_total": 0,
    "eagle3_emf_dropped_total": 0, 'eagle3_accepted_tokens_total{depth="1"}': 300,
    'eagle3_accepted_tokens_total{depth="2"}': 150,
}  # fmt: skip
RUNNING = {
    "eagle3_output_tokens_total": 100, "eagle3_cycles_total": 50, "eagle3_cycle_tokens_total": 100,
    "eagle3_drafted_cycles_total": 50, "eagle3_drafted_cycle_tokens_total": 100,
    'eagle3_accepted_tokens_total{depth="1"}': 30, 'eagle3_accepted_tokens_total{depth="2"}': 15,
}  # fmt: skip


@contextmanager
def server(first, grows, *, ready=None, text=None):
    """A server whose second reading is the first and what grew; `ready` is why it is not."""
    readings = [first, {name: value + grows.get(name, 0) for name, value in (dict.fromkeys(grows, 0) | first).items()}]
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("Authorization")))
            status, body = 200, "{}"
            if self.path == "/ready" and ready is not None:
                status, body = 503, f'{{"status": "not ready", "reason": "{ready}"}}'
            if self.path == "/metrics":
                reading = readings[min(1, sum(path == "/metrics" for path, _ in asked) - 1)]
                body = text or "".join(f"{name} {value}\n" for name, value in reading.items())
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}", asked
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


def looked(alarm, url, key=None):
    return diagnose(
        context(alarm, aws=False, server=ServerAccess(url=url, key=key)), COLLECTORS, Page.read(PROJECT, alarm).steps()
    )


def found(alarm, first=STEADY, grows=RUNNING, **more):
    with server(first, grows, **more) as (url, _):
        report = looked(alarm, url)
    assert not report.evidence.not_seen, report.evidence.not_seen
    return causes(report)


SERVING = ("e2e-latency-p99", "acceptance-rate-low", "queue-growing", "gpu-memory-high", "no-data")


@pytest.mark.parametrize("alarm", SERVING)
def test_healthy_server_has_no_cause(alarm):
    """A server that answers, accepts and has no queue explains no alarm."""
    assert found(alarm) == []


def test_draft_of_another_target():
    """Cycles that accept nothing: tau is 1."""
    grows = RUNNING | dict.fromkeys((name for name in RUNNING if "accepted" in name), 0)
    grows |= {"eagle3_drafted_cycle_tokens_total": 50, "eagle3_output_tokens_total": 50}
    assert found("acceptance-rate-low", grows=grows) == ["the draft is of another target"]


@pytest.mark.parametrize("alarm", ["acceptance-rate-low", "e2e-latency-p99"])
def test_few_cycles_say_nothing(alarm):
    """The first answer after a start accepts little or much by chance: a handful of cycles is no evidence."""
    few = {"eagle3_drafted_cycles_total": 4, "eagle3_drafted_cycle_tokens_total": 4, "eagle3_output_tokens_total": 5}
    assert found(alarm, STEADY | few, {}) != ["the draft is of another target"]
    assert found(alarm, STEADY | few | {"eagle3_running": 0}, {}) == []


def test_idle_server_is_judged_by_what_it_did():
    """Without a cycle between the readings, those since the start count."""
    whole = {"eagle3_drafted_cycle_tokens_total": 505, 'eagle3_accepted_tokens_total{depth="1"}': 5,
             'eagle3_accepted_tokens_total{depth="2"}': 0, "eagle3_running": 0}  # fmt: skip
    assert found("acceptance-rate-low", STEADY | whole, {}) == ["the draft is of another target"]


LATE = {
    "eagle3_e2e_latency_ms_sum": 9000.0, "eagle3_e2e_latency_ms_count": 9, "eagle3_time_to_first_token_ms_count": 9,
    "eagle3_request_output_tokens_sum": 900, "eagle3_request_output_tokens_count": 9,
}  # fmt: skip


@pytest.mark.parametrize(("first_ms", "cause"), [(8000.0, "long prompts"), (500.0, "longer answers")])
def test_late_answers(first_ms, cause):
    """Answers that end between the readings are late by their first token, or by their length."""
    assert found("e2e-latency-p99", grows=RUNNING | LATE | {"eagle3_time_to_first_token_ms_sum": first_ms}) == [cause]


def test_answers_that_were_late_once():
    """What ended before the first reading is no cause now."""
    before = LATE | {"eagle3_time_to_first_token_ms_sum": 8000.0}
    assert found("e2e-latency-p99", STEADY | before) == []


def test_draft_that_never_accepted():
    """The same where no depth was ever accepted, so that the counter does not exist."""
    first = {name: value for name, value in STEADY.items() if "accepted" not in name}
    grows = {"eagle3_drafted_cycles_total": 50, "eagle3_drafted_cycle_tokens_total": 50}
    assert found("acceptance-rate-low", first, grows) == ["the draft is of another target"]


LOADED = {"eagle3_cycles_total": 500, "eagle3_cycle_tokens_total": 560, "eagle3_output_tokens_total": 560}


def drafted(cycles, tokens, accepted):
    """Of the cycles of LOADED, those that drafted, their tokens, and how many accepted at depth 1."""
    return LOADED | {
        "eagle3_drafted_cycles_total": cycles, "eagle3_drafted_cycle_tokens_total": tokens,
        'eagle3_accepted_tokens_total{depth="1"}': accepted,
    }  # fmt: skip


@pytest.mark.parametrize("grows", [drafted(60, 120, 40), drafted(4, 4, 0), drafted(0, 0, 0)])
def test_plain_cycles_say_nothing_about_the_draft(grows):
    """Under load nearly all cycles are plain: that alone is no cause, whether a few cycles drafted well or none did."""
    assert found("acceptance-rate-low", grows=grows) == []


@pytest.mark.parametrize(
    ("grows", "cause"),
    [
        (drafted(60, 70, 10), "drafting does not pay at this load"),
        (drafted(60, 61, 1), "the draft is of another target"),
        (drafted(400, 500, 100), "the tree is deeper than it pays"),
    ],
    ids=["few cycles, right at times", "few cycles, never right", "most cycles"],
)
def test_hardly_any_drafting(grows, cause):
    """Few cycles draft, and tau of those is low: the engine's own choice, unless the draft is hardly ever right."""
    assert found("acceptance-rate-low", grows=grows)[:1] == [cause]


@pytest.mark.parametrize("alarm", ["queue-growing", "e2e-latency-p99"])
def test_stalled_engine(alarm):
    """Requests in the engine, and no counter moves: the engine, not the queue behind it."""
    assert found(alarm, STEADY | {"eagle3_queue_depth": 9}, {}) == ["the engine is stalled"]


def test_idle_server_is_not_stalled():
    """Without requests nothing has to move."""
    assert found("queue-growing", STEADY | {"eagle3_running": 0}, {}) == []


def test_full_queue():
    """Requests wait although tokens come: more than this server can do."""
    grows = RUNNING | {'eagle3_requests_rejected_total{reason="queue_full"}': 5}
    assert found("queue-growing", STEADY | {"eagle3_queue_depth": 9}, grows) == [
        "more requests than this server can do"
    ]
    assert found("e2e-latency-p99", STEADY | {"eagle3_queue_depth": 9}, grows) == ["requests wait"]


def test_engine_that_ends():
    """An engine that was started again between the readings."""
    grows = {"eagle3_engine_restarts_total": 1}
    assert found("queue-growing", STEADY | {"eagle3_running": 0}, grows) == ["the engine ends again and again"]


def test_speculation_off():
    """Tokens without cycles, or with plain ones alone: plain decoding."""
    for cycles in (0, 100):
        grows = {"eagle3_output_tokens_total": 100, "eagle3_cycles_total": cycles}
        assert found("e2e-latency-p99", grows=grows) == ["speculation is off"]


def test_engine_not_ready():
    """A server that is there and not ready says why."""
    assert found("no-data", ready="the engine is loading") == ["the engine is not ready"]


def test_dropped_reports():
    """A server that answers and cannot deliver its records."""
    assert found("no-data", STEADY | {"eagle3_emf_dropped_total": 40}) == ["reports are dropped"]


def closed_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_killed_server():
    """A refused connection is the cause of silence, and what could not be read for it is said."""
    report = looked("no-data", f"http://127.0.0.1:{closed_port()}")
    assert causes(report) == ["the server does not answer"]
    assert len(report.evidence.not_seen) == 2
    assert all("does not answer" in one.reason for one in report.evidence.not_seen)


def test_not_prometheus():
    """Something else at the address is said, and is no cause."""
    with server(STEADY, RUNNING, text="<html>hello {</html>") as (url, _):
        report = looked("queue-growing", url)
    assert causes(report) == []
    assert "not Prometheus text" in report.evidence.not_seen[0].reason


def test_key_is_sent_and_never_told():
    """The bearer key goes to the server, and into nothing that is printed."""
    with server(STEADY, RUNNING) as (url, asked):
        report = looked("queue-growing", url, key="secret-key")
    assert {header for _, header in asked} == {"Bearer secret-key"}
    assert {path for path, _ in asked} == {"/health", "/ready", "/metrics"}
    assert "secret-key" not in report.as_text() + str(report.as_json()) + repr(report.context)
