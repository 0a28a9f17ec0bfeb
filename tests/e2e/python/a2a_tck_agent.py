"""The agent of A2A's own test suite, a2a-tck: its behaviours, out of a checkout (the first argument), behind the server
of the SDK that these tests have, which the suite's own file does not fit. Push notifications and an extended card come
with it. It listens on ports of its own, which it prints: that of JSON-RPC and HTTP+JSON, and that of gRPC."""
import ast
import asyncio
import socket
import sys

import grpc
import httpx
import uvicorn
from a2a.helpers.proto_helpers import new_task
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore,
                              TaskUpdater)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, TaskState
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from a2a.utils import errors
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette


def behaviours(checkout):
    """The class in the suite's file. Alone: what else the file imports, this SDK has elsewhere, or not at all."""
    path = checkout + "/sut/a2a-python/sut_agent.py"
    with open(path) as file:
        tree = ast.parse(file.read())
    tree.body = [item for item in tree.body if isinstance(item, ast.ClassDef)]
    names = {"asyncio": asyncio, "json_format": json_format, "Value": Value, "AgentExecutor": AgentExecutor,
             "RequestContext": RequestContext, "EventQueue": EventQueue, "TaskUpdater": TaskUpdater, "Part": Part,
             "A2AError": errors.A2AError}
    exec(compile(tree, path, "exec"), names)
    return names["TckAgentExecutor"]


class Suite(AgentExecutor):
    def __init__(self, suite):
        self.suite = suite

    async def execute(self, context, queue):
        # A task begins with its first event, which this SDK leaves to the agent.
        if context.current_task is None and not context.message.message_id.startswith("tck-message-response"):
            begun = new_task(context.task_id, context.context_id, TaskState.TASK_STATE_SUBMITTED)
            begun.history.append(context.message)
            await queue.enqueue_event(begun)
        await self.suite.execute(context, queue)

    async def cancel(self, context, queue):
        await self.suite.cancel(context, queue)


def card(http, rpc):
    url = f"http://127.0.0.1:{http}"
    of = [(url, "JSONRPC"), (url, "HTTP+JSON"), (f"127.0.0.1:{rpc}", "GRPC")]
    interfaces = [AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0") for url, binding in of]
    skill = AgentSkill(id="tck.answer", name="Answer", description="Answers the suite", tags=["tck"])
    return AgentCard(name="sut", description="Answers A2A's test suite", version="1.0.0", skills=[skill],
                     default_input_modes=["text/plain"], default_output_modes=["text/plain"],
                     capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
                     supported_interfaces=interfaces)


async def main(checkout):
    also = grpc.aio.server()
    rpc = also.add_insecure_port("127.0.0.1:0")
    # asyncio sets TCP_NODELAY where it sees that it is TCP.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    http = listener.getsockname()[1]
    told = InMemoryPushNotificationConfigStore()
    sender = BasePushNotificationSender(httpx.AsyncClient(trust_env=False), told)
    public = card(http, rpc)
    handler = DefaultRequestHandler(Suite(behaviours(checkout)()), InMemoryTaskStore(), public, push_config_store=told,
                                    push_sender=sender, extended_agent_card=public)
    add_A2AServiceServicer_to_server(GrpcHandler(handler), also)
    await also.start()
    routes = [*create_agent_card_routes(public), *create_jsonrpc_routes(handler, "/"), *create_rest_routes(handler)]
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
    print(http, rpc, flush=True)
    await server.serve(sockets=[listener])


asyncio.run(main(sys.argv[1]))
