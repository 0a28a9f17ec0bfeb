"""A server of tools that takes of the machine all that it can get, without any library: `bomb` forks without end, `fill` writes
without end into the folder that it runs in. Both answer at once, and go on. `fill_temporary` writes into /tmp until it may not, and says
how much that was and why no more; it stays there."""

import errno
import os
import threading
import time

import plain_mcp

MIB = 1 << 20
# Between tries where no more is to be had.
PAUSE_SECONDS = 1
# Where nothing bounds it, it ends here.
TEMPORARY_MIB = 1 << 10


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


def fill_temporary():
    written, why = 0, "nothing"
    with open("/tmp/fill", "wb", buffering=0) as file:
        try:
            while written < TEMPORARY_MIB * MIB:
                written += file.write(bytes(MIB))
        except OSError as error:
            why = errno.errorcode[error.errno]
    return f"{written // MIB} MiB, then {why}"


TOOLS = {"bomb": bomb, "fill": fill, "fill_temporary": fill_temporary}

plain_mcp.serve(
    "overdoing",
    [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in TOOLS],
    lambda tool, arguments: TOOLS[tool](),
)
