"""An agent of A2A without any library, which prints its port: it says nothing for as many seconds as its message says, and then all."""
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NEVER = threading.Event()


def card(port):
    interface = {"url": f"http://127.0.0.1:{port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": "silent", "description": "Takes its time", "version": "1.0.0", "capabilities": {"streaming": True},
        "supportedInterfaces": [interface], "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "wait", "name": "Wait", "description": "Waits", "tags": ["test"]}],
    }


def answered(asked):
    """The answer to a request: a message, or that there is no such task."""
    if asked["method"] not in ("SendMessage", "SendStreamingMessage"):
        return {"error": {"code": -32001, "message": "no such task"}}
    NEVER.wait(float(asked["params"]["message"]["parts"][0]["text"]))
    return {"result": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "at last"}]}}}


class Agent(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer("application/json", json.dumps(card(self.server.server_address[1])))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answered(asked)})
        if asked["method"] == "SendStreamingMessage":
            return self.answer("text/event-stream", f"data: {said}\n\n")
        return self.answer("application/json", said)

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
print(server.server_address[1], flush=True)
server.serve_forever()
