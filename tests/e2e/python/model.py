"""An endpoint without a model: `call NAME ARGUMENTS` has it want that tool called, else it says again what it heard.

It prints its port, and appends what it is asked to the file `asked`, headers included.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("asked", "a") as log:
            log.write(json.dumps({"headers": dict(self.headers), "body": asked}) + "\n")
        last = asked["messages"][-1]
        words = last["content"].split(" ", 2)
        if last["role"] == "user" and words[0] == "call":
            call = {"index": 0, "id": "1", "type": "function", "function": {"name": words[1], "arguments": words[2]}}
            pieces = [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]
        else:
            pieces = [{"delta": {"content": "heard: " + last["content"]}}, {"delta": {}, "finish_reason": "stop"}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"data: " + json.dumps({"choices": [piece]}).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
print(server.server_port, flush=True)
server.serve_forever()
