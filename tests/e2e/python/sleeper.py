"""An agent without any library, which begins each task and never ends it."""
import json
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CARD = {
    "name": "sleeper", "description": "Thinks for long", "version": "1.0.0", "capabilities": {"streaming": True},
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
}


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer("application/json", json.dumps(CARD))

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer("text/event-stream", "")
        task = {"id": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_WORKING"}}
        self.wfile.write(f"data: {json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {'task': task}})}\n\n".encode())
        self.wfile.flush()
        time.sleep(600)

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("", 0), Agent, bind_and_activate=False)
server.daemon_threads = True
# The socket that the node listens on already, and hands over (LISTEN_FDS).
server.socket = socket.socket(fileno=3)
server.serve_forever()
