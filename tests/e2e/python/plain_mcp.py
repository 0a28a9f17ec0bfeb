"""A server of tools without any library: MCP on standard input and output."""

import json
import sys


def answered(name, tools, call, method, params):
    """The result of a request; none for what it does not know."""
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"}}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": tools}
    if method == "tools/call":
        result = call(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": json.dumps(result)}], "isError": False}
    return None


def serve(name, tools, call):
    """Answers until the input ends; `call` is given the name of a tool and its arguments."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = answered(name, tools, call, request["method"], request.get("params") or {})
        outcome = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
