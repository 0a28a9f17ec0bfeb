"""An MCP server on standard input and output as its author did not learn it from an SDK: it logs where it answers, describes one
of its tools badly, begins its list anew at the end, tells progress without a pause, asks its user, and works on one thing at a
time. The first argument is a folder: while it has a file `spoilt`, the order of what is a set differs."""
import json
import os
import sys
import time

HOME = sys.argv[1]
waiting = None


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def log(event, **more):
    print(json.dumps({"level": "info", "event": event, **more}), flush=True)


def text(said):
    return {"content": [{"type": "text", "text": said}]}


def tools(cursor):
    modes = ["fast", "slow"]
    if os.path.exists(os.path.join(HOME, "spoilt")):
        modes.reverse()
    properties = {"mode": {"type": "string", "enum": modes}, "speed": {"type": "string", "enum": modes}}
    work = {"type": "object", "properties": properties, "required": ["mode", "speed"][:: 1 if modes[0] == "fast" else -1]}
    plain = {"type": "object"}
    all_tools = [{"name": "work", "inputSchema": work}, {"name": "nameless-arguments", "description": "Has no schema"}]
    all_tools += [{"name": name, "inputSchema": plain} for name in ("steps", "ask", "picture", "slow")]
    return {"tools": all_tools if cursor is None else [], "nextCursor": "the end is the beginning"}


def call(asked):
    name, arguments = asked["params"]["name"], asked["params"].get("arguments") or {}
    if name == "steps":
        token = asked["params"]["_meta"]["progressToken"]
        for step in (1, 2, 3):
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 3}})
    elif name == "ask":
        schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
        say({"id": "q", "method": "elicitation/create", "params": {"message": "Which colour?", "requestedSchema": schema}})
        return None
    elif name == "picture":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA" * (int(arguments["bytes"]) // 3)}]}
    elif name == "slow":
        time.sleep(float(arguments["seconds"]))
    return text(f"{name} is done")


for line in sys.stdin:
    asked = json.loads(line)
    log("received", line=line)
    method = asked.get("method")
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        say({"id": asked["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        say({"id": asked["id"], "result": tools((asked.get("params") or {}).get("cursor"))})
    elif method == "tools/call":
        answer = call(asked)
        if answer is None:
            waiting = asked["id"]
        else:
            say({"id": asked["id"], "result": answer})
    elif asked.get("id") == "q":
        result = asked.get("result") or {}
        say({"id": waiting, "result": text(json.dumps({"action": result.get("action"), **(result.get("content") or {})}))})
    elif method and "id" in asked:
        say({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
