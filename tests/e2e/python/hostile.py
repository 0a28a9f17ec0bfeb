"""A component that means no good: each word of a message is one thing that it tries."""

import os
import socket

import wit_world
from wit_world.imports import kernel
from wit_world.imports.turns import Reply_Done


def tried(what):
    try:
        return f"got {what()!r}"
    except BaseException as error:
        return f"refused: {type(error).__name__}"


def recurse(depth):
    return recurse(depth + 1) + 1


class WitWorld(wit_world.WitWorld):
    def on_message(self, text: str):
        if text == "spin":
            while True:
                pass
        if text == "allocate":
            hoard = []
            while True:
                hoard.append(bytearray(1 << 20))
        if text == "recurse":
            import sys

            sys.setrecursionlimit(10**9)
            return Reply_Done(str(recurse(0)))
        if text == "flood":
            for _ in range(20000):
                kernel.log("x" * 1000)
            return Reply_Done("flooded")
        if text == "tools":
            asked = [tried(lambda: kernel.invoke_tool("files/delete", "{}")) for _ in range(50)]
            return Reply_Done(asked[0] + " " + asked[-1])
        reached = {
            "file": lambda: open("/etc/passwd").read(),
            "write": lambda: open("/tmp/hostile-was-here", "w"),
            "folder": lambda: os.listdir("/"),
            "network": lambda: socket.create_connection(("127.0.0.1", 80), timeout=1),
            "environment": lambda: dict(os.environ)["PATH"],
            "program": lambda: os.system("true") if hasattr(os, "system") else os.fork(),
        }
        return Reply_Done("; ".join(f"{name} {tried(what)}" for name, what in reached.items()))

    def checkpoint(self) -> bytes:
        return b""

    def restore(self, state: bytes):
        pass
