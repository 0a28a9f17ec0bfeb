"""A program that means no good, without any library. What it tries is in attempts.py.

`escape.py tools MARK` is a tool server (MCP on standard input and output): `list` tells the names of all attempts,
`attempt` makes one. `escape.py agent MARK` is an A2A agent on the socket that it is handed: a message is the name of an
attempt. `escape.py outside FOLDER` runs outside of any sandbox, and listens where the others try to connect to; it prints
where. MARK is on the command line of every process of a program."""

import ctypes
import json
import os
import pathlib
import secrets
import select
import signal
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import attempts
import attempts_beyond  # noqa: F401, which adds the rest
import plain_mcp

# No attempt takes longer.
LIMIT_SECONDS = 5


def made(name):
    """Makes an attempt, in a process of its own."""
    does = attempts.ATTEMPTS.get(name)
    if does is None:
        return {"error": f"there is no attempt {name!r}"}
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, json.dumps(told(does)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as result:
        ready, _, _ = select.select([result], [], [], LIMIT_SECONDS)
        text = os.read(read, 65536) if ready else b""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if text:
        return json.loads(text)
    return {"reached": False, "how": f"it did not end within {LIMIT_SECONDS} s, or was ended (status {status})"}


def told(does):
    try:
        reached = does()
    except attempts.Judged as judged:
        return {"reached": False, "how": f"shows later: {judged}"}
    except Exception as error:
        return {"reached": False, "how": f"{type(error).__name__}: {error}"}
    return {"reached": bool(reached), "how": (reached or "nothing came of it")[:1000]}


TOOLS = [
    {"name": "list", "description": "The names of all attempts.", "inputSchema": {"type": "object"}},
    {"name": "attempt", "description": "Makes an attempt.", "inputSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
]


def called(tool, arguments):
    return list(attempts.ATTEMPTS) if tool == "list" else made(arguments.get("name"))


CARD = {
    "name": "neighbour", "description": "Tries to escape", "version": "1.0.0", "capabilities": {"streaming": False},
    "supportedInterfaces": [{"url": "http://127.0.0.1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
}


class Agent(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(CARD)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["params"]["message"]["parts"][0]["text"]
        task = {"id": secrets.token_hex(8), "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"artifactId": "a", "parts": [{"text": json.dumps(made(name))}]}]}
        self.answer({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task}})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def agent():
    pathlib.Path("socket").write_text(os.environ["ALTHING_SOCKET"])
    server = HTTPServer(("", 0), Agent, bind_and_activate=False)
    server.socket.close()
    # The socket that the node listens on already, and hands over (LISTEN_FDS).
    server.socket = socket.socket(fileno=3)
    server.serve_forever()


def outside(folder):
    """Whoever connects or asks is told a word that nobody else knows."""
    token = secrets.token_hex(16)

    def tells(listener):
        while True:
            connection, _ = listener.accept()
            try:
                connection.sendall(token.encode())
            except OSError:
                # It is gone already.
                pass
            connection.close()

    def answers(listener):
        while True:
            _, address = listener.recvfrom(4096)
            listener.sendto(token.encode(), address)

    def at(family, kind, address, does):
        listener = socket.socket(family, kind)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        threading.Thread(target=does, args=[listener], daemon=True).start()
        return listener.getsockname()

    def on_ipv6():
        try:
            return at(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0), tells)[1]
        except OSError:
            return None

    def segment():
        """Shared memory that has no name, and is gone with this process."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype, libc.shmat.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        number = attempts.call(libc.shmget, 0, 4096, 0o1600)
        libc.shmat(number, None, 0)
        attempts.call(libc.shmctl, number, 0, None)
        return number

    abstract = f"althing-escape-{token[:8]}"
    at(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract, tells)
    print(json.dumps({
        "token": token,
        "tcp": at(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0), tells)[1],
        "proxied": at(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0), tells)[1],
        "udp": at(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0), answers)[1],
        "ipv6": on_ipv6(),
        "abstract": abstract,
        "segment": segment(),
        "bus": at(socket.AF_UNIX, socket.SOCK_STREAM, os.path.join(folder, "bus"), tells),
    }), flush=True)
    threading.Event().wait()


match sys.argv[1:]:
    case ["tools", _]:
        plain_mcp.serve("escape", TOOLS, called)
    case ["agent", _]:
        agent()
    case ["outside", folder]:
        outside(folder)
