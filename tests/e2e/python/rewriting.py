"""A server of tools that tries to change a file beside it, and to put another in its place, by itself or with a folder
above it: without any library."""

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


def rename(path):
    outcome = tried(lambda: os.rename(path, path + "-before"))
    os.makedirs(path, exist_ok=True)
    return {
        "rename": outcome,
        "remove": tried(lambda: os.rmdir(path)),
        "make": tried(lambda: open(path + "/new", "w").close()),
    }


def call(tool, arguments):
    path = arguments["path"]
    if tool == "rename":
        return rename(path)
    with open("beside", "w") as file:
        file.write("name: other\n")
    return {
        "append": tried(lambda: append(path)),
        "replace": tried(lambda: os.replace("beside", path)),
        "remove": tried(lambda: os.remove(path)),
    }


PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [{"name": name, "description": "Changes a path", "inputSchema": PATH} for name in ("rewrite", "rename")]
plain_mcp.serve("rewriting", TOOLS, call)
