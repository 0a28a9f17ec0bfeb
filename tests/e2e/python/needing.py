"""A server of tools that needs files outside of its folder before it answers: without any library."""

import json
import os
import sys

import plain_mcp


def words(path):
    try:
        with open(path) as file:
            return file.read().split()
    except OSError as error:
        sys.exit(f"it cannot do without {path}: {error.strerror}")


def note(path):
    """Adds a line to a file that is there, if that can be."""
    try:
        with open(path, "r+") as file:
            file.seek(0, os.SEEK_END)
            file.write("started\n")
    except OSError:
        pass


def named(option):
    """The values of an option."""
    return [word.split("=", 1)[1] for word in sys.argv[1:] if word.startswith(option + "=")]


with open("settings.json") as settings:
    SETTINGS = json.load(settings)
CACHE = os.path.expanduser(SETTINGS["cache"])
INDEX = words(os.path.join(CACHE, "index"))
for path in named("--note"):
    note(path)
PLACES = words(named("--map")[0])

TOOLS = [{"name": "places", "description": "All places of the map", "inputSchema": {"type": "object"}}]
plain_mcp.serve("needing", TOOLS, lambda tool, arguments: {"index": INDEX, "places": PLACES})
