"""Drives the same stock agent at several places, and finds what differs: compare.py [--adopted] NAME=URL,GRPC …, the first
of which is the agent itself; GRPC is the address of its gRPC. Each case is run over each binding; what is sent and what comes back is
compared as it stands on the wire. Differences that are listed below with their reasons are none."""
import json
import queue
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import httpx
from a2a.types import a2a_pb2
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2

PATIENCE = 20
HEADERS = {"A2A-Version": "1.0", "Content-Type": "application/json", "A2A-Extensions": "https://example.com/x"}
# Whether the agent runs elsewhere, and not as a program of its node.
ADOPTED = "--adopted" in sys.argv
# The place that is not the agent's own node.
FAR = "two nodes"
EMPTY = {"filename", "mediaType", "name", "description"}
IDS = {"id", "taskId", "contextId", "messageId", "artifactId"}
# Headers of streams that differ, and why: no cache keeps a stream either way, and the other is a hint to one proxy.
ADDED = {"cache-control", "x-accel-buffering"}
# Metadata of whoever serves.
SERVED = {"date"}
# Of the requests over HTTP+JSON: method and path.
REST = {
    "SendMessage": ("POST", "message:send"),
    "SendStreamingMessage": ("POST", "message:stream"),
    "GetTask": ("GET", "tasks/{id}"),
    "ListTasks": ("GET", "tasks"),
    "CancelTask": ("POST", "tasks/{id}:cancel"),
    "SubscribeToTask": ("POST", "tasks/{id}:subscribe"),
    "CreateTaskPushNotificationConfig": ("POST", "tasks/{taskId}/pushNotificationConfigs"),
    "GetTaskPushNotificationConfig": ("GET", "tasks/{taskId}/pushNotificationConfigs/{id}"),
    "ListTaskPushNotificationConfigs": ("GET", "tasks/{taskId}/pushNotificationConfigs"),
    "DeleteTaskPushNotificationConfig": ("DELETE", "tasks/{taskId}/pushNotificationConfigs/{id}"),
}
# Headers by which a receiver knows who sends. A node signs beside them; its media type is A2A's, that of the stock server JSON's.
TOLD = {"authorization", "x-a2a-notification-token"}


class Place:
    """An agent at a URL, over JSON-RPC."""

    def __init__(self, http, url, is_far, tenant):
        self.http, self.url, self.is_far, self.tenant, self.sent = http, url, is_far, tenant, 0

    def ask(self, method, params, headers=HEADERS):
        """The status, the content type, and all that came back; the other headers are those of whoever serves."""
        self.sent += 1
        request = {"jsonrpc": "2.0", "id": self.sent, "method": method, "params": params}
        answer = self.http.post(self.url, headers=headers, content=json.dumps(request))
        self.headers = answer.headers
        kind, events = events_of(answer)
        assert all(event.pop("id") == self.sent and event.pop("jsonrpc") == "2.0" for event in events), answer.text
        return [answer.status_code, kind, *events]

    def watch(self, task, seen):
        """What a stream of a task tells; `seen` runs after its first event."""
        request = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task}}
        return self.streamed(self.url, request, seen)

    def streamed(self, url, body, seen):
        events = []
        with self.http.stream("POST", url, headers=HEADERS, content=json.dumps(body)) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    events.append(json.loads(line[5:]))
                    if len(events) == 1:
                        seen()
        return [answer.status_code, *[event.get("result", event) for event in events]]

    def says(self, text, method="SendMessage", **more):
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], "metadata": {"mine": "m"}}
        return self.ask(method, {"message": {**message, **more.pop("message", {})}, **more})


class Rest(Place):
    """The same over HTTP+JSON."""

    def ask(self, method, params, headers=HEADERS):
        verb, path = REST[method]
        query = {name: value for name, value in params.items() if f"{{{name}}}" not in path}
        path = path.format(**params)
        if verb != "POST":
            answer = self.http.request(verb, f"{self.url.rstrip('/')}/{path}", headers=headers, params=query)
        else:
            body = json.dumps(params if method.startswith(("Send", "Create")) else {})
            answer = self.http.post(f"{self.url.rstrip('/')}/{path}", headers=headers, content=body)
        self.headers = answer.headers
        kind, events = events_of(answer)
        return [answer.status_code, kind, *[shaped(event) for event in events]]

    def watch(self, task, seen):
        return self.streamed(f"{self.url.rstrip('/')}/tasks/{task}:subscribe", {}, seen)


