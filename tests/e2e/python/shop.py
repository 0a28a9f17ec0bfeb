"""An agent without any library, which says the word that it was started with; started with "fails", each of its tasks fails, and started
with "ends", it ends at the first message, before it answers."""
import json
import os
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORD = sys.argv[1]
CARD = {
    "name": "shop", "description": "Sells mugs", "version": "1.0.0", "capabilities": {"streaming": True},
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
}
IDS = {"taskId": "t-1", "contextId": "c-1"}


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("application/json", json.dumps(CARD))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if WORD == "ends":
            os._exit(7)
        self.answer("text/event-stream", "")
        self.event({"task": {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}})
        if WORD == "fails":
            return self.event({"statusUpdate": {**IDS, "status": {"state": "TASK_STATE_FAILED"}}})
        self.event({"artifactUpdate": {**IDS, "artifact": {"artifactId": "a", "parts": [{"text": WORD}]}}})
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


server = ThreadingHTTPServer(("", 0), Agent, bind_and_activate=False)
# The socket that the node listens on already, and hands over (LISTEN_FDS).
server.socket = socket.socket(fileno=3)
server.serve_forever()
