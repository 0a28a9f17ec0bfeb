"""Official clients behind a proxy that ends TLS: proxied.py BASE SECONDS [PAUSE…]. The agents are `echo`, and `silent`, which says
nothing for SECONDS, longer than the proxy waits for a server that is silent. Requests follow one another after each PAUSE. The
certificate is that of SSL_CERT_FILE. Any surprise ends it with a traceback."""
import asyncio
import sys
import time

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from mcp import Client

BASE, SECONDS, *PAUSES = sys.argv[1:]
PATIENCE = float(SECONDS) + 60
MANY = 300


def addresses(value):
    """What leads to a gateway, anywhere in a document."""
    if isinstance(value, list):
        return [found for one in value for found in addresses(one)]
    if not isinstance(value, dict):
        return []
    named = [value[name] for name in ("base", "href", "url", "card") if isinstance(value.get(name), str)]
    return named + [found for one in value.values() for found in addresses(one)]


async def documents(http):
    card = await A2ACardResolver(http, f"{BASE}/a2a/echo").get_agent_card()
    urls = [one.url for one in card.supported_interfaces if one.url.startswith("http")]
    assert urls and all(url.startswith(f"{BASE}/") for url in urls), urls
    for path in ["things", "things/echo", ".well-known/wot", "agents", "openapi.json"]:
        answer = await http.get(f"{BASE}/{path}")
        assert answer.status_code == 200, (path, answer)
        found = [one for one in addresses(answer.json()) if "://localhost" in one or "://127." in one]
        assert all(one.startswith((BASE, BASE.replace("https", "wss"))) for one in found), (path, found)


async def events(http):
    """An event of a Thing comes while its stream goes on."""
    async with http.stream("GET", f"{BASE}/things/echo/events/agentEvent") as stream:
        assert stream.status_code == 200, stream
        said = {"messages": [{"role": "user", "content": "hello"}]}
        done = await http.post(f"{BASE}/things/echo/actions/chat", json=said)
        assert done.status_code == 200, done
        async for line in stream.aiter_lines():
            if line.startswith("data:"):
                return


async def many(http):
    """Over the connections that the proxy keeps, also after it paused."""
    for pause in [0.0] * MANY + [float(pause) for pause in PAUSES]:
        await asyncio.sleep(pause)
        answer = await http.get(f"{BASE}/a2a/echo/.well-known/agent-card.json")
        assert answer.status_code == 200, (pause, answer, answer.text)


async def silent_stream(http):
    card = await A2ACardResolver(http, f"{BASE}/a2a/silent").get_agent_card()
    client = ClientFactory(ClientConfig(httpx_client=http, streaming=True)).create(card)
    request = SendMessageRequest(message=new_text_message(SECONDS, role=Role.ROLE_USER))
    said = [event async for event in client.send_message(request)]
    assert said[-1].message.parts[0].text == "at last", said


async def silent_tool(mode):
    async with Client(f"{BASE}/mcp", mode=mode, read_timeout_seconds=PATIENCE) as client:
        asked = {"agent": "silent", "message": SECONDS, "wait_seconds": int(PATIENCE)}
        answer = await client.call_tool("call_agent", asked)
        assert not answer.is_error and answer.structured_content["text"] == "at last", answer


async def main():
    begun = time.monotonic()
    async with httpx.AsyncClient(timeout=PATIENCE) as http:
        steps = {
            "documents": documents(http), "events": events(http), "many requests": many(http),
            "a silent stream": silent_stream(http), "a silent tool": silent_tool("auto"),
            "a silent tool of a session": silent_tool("legacy"),
        }

        async def step(name, work):
            await work
            print(f"{name}: as it must be, after {time.monotonic() - begun:.0f} s", flush=True)

        async with asyncio.TaskGroup() as together:
            for name, work in steps.items():
                together.create_task(step(name, work))
    print("PROXIED OK")


asyncio.run(main())
