"""A server of tools that takes of the machine all that it can get, without any library: `bomb` forks without end, `fill` writes
without end into the folder that it runs in. Both answer at once, and go on."""

import os
import threading
import time

import plain_mcp

MIB = 1 << 20
# Between tries where no more is to be had.
PAUSE_SECONDS = 1


def forks():
    """Each of them forks in turn, and none ends."""
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(PAUSE_SECONDS)


def bomb():
    if os.fork() == 0:
        forks()
    return "it goes off"


def fills():
    with open("fill", "wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(MIB))
            except OSError:
                time.sleep(PAUSE_SECONDS)


def fill():
    threading.Thread(target=fills, daemon=True).start()
    return "it begins"


TOOLS = {"bomb": bomb, "fill": fill}

plain_mcp.serve(
    "overdoing",
    [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in TOOLS],
    lambda tool, arguments: TOOLS[tool](),
)
