"""Generates a client from the OpenAPI document at argv[1] with a stock generator, and uses it with the agent argv[2]."""
import json
import subprocess
import sys

url, agent = sys.argv[1:]
generator = [sys.executable, "-m", "openapi_python_client", "generate", "--url", f"{url}/openapi.json",
             "--output-path", "generated", "--overwrite"]
made = subprocess.run(generator, capture_output=True, text=True)
assert made.returncode == 0, made.stdout + made.stderr
sys.path.insert(0, "generated")

import althing_gateway_client as client
from althing_gateway_client.api.a2a import get_a2_a_agent_tasks_task, get_agents, post_a2_a_agent_message_send
from althing_gateway_client.api.web_of_things import get_things_agent_properties_status, post_things_agent_actions_chat
from althing_gateway_client.models import PostA2AAgentMessageSendBody, PostThingsAgentActionsChatBody

gateway = client.Client(base_url=url, headers={"A2A-Version": "1.0"})
listed = get_agents.sync_detailed(client=gateway)
assert listed.status_code == 200, listed
body = PostThingsAgentActionsChatBody.from_dict({"messages": [{"role": "user", "content": "hello"}]})
said = post_things_agent_actions_chat.sync(agent, client=gateway, body=body)
assert said.messages[0].content == "hello", said
status = get_things_agent_properties_status.sync(agent, client=gateway)
assert status.to_dict(), status
message = {"messageId": "generated-1", "role": "ROLE_USER", "parts": [{"text": "hello again"}]}
body = PostA2AAgentMessageSendBody.from_dict({"message": message})
sent = post_a2_a_agent_message_send.sync_detailed(agent, client=gateway, body=body)
task = json.loads(sent.content)["task"]
assert (sent.status_code, task["status"]["state"]) == (200, "TASK_STATE_COMPLETED"), sent
read = get_a2_a_agent_tasks_task.sync_detailed(agent, task["id"], client=gateway)
assert json.loads(read.content)["artifacts"] == task["artifacts"], read
wrong = post_things_agent_actions_chat.sync("nobody", client=gateway, body=PostThingsAgentActionsChatBody.from_dict(
    {"messages": [{"role": "user", "content": "hello"}]}))
assert wrong.to_dict()["status"] == 404, wrong
print("GENERATED OK")
