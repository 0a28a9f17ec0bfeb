"""The official MCP client against a node's face of one server: asking_mcp.py ADDRESS. What the server asks for comes to this
client's user, in the versions with sessions and without; progress comes whole. Any surprise ends it with a traceback."""
import asyncio
import json
import sys

from mcp import Client, types

ADDRESS = sys.argv[1]


async def drive(mode):
    asked = []

    async def answer(_, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"colour": "blue"})

    async with Client(ADDRESS, mode=mode, read_timeout_seconds=60, elicitation_callback=answer) as client:
        print(f"  version {client.protocol_version}")
        told = await client.call_tool("ask", {})
        assert json.loads(told.content[0].text) == {"action": "accept", "colour": "blue"}, told
        assert asked == ["Which colour?"], asked
        for _ in range(10):
            steps = []

            async def note(done, total, message):
                steps.append(done)

            await client.call_tool("steps", {}, progress_callback=note)
            assert steps == [1, 2, 3], steps
    async with Client(ADDRESS, mode=mode, read_timeout_seconds=60) as client:
        told = await client.call_tool("ask", {})
        assert json.loads(told.content[0].text)["action"] == "cancel", told


async def main():
    for mode in ["auto", "legacy"]:
        print(mode)
        await drive(mode)
    print("ASKED OK")


asyncio.run(main())
