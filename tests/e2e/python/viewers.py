"""Viewers of an agent's events: viewers.py HOST:PORT AGENT VIEWERS. Each opens a stream and keeps it. It prints how many were answered
with which status. When there is a file `talk`, one of them goes, and has the agent say something in its place; how many of the others
with a stream heard of it is printed. A file `leave` ends it."""
import collections
import http.client
import json
import os
import resource
import select
import socket
import sys
import time

AT, AGENT, MANY = sys.argv[1], sys.argv[2], int(sys.argv[3])
PATIENCE = 60
HOST, PORT = AT.split(":")
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, MANY + 200), hard))


def awaited(file):
    while not os.path.exists(file):
        time.sleep(0.1)


def opened():
    viewer = socket.create_connection((HOST, int(PORT)), timeout=PATIENCE)
    asked = f"GET /things/{AGENT}/events/agentEvent HTTP/1.1\r\nHost: {AT}\r\nAccept: text/event-stream\r\n\r\n"
    viewer.sendall(asked.encode())
    return viewer


def status(viewer):
    """What the answer begins with; `closed` where there is none."""
    try:
        head = viewer.recv(4096)
    except OSError as error:
        return type(error).__name__
    return head.split(b" ")[1].decode() if head.startswith(b"HTTP/1.1 ") else "closed"


def heard(viewer):
    """Does an event come in time?"""
    while select.select([viewer], [], [], PATIENCE)[0]:
        said = viewer.recv(65536)
        if not said or b"data:" in said:
            return bool(said)
    return False


def chat():
    """The agent is told something: all who have a stream hear of it."""
    said = json.dumps({"messages": [{"role": "user", "content": "hello"}]})
    talking = http.client.HTTPConnection(HOST, int(PORT), timeout=PATIENCE)
    talking.request("POST", f"/things/{AGENT}/actions/chat", said, {"Content-Type": "application/json"})
    answer = talking.getresponse()
    assert answer.status == 200, (answer.status, answer.read())


viewers = [opened() for _ in range(MANY)]
answers = [(viewer, status(viewer)) for viewer in viewers]
print(" ".join(f"{said}={many}" for said, many in sorted(collections.Counter(said for _, said in answers).items())), flush=True)
awaited("talk")
streams = [viewer for viewer, said in answers if said == "200"]
streams.pop().close()
while True:
    try:
        chat()
        break
    except (AssertionError, OSError) as crowded:
        print(f"not yet: {crowded}", file=sys.stderr)
        time.sleep(0.1)
print(sum(heard(viewer) for viewer in streams), flush=True)
awaited("leave")
