"""An endpoint of embeddings without a model: a vector says which of a few matters a sentence is about.

It prints its port, and appends what it is asked to the file `embedded`. While there is a file `mood`, it does what that
says: `silent` answers nobody, `broken` answers nonsense.
"""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MATTERS = [
    ["bill", "invoice", "owe", "rechnung", "cuenta"],
    ["weather", "rain", "warm", "sun", "regen", "lluvia"],
    ["joke", "scarf", "sing", "witz"],
]


def vector(text):
    return [1.0 if any(word in text.lower() for word in matter) else 0.01 for matter in MATTERS]


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("embedded", "a") as log:
            log.write(json.dumps(asked["input"]) + "\n")
        mood = open("mood").read().strip() if os.path.exists("mood") else ""
        if mood == "silent":
            time.sleep(30)
            return
        data = [{"index": place, "embedding": vector(text)} for place, text in enumerate(asked["input"])]
        if mood == "broken":
            data = data[1:] + [{"index": 0, "embedding": []}] * 2
        answer = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
print(server.server_port, flush=True)
server.serve_forever()
