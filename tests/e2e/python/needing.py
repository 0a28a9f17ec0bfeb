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
    """Adds a line to a file that is there."""
    try:
        with open(path, "r+") as file:
            file.seek(0, os.SEEK_END)
            file.write("started\n")
    except OSError as error:
        sys.exit(f"it cannot do without {path}: {error.strerror}")


with open("settings.json") as settings:
    SETTINGS = json.load(settings)
CACHE = os.path.expanduser(SETTINGS["cache"])
INDEX = words(os.path.join(CACHE, "index"))
note(os.path.join(CACHE, "log"))
PLACES = words(SETTINGS["map"])

TOOLS = [{"name": "places", "description": "All places of the map", "inputSchema": {"type": "object"}}]
plain_mcp.serve("needing", TOOLS, lambda tool, arguments: {"index": INDEX, "places": PLACES})
