"""A server of tools that asks hosts in every way that a program has, and looks for a secret that it must not have: without
any library.

It is told of the secret how long it is, its SHA-256, and its first four bytes under a mask: with more it would have it."""

import base64
import contextlib
import hashlib
import http.client
import os
import re
import socket
import stat
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import plain_mcp

# No host takes longer.
LIMIT_SECONDS = 10
CHUNK = 1 << 20
# Answers that are not the same are told, and no more of them than this.
ANSWERS_MAX = 4
# Headers that a proxy adds, and that are not the same each time.
OWN = {"date"}


def told(status, headers, body):
    """An answer, as the test reads it."""
    headers = {name.lower(): value for name, value in headers if name.lower() not in OWN}
    return {"status": status, "headers": headers, "body": body.decode(errors="replace")}


def get(url):
    """By the proxies that the environment names, as programs usually ask."""
    try:
        with urllib.request.urlopen(url, timeout=LIMIT_SECONDS) as answer:
            return told(answer.status, answer.getheaders(), answer.read())
    except urllib.error.HTTPError as error:
        return told(error.code, error.headers.items(), error.read())


def asks(variable, path, times):
    """Again and again at the address in a variable, on one connection where the other side keeps it."""
    base = urllib.parse.urlsplit(os.environ[variable])
    connection = http.client.HTTPConnection(base.hostname, base.port, timeout=LIMIT_SECONDS)
    answers = []
    for _ in range(times):
        connection.request("GET", base.path + path)
        answer = connection.getresponse()
        answer = told(answer.status, answer.getheaders(), answer.read())
        if answer not in answers and len(answers) < ANSWERS_MAX:
            answers.append(answer)
    connection.close()
    return {"asked": times, "answers": answers}


def all_of(connection):
    """What comes until the other side ends."""
    whole = b""
    while piece := connection.recv(CHUNK):
        whole += piece
    return whole


def tunnel(host, port):
    """By CONNECT, without a library that would go round the proxy for names of this machine."""
    proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
    login = ""
    if proxy.password:
        login = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        login = f"Proxy-Authorization: Basic {login}\r\n"
    with socket.create_connection((proxy.hostname, proxy.port), timeout=LIMIT_SECONDS) as connection:
        connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{login}\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(CHUNK)
            if not piece:
                break
            head += piece
        head, _, rest = head.partition(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        if status == 200:
            connection.sendall(f"GET /by-tunnel HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return {"status": status, "body": (rest + all_of(connection)).decode(errors="replace")}


def proxy():
    """Where it asks, with its password if it has one."""
    return {"status": 200, "body": os.environ["HTTPS_PROXY"]}


class Secret:
    """What is looked for: it is compared, and never made."""

    def __init__(self, length, digest, mask, masked):
        self.length, self.digest = length, digest
        self.start = bytes(one ^ other for one, other in zip(bytes.fromhex(mask), bytes.fromhex(masked)))

    def is_in(self, data):
        at = data.find(self.start)
        while at >= 0:
            with memoryview(data)[at:at + self.length] as piece:
                if hashlib.sha256(piece).hexdigest() == self.digest:
                    return True
            at = data.find(self.start, at + 1)
        return False


def unreadable():
    """What cannot be read is not had either."""
    return contextlib.suppress(OSError, ValueError, OverflowError)


class Search:
    """Where the secret was found, and how many bytes of what were looked at."""

    def __init__(self, secret):
        self.secret, self.found, self.searched = secret, [], {"environment": 0, "memory": 0, "files": 0}

    def data(self, kind, where, data):
        self.searched[kind] += len(data)
        if self.secret.is_in(data):
            self.found.append(where)

    def stream(self, kind, where, file, left):
        """In pieces, so that one that lies in two of them is found too."""
        rest = b""
        while left > 0 and (piece := file.read(min(CHUNK, left))):
            left -= len(piece)
            piece = rest + piece
            self.data(kind, where, piece)
            rest = piece[-(self.secret.length - 1):]

    def process(self, pid):
        """What the kernel shows of a process: of others little, or nothing."""
        for name in ("environ", "cmdline"):
            with unreadable(), open(f"/proc/{pid}/{name}", "rb") as file:
                self.stream("environment", f"/proc/{pid}/{name}", file, 1 << 30)
        maps = []
        with unreadable(), open(f"/proc/{pid}/maps") as file:
            maps = [re.match(r"([0-9a-f]+)-([0-9a-f]+) r", line) for line in file]
        for begin, end in (map(lambda it: int(it, 16), one.groups()) for one in maps if one):
            # Not all that is mapped is there.
            with unreadable(), open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
                file.seek(begin)
                self.stream("memory", f"/proc/{pid}/mem at {begin:x}", file, end - begin)

    def folder(self, folder):
        for at, _, names in os.walk(folder):
            for path in (os.path.join(at, name) for name in names):
                with unreadable():
                    size = os.lstat(path)
                    if stat.S_ISREG(size.st_mode):
                        with open(path, "rb") as file:
                            self.stream("files", path, file, size.st_size)


def holds(length, digest, mask, masked):
    search = Search(Secret(length, digest, mask, masked))
    for name, value in os.environb.items():
        search.data("environment", f"the variable {os.fsdecode(name)}", name + b"=" + value)
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        search.process(pid)
    here = os.path.dirname(os.path.realpath(__file__))
    for folder in {os.getcwd(), here, os.path.expanduser("~"), tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", "/run"}:
        search.folder(folder)
    return {"found": search.found, "searched": search.searched}


TOOLS = {"get": (get, {"url": "string"}), "asks": (asks, {"variable": "string", "path": "string", "times": "integer"}),
         "tunnel": (tunnel, {"host": "string", "port": "integer"}), "proxy": (proxy, {}),
         "holds": (holds, {"length": "integer", "digest": "string", "mask": "string", "masked": "string"})}


def called(tool, arguments):
    try:
        return TOOLS[tool][0](**arguments)
    except Exception as error:
        return {"status": 0, "body": f"{type(error).__name__}: {error}"}


def definition(name, arguments):
    properties = {argument: {"type": kind} for argument, kind in arguments.items()}
    return {"name": name, "description": f"{name} something", "inputSchema": {
        "type": "object", "properties": properties, "required": list(arguments)}}


plain_mcp.serve("reaching", [definition(name, arguments) for name, (_, arguments) in TOOLS.items()], called)
