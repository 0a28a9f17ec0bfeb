"""A stock agent of the official SDK's server, which does what the first word of its message says. It listens where its
node tells it to, or, by itself, on ports of its own, which it prints: that of JSON-RPC and HTTP+JSON, and that of gRPC."""
import asyncio
import os
import socket

import grpc
import httpx
import uvicorn
from a2a.helpers.proto_helpers import new_data_part, new_task, new_text_artifact, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore,
                              TaskUpdater)
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, TaskState
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette

REFUSALS = {
    "params": errors.InvalidParamsError,
    "unsupported": errors.UnsupportedOperationError,
    "content": errors.ContentTypeNotSupportedError,
    "answer": errors.InvalidAgentResponseError,
    "internal": errors.InternalError,
    "extension": errors.ExtensionSupportRequiredError,
}


class Stock(AgentExecutor):
    async def execute(self, context, queue):
        verb, *words = context.get_user_input().split()
        task = TaskUpdater(queue, context.task_id, context.context_id)
        if verb == "message":
            message = new_text_message(" ".join(words), context_id=context.context_id)
            message.metadata.update({"of": "message"})
            return await queue.enqueue_event(message)
        if verb == "beside":
            beside = {
                "metadata": context.metadata,
                "of": MessageToDict(context.message).get("metadata"),
                "configuration": MessageToDict(context.configuration),
                "extensions": sorted(context.requested_extensions or []),
            }
            beside["configuration"].pop("returnImmediately", None)
            message = new_text_message("beside", context_id=context.context_id)
            message.parts.append(new_data_part(beside))
            return await queue.enqueue_event(message)
        if verb == "refuse":
            raise REFUSALS[words[0]](f"refused: {words[0]}", {"of": words[0]})
        if verb in ("whole", "told"):
            done = new_task(context.task_id, context.context_id, TaskState.TASK_STATE_COMPLETED)
            done.artifacts.append(new_text_artifact("answer", " ".join(words)))
            done.history.append(context.message)
            if verb == "told":
                done.history.extend(new_text_message(said, context_id=context.context_id, task_id=context.task_id)
                                    for said in ("looking", "looking again"))
            done.metadata.update({"of": "task"})
            return await queue.enqueue_event(done)
        if context.current_task is None:
            begun = new_task(context.task_id, context.context_id, TaskState.TASK_STATE_SUBMITTED)
            begun.history.append(context.message)
            begun.metadata.update({"of": "task"})
            await queue.enqueue_event(begun)
        if verb == "ask":
            return await task.requires_input(new_text_message("which?", context_id=task.context_id, task_id=task.task_id))
        if verb == "stuck":
            told = new_text_message("it is stuck", context_id=task.context_id, task_id=task.task_id)
            await task.start_work(told)
            return await asyncio.sleep(60)
        if verb == "think":
            thought = new_text_message("thinking", context_id=task.context_id, task_id=task.task_id)
            await task.update_status(TaskState.TASK_STATE_WORKING, thought)
        await task.update_status(TaskState.TASK_STATE_WORKING, metadata={"of": "status"})
        for at, word in enumerate(words):
            part, last = new_text_part(word + " "), at + 1 == len(words)
            await task.add_artifact([part], "words", metadata={word: at}, append=at > 0, last_chunk=last)
        said = new_text_message(f"{len(words)} words", context_id=task.context_id, task_id=task.task_id)
        ending = {"fail": TaskState.TASK_STATE_FAILED, "reject": TaskState.TASK_STATE_REJECTED}
        await task.update_status(ending.get(verb, TaskState.TASK_STATE_COMPLETED), said, metadata={"of": "end"})

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def listen():
    if os.environ.get("LISTEN_FDS") == "1":
        return socket.socket(fileno=3)
    # asyncio sets TCP_NODELAY where it sees that it is TCP.
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    # Whoever reads its port may connect before it serves.
    listener.listen(128)
    return listener


CAPABILITIES = AgentCapabilities(streaming=True, push_notifications=True, extensions=[
    AgentExtension(uri="https://example.com/x", description="An extension", required=True)])
listener = listen()
card = AgentCard(name="stock", description="Does as it is told", version="1.0.0",
                 default_input_modes=["text/plain", "image/png"],
                 default_output_modes=["text/plain"], capabilities=CAPABILITIES,
                 skills=[AgentSkill(id="acting.do", name="Do", description="Does as it is told", tags=["acting"])],
                 supported_interfaces=[AgentInterface(url="http://127.0.0.1/", protocol_binding="JSONRPC",
                                                      protocol_version="1.0")])
told = InMemoryPushNotificationConfigStore()
sender = BasePushNotificationSender(httpx.AsyncClient(trust_env=False), told)
handler = DefaultRequestHandler(Stock(), InMemoryTaskStore(), card, push_config_store=told, push_sender=sender)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/"), *create_rest_routes(handler)]
server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))


async def alone():
    also = grpc.aio.server()
    add_A2AServiceServicer_to_server(GrpcHandler(handler), also)
    port = also.add_insecure_port("127.0.0.1:0")
    await also.start()
    print(listener.getsockname()[1], port, flush=True)
    await server.serve(sockets=[listener])


if "PORT" in os.environ or "LISTEN_FDS" in os.environ:
    server.run(sockets=[listener])
else:
    asyncio.run(alone())
