"""An agent that makes system calls with the official MCP client: `list`; `call TOOL JSON`; `nameless TOOL JSON`, without the
header that names its turn, which is refused; `turns` counts those that run; `wait` runs until `go`."""
import asyncio
import json
import os

import httpx2
import uvicorn
from a2a.helpers.proto_helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette


async def called(words, headers):
    socket = httpx2.AsyncHTTPTransport(uds=os.environ["ALTHING_MCP_SOCKET"])
    async with (httpx2.AsyncClient(transport=socket, headers=headers) as http,
                Client(streamable_http_client("http://localhost/", http_client=http)) as calls):
        if words[0] == "list":
            return " ".join(sorted(tool.name for tool in (await calls.list_tools()).tools))
        answer = await calls.call_tool(words[1], json.loads(words[2]))
        return ("error: " if answer.is_error else "") + answer.content[0].text


class Caller(AgentExecutor):
    def __init__(self):
        self.turns, self.gone = 0, asyncio.Event()

    async def execute(self, context, queue):
        self.turns += 1
        try:
            words = context.get_user_input().split(" ", 2)
            turn = context.call_context.state["headers"]["althing-turn"]
            if words[0] == "turns":
                said = str(self.turns)
            elif words[0] == "wait":
                await self.gone.wait()
                said = "waited"
            elif words[0] == "go":
                self.gone.set()
                said = "gone"
            else:
                said = await called(words, {} if words[0] == "nameless" else {"Althing-Turn": turn})
            await queue.enqueue_event(new_text_message(said))
        finally:
            self.turns -= 1

    async def cancel(self, context, queue):
        pass


card = AgentCard(name="caller", description="Calls", version="1.0.0", default_input_modes=["text/plain"],
                 default_output_modes=["text/plain"], capabilities=AgentCapabilities(streaming=True),
                 skills=[AgentSkill(id="call", name="Call", description="Calls", tags=["calls"])],
                 supported_interfaces=[AgentInterface(url="http://localhost/", protocol_binding="JSONRPC",
                                                      protocol_version="1.0")])
handler = DefaultRequestHandler(Caller(), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, fd=3, log_level="warning")
