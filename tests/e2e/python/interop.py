"""The official A2A client against a gateway: interop.py GATEWAY AGENT BINDING…. The agent is examples/python-agent, which
says words at the pace that its first word names. It has the same conversation over each binding. Prints what it did; any
surprise ends it with a traceback."""
import asyncio
import sys
import time

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import AgentCardResolutionError
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

GATEWAY, AGENT, *BINDINGS = sys.argv[1:]
BASE = f"{GATEWAY}/a2a/{AGENT}"
PATIENCE = 20
COMPLETED, CANCELED = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_CANCELED


def says(text):
    return SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))


def words(task):
    return [part.text for artifact in task.artifacts for part in artifact.parts]


async def collected(events):
    return [event async for event in events]


def ended(event):
    return event.status_update.status.state if event.HasField("status_update") else event.task.status.state


async def refused(error, awaitable):
    """The call must fail with this error."""
    try:
        await awaitable
    except error as reason:
        print(f"  refused as it must be: {type(reason).__name__}: {reason}")
    else:
        raise AssertionError(f"no {error.__name__}")


async def card(http):
    found = await A2ACardResolver(http, BASE).get_agent_card()
    assert found.capabilities.streaming and found.skills[0].id == "words.count", found
    assert found.supported_interfaces[0].protocol_binding == "JSONRPC", found
    named = {interface.protocol_binding for interface in found.supported_interfaces}
    assert BINDINGS and named.issuperset(BINDINGS), found
    await refused(AgentCardResolutionError, A2ACardResolver(http, f"{GATEWAY}/a2a/nobody").get_agent_card())
    return found


async def send(client):
    """SendMessage waits for the end."""
    [event] = await collected(client.send_message(says("0.01 one two three")))
    assert event.task.status.state == COMPLETED, event
    assert "".join(words(event.task)) == "one two three ", event
    assert event.task.status.message.parts[0].text == "3 words", event
    return event.task


async def stream(client):
    """Events come while the agent works, not at the end."""
    began, times, events = time.monotonic(), [], []
    async for event in client.send_message(says("0.2 a b c d")):
        times.append(time.monotonic() - began)
        events.append(event)
    assert events[0].HasField("task"), events[0]
    pieces = [event.artifact_update for event in events if event.HasField("artifact_update")]
    text = "".join(part.text for piece in pieces for part in piece.artifact.parts)
    assert text == "a b c d ", events
    assert [piece.append for piece in pieces] == [False, True, True, True], pieces
    assert ended(events[-1]) == COMPLETED, events[-1]
    assert times[-1] - times[0] > 0.4, f"nothing streamed: {times}"
    return events[0].task.id


async def get_and_list(client, done):
    task = await client.get_task(GetTaskRequest(id=done.id))
    assert (task.id, task.status.state, words(task)) == (done.id, COMPLETED, words(done)), task
    page = await client.list_tasks(ListTasksRequest(context_id=done.context_id))
    assert [task.id for task in page.tasks] == [done.id], page
    page = await client.list_tasks(ListTasksRequest(page_size=1))
    assert len(page.tasks) == 1 and page.total_size >= 2 and page.next_page_token, page
    rest = await client.list_tasks(ListTasksRequest(page_size=100, page_token=page.next_page_token))
    assert len(rest.tasks) == page.total_size - 1, rest
    await refused(TaskNotFoundError, client.get_task(GetTaskRequest(id="no-such-task")))


async def begun(client):
    """A task that takes a minute, and its stream."""
    events = client.send_message(says("0.1 " + "w " * 600))
    first = await anext(events)
    return first.task.id, events


async def cancel(client, done):
    task, events = await begun(client)
    await anext(events)
    canceled = await client.cancel_task(CancelTaskRequest(id=task))
    assert canceled.status.state == CANCELED, canceled
    rest = await collected(events)
    assert ended(rest[-1]) == CANCELED, rest[-1]
    kept = await client.get_task(GetTaskRequest(id=task))
    assert kept.status.state == CANCELED, kept
    await refused(TaskNotCancelableError, client.cancel_task(CancelTaskRequest(id=done.id)))
    await refused(TaskNotFoundError, client.cancel_task(CancelTaskRequest(id="no-such-task")))


async def subscribe(client, done):
    """A second stream of the same task: the task first, then the same events to the same end."""
    task, events = await begun(client)
    second = client.subscribe(SubscribeToTaskRequest(id=task))
    first = await anext(second)
    assert first.task.id == task, first
    reading = asyncio.create_task(collected(second))
    while True:
        event = await anext(events)
        if event.HasField("artifact_update") and event.artifact_update.append:
            break
    await client.cancel_task(CancelTaskRequest(id=task))
    rest, seen = await collected(events), await reading
    assert ended(rest[-1]) == ended(seen[-1]) == CANCELED, (rest, seen)
    assert any(event.HasField("artifact_update") for event in seen), seen
    assert seen[-len(rest):] == rest, "the streams tell the same, in the same order"
    for name, error in [(done.id, UnsupportedOperationError), ("no-such-task", TaskNotFoundError)]:
        await refused(error, collected(client.subscribe(SubscribeToTaskRequest(id=name))))


async def follow_up_is_refused(client, done):
    """A task that is over takes no more messages."""
    request = says("0 more")
    request.message.task_id = done.id
    await refused(A2AError, collected(client.send_message(request)))


def channel(url):
    """gRPC's own client takes no scheme."""
    return grpc.aio.insecure_channel(url.removeprefix("http://"), options=[("grpc.enable_http_proxy", 0)])


def clients(http, found, binding):
    """A client that streams, and one that waits."""

    def client(streaming):
        config = ClientConfig(
            httpx_client=http,
            grpc_channel_factory=channel,
            streaming=streaming,
            supported_protocol_bindings=[binding],
        )
        return ClientFactory(config).create(found)

    return client(True), client(False)


async def conversation(http, found, binding):
    streaming, waiting = clients(http, found, binding)
    done = await asyncio.wait_for(send(waiting), PATIENCE)
    steps = {
        "stream": stream(streaming),
        "get, list": get_and_list(streaming, done),
        "cancel": cancel(streaming, done),
        "subscribe": subscribe(streaming, done),
        "follow-up": follow_up_is_refused(waiting, done),
    }
    for name, step in steps.items():
        await asyncio.wait_for(step, PATIENCE)
        print(f"{binding}: {name}: as it must be")


async def main():
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        found = await card(http)
        for binding in BINDINGS:
            await conversation(http, found, binding)
        print("INTEROP OK")


asyncio.run(main())
