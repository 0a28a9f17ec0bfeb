# The kernel loop of agent-os-kernel: so many clients at once make so many calls of an action each, under so many policies, and each
# call is recorded in memory.
# For each line that it reads it makes one round, and prints how many calls a second that were.
import asyncio
import sys
import time

from agent_os.stateless import ExecutionContext, StatelessKernel

CLIENTS, CALLS, POLICIES = (int(word) for word in sys.argv[1:4])
# As many as the node has, each of which forbids something else.
policies = {f"p{number}": {"blocked_actions": [f"shut-{number}"]} for number in range(POLICIES)}
kernel, audit = StatelessKernel(policies=policies), []


async def client(number):
    context = ExecutionContext(agent_id=f"agent-{number}", policies=list(policies))
    for step in range(CALLS):
        done = await kernel.execute(action="say", params={"step": step}, context=context)
        assert done.success, done.error
        audit.append((context.agent_id, "say", step, done.metadata))


async def crowd():
    begun = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    return CLIENTS * CALLS / (time.perf_counter() - begun)


for _ in sys.stdin:
    print(asyncio.run(crowd()), flush=True)
    audit.clear()