def shaped(event):
    """A result or an error in the shape that those of JSON-RPC have."""
    if "error" not in event:
        return {"result": event}
    error = event["error"]
    return {"error": {**{name: error[name] for name in error if name != "details"}, "data": error.get("details", [])}}


class Grpc(Place):
    """The same over gRPC. Its messages are compared as ProtoJSON."""

    def ask(self, method, params, headers=HEADERS):
        name = "TaskPushNotificationConfig" if method.startswith("Create") else method.replace("Streaming", "") + "Request"
        request = ParseDict(params, getattr(a2a_pb2, name)())
        request.tenant = self.tenant
        metadata = [(name.lower(), value) for name, value in headers.items() if name != "Content-Type"]
        call = getattr(A2AServiceStub(self.http), method)
        try:
            answer = call(request, metadata=metadata, timeout=PATIENCE)
            streams = method in ("SendStreamingMessage", "SubscribeToTask")
            events = [{"result": MessageToDict(event)} for event in (answer if streams else [answer])]
            return ["OK", "stream" if streams else "message", *events]
        except grpc.RpcError as error:
            return [error.code().name, "error", {"error": {"code": error.code().name, "message": error.details(),
                                                           "data": details(error)}}]


    def watch(self, task, seen):
        metadata = [(name.lower(), value) for name, value in HEADERS.items() if name != "Content-Type"]
        request = a2a_pb2.SubscribeToTaskRequest(id=task, tenant=self.tenant)
        events = []
        for event in A2AServiceStub(self.http).SubscribeToTask(request, metadata=metadata, timeout=PATIENCE):
            events.append(MessageToDict(event))
            if len(events) == 1:
                seen()
        return ["OK", *events]


def details(error):
    """The ErrorInfo of an error, without its metadata: those the stock server leaves out in gRPC, and in gRPC only."""
    found = []
    for key, value in error.trailing_metadata() or []:
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    found.append({"reason": info.reason, "domain": info.domain})
    return found


