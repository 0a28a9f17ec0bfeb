"""The official A2A client follows one task to its end: following.py GATEWAY AGENT TEXT. Where the stream is lost it subscribes again
to the same task, at the same gateway, for as long as that takes. Each stream has one task, as its first event. What it was told is in
the end what the task has. Any surprise ends it with a traceback."""
import asyncio
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import GetTaskRequest, Role, SendMessageRequest, SubscribeToTaskRequest, TaskState
from a2a.utils.errors import A2AError, UnsupportedOperationError

GATEWAY, AGENT, TEXT = sys.argv[1:]
BASE = f"{GATEWAY}/a2a/{AGENT}"
PATIENCE = 60
ENDED = {TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED}


def texts(parts):
    return [part.text for part in parts if part.text]


class Followed:
    """What a client knows of a task by its events alone."""

    def __init__(self):
        self.task, self.state, self.artifacts = None, None, {}

    def hear(self, event, is_first):
        assert event.HasField("task") == is_first, event
        if event.HasField("task"):
            assert self.task in (None, event.task.id), event
            self.task, self.state = event.task.id, event.task.status.state
            self.artifacts = {one.artifact_id: texts(one.parts) for one in event.task.artifacts}
        elif event.HasField("status_update"):
            assert event.status_update.task_id == self.task, event
            self.state = event.status_update.status.state
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            before = self.artifacts.get(update.artifact.artifact_id, []) if update.append else []
            self.artifacts[update.artifact.artifact_id] = before + texts(update.artifact.parts)

    def words(self):
        return "".join(text for pieces in self.artifacts.values() for text in pieces)


async def follow(client):
    known = Followed()
    events = client.send_message(SendMessageRequest(message=new_text_message(TEXT, role=Role.ROLE_USER)))
    while known.state not in ENDED:
        try:
            is_first = True
            async for event in events:
                known.hear(event, is_first)
                is_first = False
        except UnsupportedOperationError:
            # It ended meanwhile: there is nothing to subscribe to.
            break
        except (httpx.HTTPError, A2AClientError, A2AError) as error:
            print(f"lost: {type(error).__name__}", flush=True)
        assert known.task, "nothing was answered"
        await asyncio.sleep(0.1)
        events = client.subscribe(SubscribeToTaskRequest(id=known.task))
    return known


async def main():
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        found = await A2ACardResolver(http, BASE).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(found)
        known = await asyncio.wait_for(follow(client), PATIENCE)
        task = await client.get_task(GetTaskRequest(id=known.task))
        whole = "".join(text for artifact in task.artifacts for text in texts(artifact.parts))
        print(TaskState.Name(task.status.state), whole)
        assert task.status.state == TaskState.TASK_STATE_COMPLETED, task
        if known.state in ENDED:
            assert (known.state, known.words()) == (task.status.state, whole), known.__dict__
        print("FOLLOWED OK")


asyncio.run(main())
