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
BEATS = ["data: ping\n\n", "data: {\"type\": \"heartbeat\"}\n\n", "event: ping\ndata: {\"at\": 1}\n\n"]
# More in a row than is read of what is no event, and more bytes than an event may have.
FLOOD, LONG = 20, 5 << 20
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
    there is no such task), whether its agent completed it (none: it may be taken for both), and what the agent made (none: nobody
    can say)."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.name, self.code, self.media, self.pause = f"t-{seed}", 200, "text/event-stream", 0.0
        self.is_broken, self.then = self.dice.random() < 0.3, None
        self.course = [task(self.name, self.dice.choice(EARLY))]
        self.pieces = [f"piece {at} " for at in range(self.dice.randrange(4))]
        for at, text in enumerate(self.pieces):
            self.course.append(piece(self.name, text, at > 0))
        self.made = "".join(self.pieces)
        self.text, self.right = self.whole(status(self.name, "COMPLETED")), True
        ways = [self.cut, self.empty, self.reordered, self.late, self.doubled, self.of_other_media, self.of_other_names,
                self.of_another, self.refused, self.ended_otherwise, self.odd_beside, self.as_it_is, self.with_a_gap,
                self.of_a_message, self.flooded]
        ways[seed % len(ways)]()

    def __str__(self):
        return f"{self.code} {self.media} {self.text[:4000]!r}, then {self.then}"

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
        # Its pieces too: what comes of them depends on which of them begins it.
        self.made = None
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

    def with_a_gap(self):
        """A piece that cannot be read, and a last state: only what the agent tells of its task is whole."""
        good = piece(self.name, "the lost one ", len(self.pieces) > 0)
        lost = event(good)
        at = self.dice.randrange(1, len(self.course) + 1)
        lost = self.dice.choice([
            lost.replace('"text"', '"txt"'), lost.replace('"text": "the lost one "', '"text": 2'),
            lost.replace("artifactUpdate", "artifact-update"), lost.replace('"artifactId"', '"id"'), "event: chunk\n" + lost,
            lost.replace('"result"', '"outcome"'), lost[:-9] + "\n\n", "data: the lost one\n\n"])
        events = [event(one) for one in [*self.course, status(self.name, "COMPLETED")]]
        self.text = "".join([*events[:at], lost, *events[at:]])
        self.pieces.insert(at - 1, "the lost one ")
        self.made = "".join(self.pieces)
        self.then = self.dice.choice([None, "COMPLETED"])
        self.right = self.then == "COMPLETED"

    def of_a_message(self):
        """A message that names its task, and is not the end of it."""
        said = {"messageId": "m", "taskId": self.name, "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": "starting"}]}
        self.course.insert(0, {"message": said})
        last = self.dice.choice(["COMPLETED", "FAILED", None])
        self.text = self.whole(*([status(self.name, last)] if last else []))
        self.right = last == "COMPLETED"
        if last is None:
            self.follow()

    def flooded(self):
        """Signs of life, and then what is no event, too long, or an error while the task goes on."""
        beats = "".join(self.dice.choice(BEATS) for _ in range(FLOOD))
        error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "not any more"}}
        after = self.dice.choice(["", "data: {\"at\": 1}\n\n" * FLOOD, "data: " + json.dumps(error) + "\n\n"])
        if self.pieces and self.dice.random() < 0.05:
            after = "data: " + "x" * LONG + "\n\n"
        self.text = beats.join(event(one) for one in self.course) + beats + after
        if after:
            self.follow()
        else:
            self.text += event(status(self.name, "COMPLETED"))

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
                outcome = {"result": self.told(name, then)}
        self.answer(200, "application/json", json.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}))

    def told(self, name, state):
        """The whole task."""
        whole, made = task(name, state)["task"], "".join(Ending(int(name[2:])).pieces)
        if made:
            whole["artifacts"] = [{"artifactId": "a", "parts": [{"text": made}]}]
        return whole

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
    """The state of the task that a message began, `message` where one answered, the error where it was refused; and the text of
    its artifacts."""
    message = {"messageId": f"{seed}-{random.getrandbits(64):x}", "role": "ROLE_USER", "parts": [{"text": str(seed)}]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}})
    headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
    asked = urllib.request.Request(url, data=body.encode(), headers=headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        said = json.load(answer)
    if "error" in said:
        return "refused: " + said["error"]["message"], ""
    result = said["result"]
    if "message" in result:
        return "message", ""
    parts = [part for made in result["task"].get("artifacts", []) for part in made["parts"]]
    return result["task"]["status"]["state"], "".join(part.get("text", "") for part in parts)


def check(first, count, urls):
    asked = [(url, seed) for seed in range(first, first + count) for url in urls]
    with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
        found = list(pool.map(lambda one: outcome(*one), asked))
    wrong, completed = [], 0
    for (url, seed), (state, text) in zip(asked, found):
        is_completed = state in ("TASK_STATE_COMPLETED", "message")
        completed += is_completed
        ending = Ending(seed)
        if ending.right is not None and ending.right != is_completed:
            wrong.append(f"{url}, seed {seed}: {state}, but right is {ending.right}: {ending}")
        elif state == "TASK_STATE_COMPLETED" and ending.made is not None and text != ending.made:
            wrong.append(f"{url}, seed {seed}: {text!r} is told as whole, but the agent made {ending.made!r}: {ending}")
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
