"""A model that answers what it is told to answer, and something else once that was refused; without any library.

Told "FIRST SECOND", both in hexadecimal, it answers the first, in pieces of three letters; where the message says that an
answer was refused, the second. It prints its port.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REFUSED = "Your answer to this message was refused"


def said(messages):
    asked = [one["content"] for one in messages if one["role"] == "user"][-1]
    told, refused, _ = asked.partition(REFUSED)
    answer = bytes.fromhex(told.split()[1 if refused else 0]).decode()
    pieces = [answer[at:at + 3] for at in range(0, len(answer), 3)]
    return [*({"delta": {"content": piece}} for piece in pieces), {"delta": {}, "finish_reason": "stop"}]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        pieces = [json.dumps({"choices": [piece]}) for piece in said(asked["messages"])]
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
