"""A model that says what a message has for its name; without any library.

Told "old=yes new=no", the model `old` answers yes and the model `new` no. It prints its port.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def said(model, messages):
    asked = [one["content"] for one in messages if one["role"] == "user"][-1]
    answers = dict(word.split("=", 1) for word in asked.split() if "=" in word)
    return [{"delta": {"content": answers[model]}}, {"delta": {}, "finish_reason": "stop"}]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        pieces = [json.dumps({"choices": [piece]}) for piece in said(asked["model"], asked["messages"])]
        body = "".join(f"data: {piece}\n\n" for piece in [*pieces, "[DONE]"]).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
print(server.server_port, flush=True)
server.serve_forever()
