"""An endpoint without a model that chooses from a numbered list: the number of the line that has the word of its first
argument; where no line has it, it says that argument.

It prints its port, and appends what it is asked to the file `asked`.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("asked", "a") as log:
            log.write(json.dumps(asked) + "\n")
        wanted = sys.argv[1]
        lines = asked["messages"][-1]["content"].splitlines()
        hits = [line.split(".")[0] for line in lines if line[:1].isdigit() and wanted in line]
        pieces = [{"delta": {"content": hits[0] if hits else wanted}}, {"delta": {}, "finish_reason": "stop"}]
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
