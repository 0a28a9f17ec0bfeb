"""A model and a server of tools, on one port, that outlive the nodes which ask them; without any library.

The model (`/v1/chat/completions`), told "RUN STEPS", wants the tool `add` called STEPS times, then says what it heard. Told
"AGENT … RUN STEPS", it wants that agent told the rest. It goes by the conversation alone, and appends the run to the file `asked`.

The tools (`/mcp`, MCP over HTTP), `add` and `word`, which is given both in one word, RUN.STEP, append each call that reaches them
to the file `calls`: its run, its step and the key that came with it. A key that was seen before does nothing a second time (`effect`
is false), as a server does that is declared `keyed`.

It prints its port. While there is a file `hold-model` or `hold-tool`, the one or the other answers nobody, once what was asked
is written down; `hold-step-3` holds calls of that step alone.
"""

import json
import pathlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ASKED, CALLS, WRITING = pathlib.Path("asked"), pathlib.Path("calls"), threading.Lock()
SEEN = set()
TOOL = {
    "name": "add", "description": "Counts a step",
    "inputSchema": {
        "type": "object",
        "properties": {"run": {"type": "string"}, "step": {"type": "integer"}},
        "required": ["run", "step"],
    },
}
WORD = {
    "name": "word", "description": "Counts a step",
    "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}


def held(name):
    while pathlib.Path(name).exists():
        time.sleep(0.01)


def noted(file, what):
    with file.open("a") as log:
        log.write(json.dumps(what) + "\n")


def counted(params):
    arguments = params["arguments"]
    if params["name"] == "word":
        run, step = arguments["word"].rsplit(".", 1)
        arguments = {"run": run, "step": int(step)}
    key = params.get("_meta", {}).get("dev.althing/call", {}).get("idempotencyKey")
    with WRITING:
        effect = key is None or key not in SEEN
        SEEN.add(key)
        noted(CALLS, {**arguments, "key": key, "effect": effect})
    held("hold-tool")
    held(f"hold-step-{arguments['step']}")
    return {"content": [{"type": "text", "text": f"step {arguments['step']}"}], "isError": False}


def mcp(method, params):
    """The result of a request; none for what is not known here."""
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "count", "version": "1"}}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [TOOL, WORD]}
    if method == "tools/call":
        return counted(params)
    return None


def said(messages):
    """What the model says to a conversation, in pieces."""
    asked = max(at for at, one in enumerate(messages) if one["role"] == "user")
    *agent, run, steps = messages[asked]["content"].split()
    noted(ASKED, {"run": run})
    held("hold-model")
    heard = [one["content"] for one in messages[asked:] if one["role"] == "tool"]
    if len(heard) == (1 if agent else int(steps)):
        pieces = ["heard", *(f" [{one}]" for one in heard)]
        return [*({"delta": {"content": piece}} for piece in pieces), {"delta": {}, "finish_reason": "stop"}]
    if agent:
        name, arguments = f"agents__{agent[0]}", json.dumps({"message": " ".join([*agent[1:], run, steps])})
    else:
        name, arguments = "count__add", json.dumps({"run": run, "step": len(heard) + 1})
    call = {"index": 0, "id": f"c{len(heard)}", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/mcp":
            return self.tool(asked)
        pieces = [json.dumps({"choices": [piece]}) for piece in said(asked["messages"])]
        body = "".join(f"data: {piece}\n\n" for piece in [*pieces, "[DONE]"])
        return self.answer(200, "text/event-stream", body.encode())

    def tool(self, asked):
        if "id" not in asked:
            return self.answer(202, "application/json", b"")
        result = mcp(asked["method"], asked.get("params") or {})
        told = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        return self.answer(200, "application/json", json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}).encode())

    def do_GET(self):
        self.answer(405, "text/plain", b"")

    do_DELETE = do_GET

    def answer(self, status, kind, body):
        # Who asked may be gone: it was killed.
        try:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
print(server.server_port, flush=True)
server.serve_forever()
