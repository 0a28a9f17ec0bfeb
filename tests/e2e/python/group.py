"""The official A2A client against an agent that is a group: group.py GATEWAY AGENT COUNT. Sends COUNT messages, eight at a
time, and says after the first ones that it is under way, so that whoever started it can kill the group's leader. Each
message must be answered with its own text. An error that is not one to try again ends it with a traceback."""
import asyncio
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import Role, SendMessageRequest, TaskState

GATEWAY, AGENT, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
PATIENCE = 90
retried = 0


def texts(event):
    return [part.text for artifact in event.task.artifacts for part in artifact.parts]


async def ask(client, number):
    global retried
    text = f"message {number}"
    while True:
        request = SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))
        try:
            events = [event async for event in client.send_message(request)]
        except Exception as error:
            # Only what says that it may be tried again.
            if not any(word in str(error) for word in ("503", "OVERLOADED", "REDIRECTED")):
                raise
            retried += 1
            await asyncio.sleep(0.5)
            continue
        last = events[-1]
        assert last.task.status.state == TaskState.TASK_STATE_COMPLETED, last
        assert texts(last) == [text], last
        return


async def main():
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        card = await A2ACardResolver(http, f"{GATEWAY}/a2a/{AGENT}").get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        limit = asyncio.Semaphore(8)
        done = 0

        async def one(number):
            nonlocal done
            async with limit:
                await ask(client, number)
            done += 1
            if done == 20:
                print("UNDER WAY", flush=True)

        await asyncio.gather(*(one(number) for number in range(COUNT)))
    print(f"{COUNT} answered, {retried} tried again", flush=True)
    print("GROUP OK", flush=True)


asyncio.run(main())
