"""An agent that, told "RUN STEPS", makes the call of the tool `count/add` for each step at once, the last step first, with the
official MCP client, and then says what it heard."""
import asyncio
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


class Teller(AgentExecutor):
    async def execute(self, context, queue):
        run, steps = context.get_user_input().split()
        headers = {"Althing-Turn": context.call_context.state["headers"]["althing-turn"]}
        socket = httpx2.AsyncHTTPTransport(uds=os.environ["ALTHING_MCP_SOCKET"])
        async with (httpx2.AsyncClient(transport=socket, headers=headers) as http,
                    Client(streamable_http_client("http://localhost/", http_client=http)) as calls):
            wanted = [{"run": run, "step": step} for step in range(int(steps), 0, -1)]
            heard = await asyncio.gather(*(calls.call_tool("count__add", one) for one in wanted))
        said = "".join(f" [{answer.content[0].text}]" for answer in reversed(heard))
        await queue.enqueue_event(new_text_message("heard" + said))

    async def cancel(self, context, queue):
        pass


card = AgentCard(name="teller", description="Counts", version="1.0.0", default_input_modes=["text/plain"],
                 default_output_modes=["text/plain"], capabilities=AgentCapabilities(streaming=True),
                 skills=[AgentSkill(id="count", name="Count", description="Counts", tags=["counts"])],
                 supported_interfaces=[AgentInterface(url="http://localhost/", protocol_binding="JSONRPC",
                                                      protocol_version="1.0")])
handler = DefaultRequestHandler(Teller(), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, fd=3, log_level="warning")
