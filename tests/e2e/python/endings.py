"""Answers of A2A that end in every way, and what is right to make of each, by the number of its seed.

endings.py serve            an agent whose message is a number: it answers with that ending. It listens where its node tells it to
                            (LISTEN_FDS), or on a port of its own, which it prints.
endings.py check FIRST COUNT URL…   asks the agent at each URL of a gateway for so many endings, and compares.
endings.py right FIRST COUNT        prints what is right for each, as a list: true, false, or null where both are."""
import concurrent.futures
import json
import os
import random
import re
import socket
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOGETHER = 24
PATIENCE = 120
EARLY = ["SUBMITTED", "WORKING"]
OTHER_ENDS = ["FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"]
NAMES = ["result", "statusUpdate", "taskId", "status", "state"]
MEDIA = ["text/html", "application/octet-stream", "image/png", "text/event-streams"]


def task(name, state):
    return {"task": {"id": name, "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}}}


def status(name, state):
    said = {"state": f"TASK_STATE_{state}"}
    return {"statusUpdate": {"taskId": name, "contextId": "c", "status": said}}


def piece(name, text, append):
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": name, "contextId": "c", "artifact": artifact, "append": append}}


def event(result, request=1):
    return "data: " + json.dumps({"jsonrpc": "2.0", "id": request, "result": result}) + "\n\n"


class Ending:
    """An answer: its code, its kind of media, its text, whether more bytes are promised, a pause, what GetTask says afterwards (none:
    there is no such task), and whether its agent completed it (none: it may be taken for both)."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.name, self.code, self.media, self.pause = f"t-{seed}", 200, "text/event-stream", 0.0
        self.is_broken, self.then = self.dice.random() < 0.3, None
        self.course = [task(self.name, self.dice.choice(EARLY))]
        for at in range(self.dice.randrange(4)):
            self.course.append(piece(self.name, f"piece {at} ", at > 0))
        self.text, self.right = self.whole(status(self.name, "COMPLETED")), True
        ways = [self.cut, self.empty, self.reordered, self.late, self.doubled, self.of_other_media, self.of_other_names,
                self.of_another, self.refused, self.ended_otherwise, self.odd_beside, self.as_it_is]
        ways[seed % len(ways)]()

    def whole(self, *last):
        return "".join(event(one) for one in [*self.course, *last])

    def as_it_is(self):
        pass

    def follow(self):
        """The answer ended early, after it named its task: what counts is what is told of the task."""
        self.then = self.dice.choice([None, "FAILED", "CANCELED", "COMPLETED"])
        self.right = self.then == "COMPLETED"

    def cut(self):
        first = len(event(self.course[0])) - 2
        end = len(self.text) - 2
        at = self.dice.randrange(end)
        self.text, self.right = self.text[:at], False
        if at >= first:
            self.follow()

    def empty(self):
        nothing = ["", "\n\n", ": nothing\n\n", "data:\n\n", "data: {}\n\n", "null", "[]"]
        self.text, self.right = self.dice.choice(nothing), False

    def reordered(self):
        self.course.reverse()
        last = self.dice.choice(["COMPLETED", "FAILED"])
        self.text, self.right = self.whole(status(self.name, last)), last == "COMPLETED"

    def late(self):
        self.pause = self.dice.random()

    def doubled(self):
        done = "COMPLETED"
        ends = self.dice.choice([(done, done), (done, "FAILED"), ("FAILED", done), ("CANCELED", done)])
        self.text, self.right = self.whole(*(status(self.name, end) for end in ends)), ends[0] == "COMPLETED"

    def of_other_media(self):
        self.media = self.dice.choice(MEDIA)
        if self.dice.random() < 0.5:
            self.text, self.right = "<html>TASK_STATE_COMPLETED</html>", False
        else:
            self.right = None

    def of_other_names(self):
        name = self.dice.choice(NAMES)
        wrong = self.dice.choice([name.upper(), f"{name}s", f"_{name}"])
        last = event(status(self.name, "COMPLETED"))
        self.text = self.whole() + re.sub(f'"{name}":', f'"{wrong}":', last)
        self.follow()

    def of_another(self):
        self.text = self.whole(status("t-other", "COMPLETED"), task("t-other", "COMPLETED"))
        self.follow()

    def refused(self):
        self.code, self.right = self.dice.choice([400, 401, 403, 404, 500, 502, 503]), False

    def ended_otherwise(self):
        end = self.dice.choice(OTHER_ENDS)
        self.text, self.right = self.whole(self.dice.choice([status, task])(self.name, end)), False

    def odd_beside(self):
        odd = self.dice.choice(["data:\n\n", "event: ping\ndata: {}\n\n", ": beat\n\n", "id: 7\nretry: 1\n\n", "data: [DONE]\n\n"])
        at = self.dice.randrange(len(self.course) + 1)
        events = [event(one) for one in [*self.course, status(self.name, "COMPLETED")]]
        self.text = "".join([*events[:at], odd, *events[at:], odd])


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        interface = {"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        if self.server.server_address and self.server.address_family == socket.AF_INET:
            interface["url"] = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.answer(200, "application/json", json.dumps({
            "name": "endings", "description": "Ends", "version": "1.0.0", "capabilities": {"streaming": True},
            "supportedInterfaces": [interface], "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "end", "name": "End", "description": "Ends", "tags": ["test"]}]}))

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked["method"] == "SendStreamingMessage":
            ending = Ending(int(asked["params"]["message"]["parts"][0]["text"]))
            time.sleep(ending.pause)
            return self.answer(ending.code, ending.media, ending.text, 9 if ending.is_broken else 0)
        outcome = {"error": {"code": -32001, "message": "no such task"}}
        name = str(asked["params"].get("id"))
        if asked["method"] == "GetTask" and re.fullmatch(r"t-\d+", name):
            then = Ending(int(name[2:])).then
            if then is not None:
                outcome = {"result": task(name, then)["task"]}
        self.answer(200, "application/json", json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}))

    def answer(self, code, media, text, missing=0):
        """With its length, or that of more bytes than come."""
        self.send_response(code)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(text.encode()) + missing))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def serve():
    if os.environ.get("LISTEN_FDS") == "1":
        server = ThreadingHTTPServer(("", 0), Agent, bind_and_activate=False)
        server.socket = socket.socket(fileno=3)
        server.address_family = server.socket.family
    else:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
        print(server.server_address[1], flush=True)
    server.serve_forever()


def outcome(url, seed):
    """The state of the task that a message began; `message` where one answered, the error where it was refused."""
    message = {"messageId": f"{seed}-{random.getrandbits(64):x}", "role": "ROLE_USER", "parts": [{"text": str(seed)}]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    asked = urllib.request.Request(url, data=body.encode(), headers=headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        said = json.load(answer)
    if "error" in said:
        return "refused: " + said["error"]["message"]
    result = said["result"]
    return "message" if "message" in result else result["task"]["status"]["state"]


def check(first, count, urls):
    asked = [(url, seed) for seed in range(first, first + count) for url in urls]
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        found = list(pool.map(lambda one: outcome(*one), asked))
    wrong, completed = [], 0
    for (url, seed), state in zip(asked, found):
        is_completed = state in ("TASK_STATE_COMPLETED", "message")
        completed += is_completed
        ending = Ending(seed)
        if ending.right is not None and ending.right != is_completed:
            told = f"{ending.code} {ending.media} {ending.text!r}, then {ending.then}"
            wrong.append(f"{url}, seed {seed}: {state}, but right is {ending.right}: {told}")
    print(f"{completed} of {len(asked)} completed")
    if wrong:
        sys.exit(f"{len(wrong)} are wrong:\n" + "\n".join(wrong[:20]))
    assert len(asked) / 5 < completed < len(asked) * 4 / 5, "the dice are loaded"
    print("ENDINGS OK")


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    if verb == "serve":
        serve()
    elif verb == "check":
        check(int(rest[0]), int(rest[1]), rest[2:])
    else:
        print(json.dumps([Ending(seed).right for seed in range(int(rest[0]), int(rest[0]) + int(rest[1]))]))
