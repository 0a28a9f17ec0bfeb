"""An endpoint of two models, which prints its port: both say their names, and `hasty` breaks off its answers (`length`)."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        finish = "length" if model == "hasty" else "stop"
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for piece in [{"delta": {"content": model}}, {"delta": {}, "finish_reason": finish}]:
            self.wfile.write(b"data: " + json.dumps({"choices": [piece]}).encode() + b"\n\n")
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
print(server.server_port, flush=True)
server.serve_forever()
