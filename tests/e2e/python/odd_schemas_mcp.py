"""An MCP server on standard input and output whose schemas are each one that some client does not compile. Each tool is named
after what is odd, and its result is what its schema asks for."""
import json
import sys

MINE = "https://example.org/schemas/twice"
ODD = {
    "boolean": {"properties": {"a": True, "b": False}},
    "flags": {"properties": {"a": {"type": "string", "pattern": "(?i)^x$"}}},
    "unicode": {"properties": {"a": {"type": "string", "pattern": "^\\-?\\_?x"}}},
    "categories": {"properties": {"a": {"type": "string", "pattern": "^\\p{Letter}+$"}}},
    "keys": {"patternProperties": {"(?i)^a$": {"type": "string"}}, "additionalProperties": False},
    "anchor": {"$defs": {"x": {"$anchor": "here", "type": "string"}}, "properties": {"a": {"$ref": "#here"}}},
    "anchors": {"$defs": {"x": {"$anchor": "here"}, "y": {"$anchor": "here"}}},
    "badanchor": {"$defs": {"x": {"$anchor": "not an anchor"}}},
    "once": {"$id": MINE, "properties": {"a": {"type": "string"}}},
    "twice": {"$id": MINE, "properties": {"a": {"type": "string"}, "n": {"type": "number"}}, "required": ["a", "n"]},
    "inner": {"$defs": {"x": {"$id": MINE}, "y": {"$id": MINE}}},
    "oldid": {"properties": {"a": {"id": "#a", "type": "string"}}},
    "format": {"properties": {"a": {"type": "string", "format": "x-word"}, "n": {"type": "integer", "format": "uint8"}}},
    "dynamic": {"$defs": {"x": {"$dynamicAnchor": "it", "type": "string"}}, "properties": {"a": {"$dynamicRef": "#it"}}},
    "nowhere": {"properties": {"a": {"$ref": "#/$defs/nowhere"}}},
    "elsewhere": {"properties": {"a": {"$ref": "https://example.org/elsewhere.json"}}},
    "circle": {"$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}, "properties": {"a": {"$ref": "#/$defs/x"}}},
    "draft4": {"properties": {"n": {"type": "number", "minimum": 1, "exclusiveMinimum": True}}},
    "draft3": {"properties": {"a": {"type": "string", "required": True}}},
    "draft7": {"properties": {"l": {"type": "array", "items": [{"type": "string"}], "additionalItems": False}}},
    "tuple": {"properties": {"l": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "number"}}}},
    "none": {"properties": {"l": {"type": "array", "contains": {"const": "no"}, "minContains": 0}}},
    "dialect": {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"type": "string"}}},
    "type": {"properties": {"a": {"type": "text"}, "n": {"type": "int"}}},
    "nullable": {"properties": {"a": {"nullable": True}}},
    "choice": {"properties": {"a": {"oneOf": [{"pattern": "(?i)^x"}, {"pattern": "^y"}, {"type": "string", "maxLength": 1}]}}},
    "enum": {"properties": {"a": {"enum": []}}},
    "async": {"$async": True, "properties": {"a": {"type": "string"}}},
}
RESULTS = {"keys": {"A": "x"}, "choice": {"a": "xyz"}, "tuple": {"l": ["x", 2]}, "none": {"l": []}, "boolean": {"a": 1}, "enum": {}}


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(asked):
    method = asked["method"]
    if method == "initialize":
        info = {"name": "schemas", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {name: {"type": "object", **odd} for name, odd in ODD.items()}
        return {"tools": [
            {"name": name, "description": f"Is odd: {name}", "inputSchema": {**one, "required": []}, "outputSchema": one}
            for name, one in schema.items()
        ]}
    name = asked["params"]["name"]
    result = RESULTS.get(name, {"a": "x", "n": 2, "l": ["x"]})
    return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked.get("method") in ("initialize", "tools/list", "tools/call"):
        say({"id": asked["id"], "result": answer(asked)})
    else:
        say({"id": asked["id"], "error": {"code": -32601, "message": "no such method"}})
