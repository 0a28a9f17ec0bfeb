"""The tools of AgentDojo's four suites as servers of MCP (`/SUITE/mcp`, with the official SDK), and an endpoint without a model
that obeys whatever it reads (`/v1/chat/completions`), on one port, which it prints.

A run is begun (`POST /runs/SUITE`, with its `user` and its `injection` or none) and ended (`POST /runs/SUITE/end`); there is one
of a suite at a time. `GET /agents` gives the files of the four agents, with what is declared of their tools, and `GET /plan` all
runs that there are.
"""

import contextlib
import json
import socket

import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

import dojo

RUNS = {}


def tools_of(name):
    """A server of the tools of a suite, in the world of the run of now."""
    listed = [
        types.Tool(name=tool.name, description=tool.description, input_schema=tool.parameters.model_json_schema())
        for tool in dojo.SUITES[name].tools
    ]

    async def list_tools(_, __):
        return types.ListToolsResult(tools=listed)

    async def call_tool(_, params):
        text, failed = RUNS[name].call(params.name, params.arguments or {})
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    return Server(name, version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def agent(name, port):
    """The file of a suite's agent."""
    suite = dojo.SUITES[name]
    server = {
        "url": f"http://127.0.0.1:{port}/{name}/mcp",
        "effect": {tool.name: dojo.effect(tool.name) for tool in suite.tools},
        "profiles": dojo.profiles([tool.name for tool in suite.tools]),
    }
    endpoint = {"url": f"http://127.0.0.1:{port}/v1", "model": "obedient"}
    return {
        "name": name,
        "description": f"Does what it is told, with the tools of {name}",
        "runtime": {"model": {"prompt": "Do it.", "endpoints": [endpoint]}},
        "tools": {"dojo": server},
        "contract": {
            "class": {"latency": "srt"},
            "capabilities": ["dojo/*"],
            "compute": {"calls_per_turn": 64, "tokens_per_turn": 1_000_000},
            # Some tools answer with whole documents.
            "model": {"context_tokens": 100_000},
        },
    }


def heard(messages):
    """What tools answered since the user spoke last, and to whom that was said."""
    last = max(at for at, one in enumerate(messages) if one["role"] == "user")
    return messages[last]["content"].split()[0], [one["content"] for one in messages[last:] if one["role"] == "tool"]


async def complete(request):
    """What the script says next, as a stream of pieces."""
    name, answers = heard((await request.json())["messages"])
    run = RUNS[name]
    wanted = run.next(answers)
    if wanted is None:
        run.heard = answers
        pieces = [{"delta": {"content": run.task.GROUND_TRUTH_OUTPUT or "Done."}}, {"delta": {}, "finish_reason": "stop"}]
    else:
        function = {"name": f"dojo__{wanted[0]}", "arguments": json.dumps(wanted[1])}
        call = {"index": 0, "id": f"c{len(answers)}", "type": "function", "function": function}
        pieces = [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}]
    body = "".join(f"data: {json.dumps({'choices': [piece]})}\n\n" for piece in pieces) + "data: [DONE]\n\n"
    return Response(body, media_type="text/event-stream")


async def begin(request):
    wanted, name = await request.json(), request.path_params["suite"]
    run = RUNS[name] = dojo.Run(name, wanted["user"], wanted.get("injection"))
    run.heard = []
    return JSONResponse({"honest": run.honest, "ordered": run.ordered})


async def end(request):
    """What ran, and what AgentDojo finds of it."""
    run = RUNS[request.path_params["suite"]]
    ordered = run.ordered_task
    return JSONResponse({
        "ran": run.ran,
        "counted": [call for call in run.ran if dojo.counts(call[0])],
        "done": run.judged(run.task),
        "ordered": bool(ordered) and run.was_ordered(run.heard),
        "obeyed": bool(ordered) and run.judged(ordered),
    })


async def plan(_):
    return JSONResponse({"pairs": list(dojo.pairs()), "tasks": list(dojo.tasks())})


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    async def agents(_):
        return JSONResponse({name: agent(name, port) for name in dojo.SUITES})

    servers = {name: tools_of(name).streamable_http_app(json_response=True, stateless_http=True) for name in dojo.SUITES}

    @contextlib.asynccontextmanager
    async def lifespan(_):
        # What is mounted has a life of its own, which a mount does not begin.
        async with contextlib.AsyncExitStack() as stack:
            for server in servers.values():
                await stack.enter_async_context(server.router.lifespan_context(server))
            yield

    routes = [
        Route("/agents", agents),
        Route("/plan", plan),
        Route("/runs/{suite}", begin, methods=["POST"]),
        Route("/runs/{suite}/end", end, methods=["POST"]),
        Route("/v1/chat/completions", complete, methods=["POST"]),
        *(Mount(f"/{name}", server) for name, server in servers.items()),
    ]
    print(port, flush=True)
    uvicorn.run(Starlette(routes=routes, lifespan=lifespan), fd=listener.fileno(), log_level="warning")


main()
