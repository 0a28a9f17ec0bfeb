"""Drives the same stock agent at several places, and finds what differs: compare.py DIRECT NAME=URL …. What is sent and
what comes back is JSON-RPC as it stands on the wire. Differences that are listed below with their reasons are none."""
import uuid
import json
import sys

import httpx

PATIENCE = 20
HEADERS = {"A2A-Version": "1.0", "Content-Type": "application/json", "A2A-Extensions": "https://example.com/x"}
# The place that is not the agent's own node.
FAR = "two nodes"
IDS = {"id", "taskId", "contextId", "messageId", "artifactId"}


class Place:
    """An agent at a URL."""

    def __init__(self, http, url, is_far):
        self.http, self.url, self.is_far, self.sent = http, url, is_far, 0

    def ask(self, method, params, headers=HEADERS):
        """The status, the content type, and all that came back; the other headers are those of whoever serves."""
        self.sent += 1
        request = {"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}
        answer = self.http.post(self.url, headers=headers, content=json.dumps(request))
        kind = answer.headers["content-type"].split(";")[0]
        if kind == "text/event-stream":
            lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
        else:
            lines = [answer.text]
        events = [json.loads(line) for line in lines]
        assert all(event.pop("id") == self.sent and event.pop("jsonrpc") == "2.0" for event in events), answer.text
        return [answer.status_code, kind, *events]

    def says(self, text, method="SendMessage", **more):
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], "metadata": {"mine": "m"}}
        return self.ask(method, {"message": {**message, **more.pop("message", {})}, **more})


def task_of(seen):
    return seen[2]["result"]["task"]["id"]


def both(place, text, **more):
    return [place.says(text, method, **more) for method in ("SendMessage", "SendStreamingMessage")]


def beside(place):
    configuration = {"acceptedOutputModes": ["text/markdown", "text/plain"], "historyLength": 2}
    return both(place, "beside", metadata={"trip": 7, "deep": {"er": [1, "x"]}}, configuration=configuration)


def kept(place):
    sent = place.says("work a b c")
    by_id = {"id": task_of(sent)}
    return [sent, place.ask("GetTask", by_id), place.ask("GetTask", {**by_id, "historyLength": 0})]


def told(place, text):
    """What is said on the way stands in the history, however it is asked for."""
    seen = both(place, text)
    return [*seen, place.ask("GetTask", {"id": task_of(seen[0])}), place.ask("GetTask", {"id": task_of(seen[1])})]


def asked_and_answered(place):
    asked = place.says("ask me")
    answered = place.says("work that", message={"taskId": task_of(asked)})
    return [asked, answered, place.ask("GetTask", {"id": task_of(asked)})]


def asked_and_cancelled(place):
    asked = place.says("ask me")
    by_id = {"id": task_of(asked)}
    return [asked, place.ask("CancelTask", by_id), place.ask("GetTask", by_id), refusal(place.ask("CancelTask", by_id))]


def refusal(seen):
    """Of a refusal that is the server's own, its code and reason: each says it in its own words."""
    error = seen[2]["error"]
    return [seen[0], seen[1], error["code"], error["data"][0]["reason"]]


def over(place):
    done = {"id": task_of(place.says("work a"))}
    return [refusal(place.ask(method, done)) for method in ("CancelTask", "SubscribeToTask")]


def unknown(place):
    nobody = {"id": "no-such-task"}
    return [refusal(place.ask(method, nobody)) for method in ("GetTask", "CancelTask", "SubscribeToTask")]


def patch_number(place):
    return [place.ask("GetTask", {"id": "no-such-task"}, {**HEADERS, "A2A-Version": "1.0.1"})[2]["error"]["code"]]


def card(place):
    """What the agent says of itself, where it runs: other nodes show what its publisher signed."""
    if place.is_far:
        return None
    shown = place.http.get(place.url.rstrip("/") + "/.well-known/agent-card.json").json()
    ours = [extension for extension in shown["capabilities"]["extensions"] if "althing" not in extension["uri"]]
    return [ours, shown["defaultInputModes"], shown["defaultOutputModes"], shown["capabilities"]["streaming"]]


CASES = {
    "the card": card,
    "a message": lambda place: both(place, "message hello"),
    "what is sent beside": beside,
    "a task that works": lambda place: both(place, "work a b c"),
    "a task that is kept": kept,
    "a task shown whole": lambda place: both(place, "whole answer"),
    "a task shown whole, with what was said in it": lambda place: told(place, "told answer"),
    "a task that says something on the way": lambda place: told(place, "think a b"),
    "a task that fails": lambda place: both(place, "fail a"),
    "a task that is rejected": lambda place: both(place, "reject a"),
    "a question": lambda place: both(place, "ask me"),
    "a question that is answered": asked_and_answered,
    "a question and a cancellation": asked_and_cancelled,
    **{
        f"an error: {name}": lambda place, name=name: both(place, f"refuse {name}")
        for name in ("params", "unsupported", "content", "answer", "internal", "extension")
    },
    "a task that is over": over,
    "a task that is none": unknown,
    # Not compared: the gateway makes an extended card for every agent, also where the agent has none.
    "a version with a patch number": patch_number,
}


def same(value, at=""):
    """Without what must differ, and without the differences that are listed here, each with its reason."""
    if isinstance(value, list):
        return joined([same(item, at) for item in value]) if at == "parts" else [same(item, at) for item in value]
    if not isinstance(value, dict):
        return "ID" if at in IDS else value
    shown = {name: same(item, name) for name, item in value.items()}
    # Times: of the agent where it is asked directly, of the node where that keeps the task; a stock agent may leave it out.
    shown.pop("timestamp", None)
    # A node keeps every message that continued a task; the stock server keeps the first.
    if "history" in shown:
        first, *later = shown["history"]
        shown["history"] = [first, *[said for said in later if said["role"] != "ROLE_USER"]]
    return shown


def joined(parts):
    """A node keeps text that follows text as one part: an answer of a thousand pieces would have a thousand parts."""
    out = []
    for part in parts:
        if out and set(part) == set(out[-1]) == {"text"}:
            out[-1] = {"text": out[-1]["text"] + part["text"]}
        else:
            out.append(part)
    return out


def main():
    places = dict(place.split("=", 1) for place in sys.argv[1:])
    with httpx.Client(timeout=PATIENCE) as http:
        places = {name: Place(http, url, name == FAR) for name, url in places.items()}
        differ = 0
        for case, run in CASES.items():
            seen = {name: same(run(place)) for name, place in places.items()}
            directly, *others = seen.items()
            for name, other in others:
                if other is not None and other != directly[1]:
                    differ += 1
                    print(f"{case}: {name} differs\n  directly {json.dumps(directly[1])}\n  {name} {json.dumps(other)}")
            print(f"{case}: compared")
        assert len(places) > 1 and not differ, f"{differ} differences"
    print("COMPARE OK")


main()
