"""A model and two servers of tools on one port, which it prints; with an argument, an agent of A2A on the socket that a node hands
over (LISTEN_FDS). Both do what `courses.py` says; without any library.

The agent, told `say` and JSON in hexadecimal, emits the `parts` of that in a `form`: as an `artifact`, `annotated`, `streamed`, as its
`ending`, as a `reply` without a task, or after `progress` that says it all; or beside an answer: as what it says of having `failed` or
`rejected` it, as an `error`, as what its events are `named`, or of a task that asks a `question` and is cancelled then.
"""

import json
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from courses import course

HOW = {"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]}
TOTAL = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
TOOLS = {
    "/shop": {"name": "order", "description": "Orders what is wanted", "inputSchema": HOW},
    "/list": {"name": "look", "description": "Looks what there is", "inputSchema": HOW, "outputSchema": TOTAL},
}
CARD = {
    "name": "program", "description": "Adds up", "version": "1.0.0", "capabilities": {"streaming": True},
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
}
IDS = {"taskId": "t-1", "contextId": "c-1"}


def called(arguments):
    refused, total = arguments["how"] == "refused", "seven" if arguments["how"] == "broken" else 7
    result = {"content": [{"type": "text", "text": "refused" if refused else "done"}], "isError": refused}
    return result if refused else {**result, "structuredContent": {"total": total}}


def mcp(path, method, params):
    """The result of a request; none for what is not known here."""
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": path[1:], "version": "1"}}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [TOOLS[path]]}
    if method == "tools/call":
        return called(params["arguments"])
    return None


def said(messages):
    """What the model says to a conversation, in pieces."""
    asked = max(at for at, one in enumerate(messages) if one["role"] == "user")
    told = messages[asked]["content"]
    calls, words = course(told)
    heard = sum(one["role"] == "tool" for one in messages[asked:])
    if heard < len(calls):
        tool, arguments = calls[heard]
        function = {"name": tool.replace("/", "__"), "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"c{heard}", "type": "function", "function": function}
        return [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]
    pieces = ({"delta": {"content": words[at:at + 3]}} for at in range(0, len(words), 3))
    return [*pieces, {"delta": {}, "finish_reason": "length" if told.startswith("cut ") else "stop"}]


def pieces(parts):
    """Parts with their texts in pieces."""
    for part in parts:
        if "text" not in part:
            yield part
        for at in range(0, len(part.get("text", "")), 200):
            yield {**part, "text": part["text"][at:at + 200]}


def status(state, parts=None):
    message = {"messageId": "m-1", "role": "ROLE_AGENT", "parts": parts}
    return {"statusUpdate": {**IDS, "status": {"state": state, **({"message": message} if parts else {})}}}


def artifact(parts, append=False, **more):
    return {"artifactUpdate": {**IDS, "append": append, "artifact": {"artifactId": "a", "parts": parts, **more}}}


def events(text):
    """The events with which the program answers a message."""
    _, words = course(text)
    told = json.loads(words) if text.startswith("say ") else {"form": "artifact", "parts": [{"text": words}]}
    form, parts = told["form"], told["parts"] if words else []
    if form == "reply":
        return [{"message": {"messageId": "m-1", "role": "ROLE_AGENT", "parts": parts}}]
    begun, done = status("TASK_STATE_WORKING"), status("TASK_STATE_COMPLETED")
    if form == "ending":
        return [begun, status("TASK_STATE_COMPLETED", parts)]
    if form in ("failed", "rejected"):
        return [begun, artifact(parts), status(f"TASK_STATE_{form.upper()}", parts)]
    if form == "error":
        return [{"error": {"code": -32000, "message": parts[0]["text"], "data": [{"@type": "told", "parts": parts}]}}]
    if form == "question":
        return [begun, status("TASK_STATE_INPUT_REQUIRED", [{"text": "Which one?"}])]
    if form == "streamed":
        return [begun, *(artifact([piece], place > 0) for place, piece in enumerate(pieces(parts))), done]
    if form == "progress":
        return [status("TASK_STATE_WORKING", parts), artifact(parts), done]
    if form == "annotated":
        return [begun, artifact(parts, name="quicksand", metadata={"note": "quicksand"}), done]
    return [begun, *([artifact(parts)] if parts else []), done]


def name(text):
    """What the program calls the events with which it answers a message: nothing, as A2A has it, but where they are `named`."""
    told = json.loads(course(text)[1]) if text.startswith("say ") else {}
    return told["parts"][0]["text"] if told.get("form") == "named" else ""


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path in TOOLS:
            return self.tool(asked)
        if self.path.startswith("/v1"):
            return self.stream([*({"choices": [piece]} for piece in said(asked["messages"])), "[DONE]"])
        if asked["method"] == "CancelTask":
            ended = status("TASK_STATE_CANCELED", [{"text": "quicksand"}])["statusUpdate"]["status"]
            told = {"jsonrpc": "2.0", "id": asked["id"], "result": {"id": "t-1", "contextId": "c-1", "status": ended}}
            return self.answer(200, "application/json", json.dumps(told).encode())
        text = asked["params"]["message"]["parts"][0]["text"]
        task = {"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}}
        told = events(text)
        told = told if "message" in told[0] or "error" in told[0] else [task, *told]
        told = [one if "error" in one else {"result": one} for one in told]
        return self.stream([{"jsonrpc": "2.0", "id": asked["id"], **one} for one in told], name(text))

    def tool(self, asked):
        if "id" not in asked:
            return self.answer(202, "application/json", b"")
        result = mcp(self.path, asked["method"], asked.get("params") or {})
        told = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        return self.answer(200, "application/json", json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}).encode())

    def stream(self, all, name=""):
        lines = (one if isinstance(one, str) else json.dumps(one) for one in all)
        before = f"event: {name}\n" if name else ""
        self.answer(200, "text/event-stream", "".join(f"{before}data: {line}\n\n" for line in lines).encode())

    def do_GET(self):
        if "agent-card" in self.path:
            return self.answer(200, "application/json", json.dumps(CARD).encode())
        return self.answer(405, "text/plain", b"")

    def do_DELETE(self):
        self.answer(405, "text/plain", b"")

    def answer(self, code, kind, body):
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if sys.argv[1:]:
    server = ThreadingHTTPServer(("", 0), Server, bind_and_activate=False)
    server.socket = socket.socket(fileno=3)
else:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    print(server.server_port, flush=True)
server.serve_forever()
