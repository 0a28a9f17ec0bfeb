"""A server of tools that tries to change a file beside it, and to put another in its place: without any library."""

import os

import plain_mcp


def tried(attempt):
    try:
        attempt()
    except OSError as error:
        return error.strerror
    return "done"


def append(path):
    with open(path, "a") as file:
        file.write("# changed\n")


def call(tool, arguments):
    path = arguments["path"]
    with open("beside", "w") as file:
        file.write("name: other\n")
    return {
        "append": tried(lambda: append(path)),
        "replace": tried(lambda: os.replace("beside", path)),
        "remove": tried(lambda: os.remove(path)),
    }


PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
plain_mcp.serve("rewriting", [{"name": "rewrite", "description": "Changes a file", "inputSchema": PATH}], call)
