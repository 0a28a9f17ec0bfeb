"""Generates a client from the OpenAPI document at argv[1] with a stock generator, and uses it with the agent argv[2]."""
import subprocess
import sys

url, agent = sys.argv[1:]
generator = [sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{url}/openapi.json",
             "--output-path", "generated", "--overwrite"]
made = subprocess.run(generator, capture_output=True, text=True)
assert made.returncode == 0, made.stdout + made.stderr
sys.path.insert(0, "generated")

import althing_gateway_client as client
from althing_gateway_client.api.a2a import (get_a2_a_agent_tasks, get_a2_a_agent_tasks_task,
                                            get_a2_a_agent_well_known_agent_card_json, get_agents, post_a2_a_agent,
                                            post_a2_a_agent_message_send)
from althing_gateway_client.api.web_of_things import get_things_agent_properties_status, post_things_agent_actions_chat
from althing_gateway_client.models import (ErrorInfo, GetTaskRequest, JsonRpcRequest, JsonRpcRequestMethod, Message, Part,
                                           PostThingsAgentActionsChatBody, Role, SendMessageRequest, TaskState)

gateway = client.Client(base_url=url)
listed = get_agents.sync(client=gateway)
assert agent in [known.name for known in listed.agents], listed
body = PostThingsAgentActionsChatBody.from_dict({"messages": [{"role": "user", "content": "hello"}]})
said = post_things_agent_actions_chat.sync(agent, client=gateway, body=body)
assert said.messages[0].content == "hello", said
status = get_things_agent_properties_status.sync(agent, client=gateway)
assert status.to_dict(), status
wrong = post_things_agent_actions_chat.sync("nobody", client=gateway, body=body)
assert wrong.status == 404, wrong

# A2A, with the types of its specification.
card = get_a2_a_agent_well_known_agent_card_json.sync(agent, client=gateway)
assert card.skills and "HTTP+JSON" in [interface.protocol_binding for interface in card.supported_interfaces], card
message = Message(message_id="generated-1", role=Role.ROLE_USER, parts=[Part(text="hello again")])
sent = post_a2_a_agent_message_send.sync(agent, client=gateway, body=SendMessageRequest(message=message))
task = sent.task
assert task.status.state == TaskState.TASK_STATE_COMPLETED, sent
assert task.artifacts[0].parts[0].text == "hello again", sent
read = get_a2_a_agent_tasks_task.sync(agent, task.id, client=gateway, history_length=1)
assert read.artifacts == task.artifacts and read.history[0].role == Role.ROLE_USER, read
page = get_a2_a_agent_tasks.sync(agent, client=gateway, context_id=task.context_id, page_size=1, include_artifacts=True)
assert (page.total_size, page.tasks[0].id, page.next_page_token) == (1, task.id, ""), page
call = JsonRpcRequest(jsonrpc="2.0", id=7, method=JsonRpcRequestMethod.GETTASK, params=GetTaskRequest(id=task.id))
called = post_a2_a_agent.sync(agent, client=gateway, body=call)
assert (called.id, called.result.status.state) == (7, TaskState.TASK_STATE_COMPLETED), called
missing = get_a2_a_agent_tasks_task.sync(agent, "no-such-task", client=gateway).error
[info] = [detail for detail in missing.details if isinstance(detail, ErrorInfo)]
assert (missing.code, info.reason, info.domain) == (404, "TASK_NOT_FOUND", "a2a-protocol.org"), missing
print("GENERATED OK")
