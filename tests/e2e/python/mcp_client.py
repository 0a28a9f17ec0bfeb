"""The official MCP client against a node: mcp_client.py GATEWAY ALTHING [ARGUMENTS of althing before `mcp`...]. The agents
are `near`, on the node, and `far`, on another one; both say back what they are told. Over HTTP and over standard input
and output, in the versions with sessions and without. Any surprise ends it with a traceback."""
import asyncio
import sys

from mcp import Client, MCPError, StdioServerParameters

GATEWAY, ALTHING, *BEFORE = sys.argv[1:]
PATIENCE = 60


async def drive(server, mode):
    async with Client(server, mode=mode, read_timeout_seconds=PATIENCE) as client:
        print(f"  version {client.protocol_version}, server {client.server_info.name}")
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"find_agents", "describe_agent", "call_agent", "near_near_say"} == set(tools), tools
        assert tools["call_agent"].input_schema["required"] == ["agent"], tools["call_agent"]

        said = await client.call_tool("near_near_say", {"message": "to the skill"})
        assert not said.is_error and said.content[0].text == "to the skill", said

        found = await client.call_tool("find_agents", {"capability": "far.say"})
        (far,) = found.structured_content["agents"]
        assert far["name"] == "far" and far["publisher"] == "trusted" and len(far["nodes"]) == 1, far
        known = await client.call_tool("describe_agent", {"agent": far["id"]})
        assert known.structured_content["skills"][0]["id"] == "far.say", known

        progress = []

        async def note(done, total, message):
            progress.append((done, message))

        for agent in ["near", "far", far["id"]]:
            text = f"to {agent}"
            answer = await client.call_tool("call_agent", {"agent": agent, "message": text}, progress_callback=note)
            assert not answer.is_error and answer.structured_content["text"] == text, answer
            assert answer.structured_content["state"] == "completed", answer
        assert progress, "no progress was told"

        wrong = await client.call_tool("call_agent", {"agent": "nobody", "message": "x"})
        assert wrong.is_error and "AGENT_UNKNOWN" in wrong.content[0].text, wrong
        missing = await client.call_tool("call_agent", {})
        assert missing.is_error and "INVALID_ARGUMENTS" in missing.content[0].text, missing
        try:
            await client.call_tool("no_such_tool", {})
        except MCPError as error:
            print(f"  refused as it must be: {error}")
        else:
            raise AssertionError("a tool that does not exist was called")


async def main():
    stdio = StdioServerParameters(command=ALTHING, args=[*BEFORE, "mcp"])
    for name, server in [("HTTP", f"{GATEWAY}/mcp"), ("standard input and output", stdio)]:
        for mode in ["auto", "legacy"]:
            print(f"{name}, {mode}")
            await drive(server, mode)
    print("MCP OK")


asyncio.run(main())
