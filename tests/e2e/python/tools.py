"""A server of tools with the official MCP SDK: on standard input and output, or on the port that it is given."""

import sys

from mcp.server import MCPServer

server = MCPServer("files")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def forbidden() -> str:
    """What no contract here names; it leaves a file behind when it is called all the same."""
    open("forbidden-was-called", "w").close()
    return "done"


@server.tool()
def fails() -> str:
    """Fails."""
    raise ValueError("it does not work")


if len(sys.argv) > 1:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run(transport="stdio")
