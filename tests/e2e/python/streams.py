"""The stock gRPC client, with the messages of the official SDK: streams.py HOST:PORT AGENT STREAMS. So many streams run at the same
time on one connection. The agent is examples/python-agent, which says words at the pace that its first word names. Any surprise ends
it with a traceback."""
import asyncio
import sys

import grpc
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import Role, SendMessageRequest, TaskState
from a2a.types.a2a_pb2_grpc import A2AServiceStub

AT, AGENT, STREAMS = sys.argv[1], sys.argv[2], int(sys.argv[3])
PATIENCE = 120
VERSION = (("a2a-version", "1.0"),)
PACE, WORDS = "0.2", "a b c d"


async def stream(stub, number, begun):
    """One stream: it goes on only when all have begun."""
    said = f"{PACE} {number} {WORDS}"
    request = SendMessageRequest(message=new_text_message(said, role=Role.ROLE_USER), tenant=AGENT)
    events = stub.SendStreamingMessage(request, metadata=VERSION, timeout=PATIENCE)
    pieces, last = "", None
    async for event in events:
        if last is None:
            await begun.wait()
        if event.HasField("artifact_update"):
            pieces += "".join(part.text for part in event.artifact_update.artifact.parts)
        last = event
    assert last.status_update.status.state == TaskState.TASK_STATE_COMPLETED, (number, last)
    assert pieces == f"{number} {WORDS} ", (number, pieces)


async def main():
    # One connection, of which no second one is made when it is busy.
    options = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(AT, options=options) as channel:
        stub, begun = A2AServiceStub(channel), asyncio.Barrier(STREAMS)
        async with asyncio.TaskGroup() as together:
            for number in range(STREAMS):
                together.create_task(stream(stub, number, begun))
    print("STREAMS OK")


asyncio.run(main())
