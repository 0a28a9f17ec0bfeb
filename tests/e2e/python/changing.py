"""A server of tools that speaks MCP on standard input and output; its tools are those of a file, and it says when they change."""

import json
import sys
import threading
import time

path = sys.argv[1]
lock = threading.Lock()


def tools():
    with open(path) as file:
        return json.load(file)


def say(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def watch():
    known = tools()
    while True:
        time.sleep(0.05)
        try:
            now = tools()
        except ValueError:
            continue
        if now != known:
            known = now
            say({"method": "notifications/tools/list_changed"})


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "changing", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        said = params["name"] + " " + json.dumps(params.get("arguments", {}), sort_keys=True)
        return {"content": [{"type": "text", "text": said}]}
    return None


threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request["method"], request.get("params", {}))
    if result is None:
        say({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})
    else:
        say({"id": request["id"], "result": result})
