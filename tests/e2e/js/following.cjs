// The official A2A client for JavaScript follows one task to its end on one stream: following.cjs BASE TEXT, where BASE is the
// address of the agent with a slash at the end. A stream that breaks, that has not one task, as its first event, or that tells something
// else than the task has in the end, ends it with an error.
const assert = require("node:assert");
const { Role, TaskState } = require("@a2a-js/sdk");
const { ClientFactory, JsonRpcTransportFactory } = require("@a2a-js/sdk/client");

const [, , base, text] = process.argv;
const limit = setTimeout(() => { console.error("it takes too long"); process.exit(1); }, 60_000);

function says(words) {
  const part = { content: { $case: "text", value: words }, metadata: undefined, filename: "", mediaType: "" };
  const message = { messageId: crypto.randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER, parts: [part],
    metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { tenant: "", message, configuration: undefined, metadata: undefined };
}

const words = (parts) => parts.map((part) => part.content.value).join("");

async function main() {
  const client = await new ClientFactory({ transports: [new JsonRpcTransportFactory()] }).createFromUrl(base);
  const artifacts = new Map();
  let [task, state] = [undefined, undefined];
  for await (const { payload: { $case: kind, value } } of client.sendMessageStream(says(text))) {
    assert.strictEqual(kind === "task", task === undefined, "one task, before all else");
    if (kind === "task") {
      [task, state] = [value.id, value.status.state];
      for (const { artifactId, parts } of value.artifacts) artifacts.set(artifactId, words(parts));
    } else if (kind === "statusUpdate") {
      state = value.status.state;
    } else if (kind === "artifactUpdate") {
      const { artifactId, parts } = value.artifact;
      artifacts.set(artifactId, (value.append ? artifacts.get(artifactId) ?? "" : "") + words(parts));
    }
  }
  assert.strictEqual(state, TaskState.TASK_STATE_COMPLETED);
  const whole = await client.getTask({ tenant: "", id: task });
  const told = [...artifacts.values()].join("");
  assert.strictEqual(told, whole.artifacts.map(({ parts }) => words(parts)).join(""));
  clearTimeout(limit);
  console.log(told);
  console.log("FOLLOWED OK");
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
