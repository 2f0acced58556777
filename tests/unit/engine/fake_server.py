"""A program that behaves like `vllm serve` or SGLang on the wire, for tests of the engines in front of them.

Run as a command with the arguments that our engines generate. The first prompt token chooses what happens:
10 answers, 11 answers slowly for ever, 12 kills the program in the middle, 13 is refused, 14 fails in the stream,
15 breaks off, 16 says `abort`. `--behave WORD` chooses what happens at the start. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ["zero", " one", " two", " three"]
OPEN = {"now": 0, "served": 0}


def option(name, default=""):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def vllm_events(body):
    for index, word in enumerate(WORDS):
        choice = {"text": word, "token_ids": [20 + index], "finish_reason": "stop" if index == 3 else None}
        if "logprobs" in body:
            top = {f"token_id:{20 + index}": -0.5, "token_id:99": -1.5, "token_id:98": -2.5}
            choice["logprobs"] = {
                "tokens": [f"token_id:{20 + index}"],
                "token_logprobs": [-0.5],
                "top_logprobs": [top],
            }
        yield {"choices": [choice]}
    spoken = {
        "num_spec_steps": 2,
        "num_accepted_draft_tokens": 1,
        "num_draft_tokens": 6,
        "acceptance_histogram": [1, 1, 0, 0],
    }
    yield {"choices": [], "usage": {}, "metrics": {"speculative_decoding": spoken}, "body": body}


def sglang_events(body):
    for index in range(len(WORDS)):
        meta = {"finish_reason": {"type": "length"} if index == 3 else None, "spec_verify_ct": 2}
        if "return_logprob" in body:
            meta["output_token_logprobs"] = [[-0.5, 20 + at, None] for at in range(index + 1)]
            meta["output_top_logprobs"] = [[[-0.5, 20 + at, None], [-1.5, 99, None]] for at in range(index + 1)]
        yield {
            "text": "".join(WORDS[: index + 1]),
            "output_ids": [20 + at for at in range(index + 1)],
            "meta_info": meta,
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/health":
            self.answer(200, "")
        elif self.path == "/version":
            self.answer(200, '{"version": "9.9"}')
        elif self.path == "/metrics":
            self.answer(
                200,
                "# TYPE vllm:generation_tokens counter\n"
                f'vllm:generation_tokens_total{{engine="0"}} {OPEN["served"] * 4}\n'
                f"vllm:num_requests_running {OPEN['now']}\n",
            )
        else:
            self.answer(404, "")

    def event(self, value):
        self.wfile.write(f"{len(value):x}\r\n{value}\r\n".encode())
        self.wfile.flush()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        ids = body.get("prompt") or body.get("input_ids")
        if ids[0] == 13:
            self.answer(400, '{"error": {"message": "no such thing"}}')
            return
        OPEN["now"] += 1
        try:
            self.stream(ids[0], vllm_events(body) if self.path == "/v1/completions" else sglang_events(body))
        except BrokenPipeError:
            print("WARNING the client went away", flush=True)
        finally:
            OPEN["now"] -= 1
            OPEN["served"] += 1

    def stream(self, kind, events):
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            self.event(f"data: {json.dumps(event)}\n\n")
            if kind == 11:
                while True:
                    time.sleep(0.02)
                    self.event(f"data: {json.dumps(event)}\n\n")
            if kind == 12:
                os._exit(3)
            if kind == 14:
                self.event('data: {"error": {"message": "the grammar is wrong", "code": 400}}\n\n')
                return
            if kind == 15:
                self.close_connection = True
                return
            if kind == 16:
                self.event('data: {"choices": [{"text": "", "token_ids": [], "finish_reason": "abort"}]}\n\n')
                self.event("data: [DONE]\n\n")
                return
        self.event("data: [DONE]\n\n")
        self.event("")


def main():
    behave = option("--behave")
    if behave == "broken":
        print("Traceback: ModuleNotFoundError: No module named 'sglang'", flush=True)
        sys.exit(1)
    if behave == "crash":
        print("RuntimeError: not enough memory", flush=True)
        sys.exit(1)
    if behave == "old" and "--shutdown-timeout" in sys.argv:
        print("error: unrecognized arguments: --shutdown-timeout 25", flush=True)
        sys.exit(2)
    print("INFO quiet", flush=True)
    print("WARNING loud", flush=True)
    ThreadingHTTPServer(("127.0.0.1", int(option("--port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
