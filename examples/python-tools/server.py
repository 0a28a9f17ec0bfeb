"""Tools in Python: any MCP server will do. Needs `mcp`. It becomes a tool of the mesh by
`althing adopt --as repeater python3 server.py`."""
from mcp.server import MCPServer

server = MCPServer("repeater")


@server.tool()
def repeat(message: str) -> str:
    """Says a text again."""
    return message


server.run(transport="stdio")