def events_of(answer):
    """The content type of an answer, and what it tells."""
    kind = answer.headers["content-type"].split(";")[0]
    if kind == "text/event-stream":
        return kind, [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
    return kind, [json.loads(answer.text)]


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


def listed(place):
    """The tasks of a conversation, with and without what they made."""
    sent = place.says("work a b")
    mine = {"contextId": sent[2]["result"]["task"]["contextId"]}
    over = {**mine, "status": "TASK_STATE_COMPLETED", "historyLength": 0}
    return [place.ask("ListTasks", query) for query in (mine, over, {**mine, "includeArtifacts": True})]


def watched(place):
    """A second stream of a task that works, which is cancelled."""
    begun = task_of(place.says("stuck", configuration={"returnImmediately": True}))
    by_id = {"id": begun, "historyLength": 0}
    for _ in range(1000):
        # A node shows a task as soon as it has it; the agent's own word comes later.
        if "message" in place.ask("GetTask", by_id)[2]["result"]["status"]:
            break
    return place.watch(begun, lambda: place.ask("CancelTask", {"id": begun}))


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


def large_numbers(place):
    """Whole numbers that a double does not hold: in protobuf all numbers are doubles."""
    if isinstance(place, Grpc):
        return None
    return both(place, "beside", metadata={"large": 2**53 + 1, "larger": 2**63 - 1, "negative": -(2**53) - 1})


def headers(place):
    """The headers of answers, but for those of whoever serves: its name, the time, the length and the connection."""
    if isinstance(place, Grpc):
        return None
    served = {"server", "date", "content-length", "transfer-encoding", "connection"}
    seen = []
    for text, method in (("message hello", "SendMessage"), ("work a b", "SendStreamingMessage"), ("refuse params", "SendMessage")):
        place.says(text, method)
        # An event stream is UTF-8, whether that is said or not.
        seen.append({name: value.split(";")[0] for name, value in place.headers.items() if name not in served | ADDED})
    return seen


def sent_again(place):
    """Messages under an id that the agent knows. An agent that its node runs is not given one again: it is answered as before."""
    if not ADOPTED:
        return None
    known = {"messageId": str(uuid.uuid4())}
    seen = [place.says(text, message=known) for text in ("work a", "work a", "work b")]
    return [*seen, len({task_of(one) for one in seen if "result" in one[2]})]


class Receiver(BaseHTTPRequestHandler):
    """Takes notifications, by the path that they are sent to."""
    taken = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        shown = {name.lower(): value for name, value in self.headers.items() if name.lower() in TOLD}
        # The next one is sent as soon as this is answered.
        self.taken[self.path].put([shown, json.loads(body)])
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def receiver():
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{listening.server_port}"


def notified(place):
    """Who is told about a task, and what."""
    path = f"/{uuid.uuid4()}"
    taken = Receiver.taken[path] = queue.Queue()
    task = task_of(place.says("ask me"))
    named = {"taskId": task, "id": "mine"}
    config = {**named, "url": RECEIVER + path, "token": "known", "authentication": {"scheme": "Bearer", "credentials": "c"}}
    seen = [place.ask("CreateTaskPushNotificationConfig", config), place.ask("GetTaskPushNotificationConfig", named),
            place.ask("ListTaskPushNotificationConfigs", {"taskId": task})]
    place.says("work that again", message={"taskId": task})
    told = []
    while "TASK_STATE_COMPLETED" not in json.dumps(told):
        told.append(taken.get(timeout=PATIENCE))
    deleted = place.ask("DeleteTaskPushNotificationConfig", named)
    # Nothing is `{}` in ProtoJSON; the stock server says null, in JSON-RPC only.
    deleted[2]["result"] = deleted[2]["result"] or {}
    seen += [told, deleted,
             place.ask("ListTaskPushNotificationConfigs", {"taskId": task}),
             refusal(place.ask("GetTaskPushNotificationConfig", named))]
    return json.loads(json.dumps(seen).replace(path, ""))


def metadata(place):
    """The metadata of gRPC's answers, streams and errors: what comes before them, and what comes after."""
    if not isinstance(place, Grpc):
        return None
    def shown(found):
        return sorted([key, "" if key.endswith("-bin") else value] for key, value in found or [] if key not in SERVED)
    sent = [(name.lower(), value) for name, value in HEADERS.items() if name != "Content-Type"]
    stub, seen = A2AServiceStub(place.http), []
    for text, method in (("message hello", stub.SendMessage), ("work a b", stub.SendStreamingMessage),
                         ("refuse params", stub.SendMessage), ("refuse params", stub.SendStreamingMessage)):
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
        request = ParseDict({"tenant": place.tenant, "message": message}, a2a_pb2.SendMessageRequest())
        try:
            call = method(request, metadata=sent, timeout=PATIENCE) if method is stub.SendStreamingMessage else None
            if call is None:
                _, call = method.with_call(request, metadata=sent, timeout=PATIENCE)
            else:
                list(call)
        except grpc.RpcError as error:
            call = error
        seen.append([call.code().name, shown(call.initial_metadata()), shown(call.trailing_metadata())])
    return seen


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
    "tasks that are listed": listed,
    "a task that is watched": watched,
    "a task that is over": over,
    "a task that is none": unknown,
    # Not compared: the gateway makes an extended card for every agent, also where the agent has none.
    "a message that is sent again": sent_again,
    "a version with a patch number": patch_number,
    "push notifications": notified,
    "metadata of gRPC": metadata,
    "large numbers": large_numbers,
    "headers": headers,
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
    # The stock server writes members without a value, but only in lists of tasks.
    shown = {name: value for name, value in shown.items() if value != [] and not (name in EMPTY and value == "")}
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


RECEIVER = receiver()


def compared(case, run, places):
    """How many places differ from the first."""
    seen = {name: same(run(place)) for name, place in places.items()}
    (directly, expected), *others = seen.items()
    differ = 0
    for name, other in others:
        if other is not None and other != expected:
            differ += 1
            print(f"{case}: {name} differs\n  {directly} {json.dumps(expected)}\n  {name} {json.dumps(other)}")
    return differ


def main():
    addresses = [place.split("=", 1) for place in sys.argv[1:] if "=" in place]
    addresses = {name: address.split(",") for name, address in addresses}
    differ = 0
    with httpx.Client(timeout=PATIENCE) as http:
        for kind in (Place, Rest, Grpc):
            places = {}
            for name, (url, channel) in addresses.items():
                through = grpc.insecure_channel(channel, [("grpc.enable_http_proxy", 0)]) if kind is Grpc else http
                places[name] = kind(through, url, name == FAR, "stock" if places else "")
            for case, run in CASES.items():
                if not (case == "the card" and kind is not Place):
                    differ += compared(f"{kind.__name__}: {case}", run, places)
            print(f"{kind.__name__}: {len(CASES)} cases compared")
    assert len(addresses) > 1 and not differ, f"{differ} differences"
    print("COMPARE OK")


main()
