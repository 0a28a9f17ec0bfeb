"""An agent without any library: says a word every 50 ms until it is cancelled, which it notes in the file `cancelled`.
It starts a child, to see that the child goes with it. Told "quick", it says one word and is done; told "late", it says nothing for a second, but notes
in the file `asked` that it was asked."""
import json
import pathlib
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CANCELLED = threading.Event()
CARD = {
    "name": "slow", "description": "Takes its time", "version": "1.0.0", "capabilities": {"streaming": True},
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
}
IDS = {"taskId": "t-1", "contextId": "c-1"}


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("application/json", json.dumps(CARD))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["method"] == "CancelTask":
            pathlib.Path("cancelled").touch()
            CANCELLED.set()
            task = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_CANCELED"}}
            return self.answer("application/json", json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": task}))
        said = asked["params"]["message"]["parts"][0]["text"]
        if said == "late":
            pathlib.Path("asked").touch()
            CANCELLED.wait(1)
        self.answer("text/event-stream", "")
        self.event({"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}})
        for at in range(1 if said == "quick" else 1200):
            if CANCELLED.wait(0.05):
                return None
            artifact = {"artifactId": "a", "parts": [{"text": f"{at} "}]}
            self.event({"artifactUpdate": {**IDS, "artifact": artifact, "append": at > 0}})
        return self.event({"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_COMPLETED"}}})

    def event(self, result):
        self.wfile.write(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': result})}\n\n".encode())
        self.wfile.flush()

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


subprocess.Popen(["sleep", "600"])
server = ThreadingHTTPServer(("", 0), Agent, bind_and_activate=False)
# The socket that the node listens on already, and hands over (LISTEN_FDS).
server.socket = socket.socket(fileno=3)
server.serve_forever()
