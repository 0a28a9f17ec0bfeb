"""A LangGraph agent behind the official A2A server: a model that may use a tool, with a conversation for each context.

The model here is scripted, so that the example needs no key: put one of LangChain's in its place. Needs
`a2a-sdk[http-server]`, `uvicorn` and `langgraph`. A node runs it, contained:

    althing agent add agent.yaml

or adopts it where it runs already, on port 8000 of loopback, or on PORT:

    python3 agent.py &
    althing adopt http://127.0.0.1:8000
"""
import os
import re

import uvicorn
from a2a.helpers.proto_helpers import new_task, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, TaskState
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from starlette.applications import Starlette

HOURS = {"monday": "open from 8 to 12", "thursday": "open from 14 to 18"}


@tool
def opening_hours(day: str) -> str:
    """When the office is open on a day of the week."""
    return HOURS.get(day.lower(), "closed")


class Scripted(BaseChatModel):
    """Asks for the opening hours of the day that is named, and says them; without a day it asks which one is meant."""

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        day = re.search(r"\w+day", last.content)
        if isinstance(last, ToolMessage):
            asked = sum(isinstance(message, HumanMessage) for message in messages)
            reply = AIMessage(f"The office is {last.content} (question {asked} of this conversation).")
        elif day:
            reply = AIMessage("", tool_calls=[{"name": "opening_hours", "args": {"day": day[0]}, "id": f"call-{len(messages)}"}])
        else:
            reply = AIMessage("Which day do you mean?", additional_kwargs={"asks": True})
        return ChatResult(generations=[ChatGeneration(message=reply)])


model = Scripted()
graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([opening_hours]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
graph = graph.compile(checkpointer=InMemorySaver())


class Office(AgentExecutor):
    async def execute(self, context, queue):
        task = TaskUpdater(queue, context.task_id, context.context_id)
        if context.current_task is None:
            begun = new_task(task.task_id, task.context_id, TaskState.TASK_STATE_SUBMITTED)
            begun.history.append(context.message)
            await queue.enqueue_event(begun)
        said = {"messages": [HumanMessage(context.get_user_input())]}
        # A context of A2A is a thread of LangGraph.
        thread = {"configurable": {"thread_id": context.context_id}}
        async for update in graph.astream(said, thread, stream_mode="updates"):
            reply = next(iter(update.values()))["messages"][-1]
            for call in getattr(reply, "tool_calls", []):
                await task.start_work(self.says(task, f"looking up {call['name']} {call['args']['day']}"))
        if reply.additional_kwargs.get("asks"):
            return await task.requires_input(self.says(task, reply.content))
        await task.add_artifact([new_text_part(reply.content)], "answer")
        await task.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()

    def says(self, task, text):
        return new_text_message(text, context_id=task.context_id, task_id=task.task_id)


card = AgentCard(name="office", description="Says when the office is open", version="1.0.0",
                 default_input_modes=["text/plain"], default_output_modes=["text/plain"],
                 capabilities=AgentCapabilities(streaming=True),
                 skills=[AgentSkill(id="office.hours", name="Opening hours", description="Says when the office is open",
                                    tags=["office"], examples=["Are you open on Thursday?"])],
                 # Only the path counts: the node knows where it listens.
                 supported_interfaces=[AgentInterface(url="http://localhost/", protocol_binding="JSONRPC",
                                                      protocol_version="1.0")])
handler = DefaultRequestHandler(Office(), InMemoryTaskStore(), card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
# A node hands it a socket that listens, as systemd does.
at = {"fd": 3} if "LISTEN_FDS" in os.environ else {"port": int(os.environ.get("PORT", "8000"))}
uvicorn.run(app, **at, log_level="warning")
