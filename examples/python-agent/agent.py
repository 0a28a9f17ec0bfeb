"""An agent in Python: any A2A server that listens on the Unix socket that it is handed will do (systemd's LISTEN_FDS: the
descriptor 3; its path is in ALTHING_SOCKET). Needs `a2a-sdk[http-server]` and `uvicorn`."""
import asyncio

import uvicorn
from a2a.helpers.proto_helpers import new_task, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, TaskState
from starlette.applications import Starlette

# Only the path counts: the node asks on the socket.
URL = "http://localhost/"


class Counter(AgentExecutor):
    """Says what it is told, a word at a time; with a number in front, so many seconds apart."""

    async def execute(self, context, queue):
        task = TaskUpdater(queue, context.task_id, context.context_id)
        await queue.enqueue_event(new_task(task.task_id, task.context_id, TaskState.TASK_STATE_SUBMITTED))
        await task.start_work(new_text_message("counting the words"))
        first, *words = context.get_user_input().split()
        for at, word in enumerate(words):
            await asyncio.sleep(float(first))
            await task.add_artifact([new_text_part(word + " ")], "words", append=at > 0, last_chunk=at + 1 == len(words))
        await task.complete(new_text_message(f"{len(words)} words"))

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


card = AgentCard(name="counter", description="Counts words", version="1.0.0", default_input_modes=["text/plain"],
                 default_output_modes=["text/plain"], capabilities=AgentCapabilities(streaming=True),
                 skills=[AgentSkill(id="words.count", name="Count", description="Counts words", tags=["words"])],
                 supported_interfaces=[AgentInterface(url=URL, protocol_binding="JSONRPC", protocol_version="1.0")])
handler = DefaultRequestHandler(Counter(), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
uvicorn.run(app, fd=3, log_level="warning")
