"""An endpoint without a model: `call NAME ARGUMENTS` has it want that tool called, `cite` has it cite the first passage
that it was handed, `Count …` has it say as many tokens as it may, at most 500 in a second, else it says again what it heard.
Its embeddings are counts of letters.

It prints its port, and appends what it is asked to the file `asked`, headers included. With an argument it answers only
those who send that bearer token.
"""

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with open("asked", "a") as log:
            log.write(json.dumps({"headers": dict(self.headers), "body": asked}) + "\n")
        if sys.argv[1:] and self.headers.get("authorization") != f"Bearer {sys.argv[1]}":
            return self.send_error(401)
        if self.path.endswith("/embeddings"):
            return self.embed(asked["input"])
        last = asked["messages"][-1]
        words = last["content"].split(" ", 2)
        if last["role"] == "user" and words[0] == "call":
            call = {"index": 0, "id": "1", "type": "function", "function": {"name": words[1], "arguments": words[2]}}
            pieces = [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]
        elif last["role"] == "user" and words[0] == "cite":
            handed = " ".join(said["content"] for said in asked["messages"] if said["role"] == "system")
            mark = words[1] if words[1].startswith("[#") else re.findall(r"\n\[#[0-9a-f]{12}\]", handed)[0].strip()
            # In two pieces, cut in the middle of the mark.
            pieces = [{"delta": {"content": piece}} for piece in ("So it is kept " + mark[:5], mark[5:])]
            pieces.append({"delta": {}, "finish_reason": "stop"})
        elif last["role"] == "user" and words[0] == "Count":
            pieces = [{"delta": {"content": f"{number}\n"}} for number in range(asked["max_tokens"])]
            pieces.append({"delta": {}, "finish_reason": "length"})
        else:
            pieces = [{"delta": {"content": "heard: " + last["content"]}}, {"delta": {}, "finish_reason": "stop"}]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"data: " + json.dumps({"choices": [piece]}).encode() + b"\n\n")
            if words[0] == "Count":
                time.sleep(0.002)
        self.wfile.write(b"data: [DONE]\n\n")

    def embed(self, texts):
        letters = "abcdefghijklmnopqrstuvwxyz"
        vectors = [[float(text.lower().count(letter)) for letter in letters] for text in texts]
        data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
        body = json.dumps({"object": "list", "data": data, "model": "letters"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
print(server.server_port, flush=True)
server.serve_forever()
