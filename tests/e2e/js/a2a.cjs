// The official A2A client for JavaScript against an agent: a2a.cjs BASE BINDING…, where BASE is its address with a slash at
// the end. The agent says words at the pace that its first word names. The same conversation over each binding.
const assert = require("node:assert");
const grpc = require("@grpc/grpc-js");
const { Role, TaskState } = require("@a2a-js/sdk");
const errors = require("@a2a-js/sdk/errors");
const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  require("@a2a-js/sdk/client");
const { GrpcTransportFactory } = require("@a2a-js/sdk/client/grpc");

const [, , base, ...bindings] = process.argv;
const { TASK_STATE_CANCELED, TASK_STATE_COMPLETED } = TaskState;
const limit = setTimeout(() => { console.error("it takes too long"); process.exit(1); }, 60_000);

/** gRPC's own client takes no scheme. */
class Grpc extends GrpcTransportFactory {
  create(url, card) {
    return super.create(url.replace("http://", ""), card);
  }
}

const transports = {
  JSONRPC: new JsonRpcTransportFactory(),
  "HTTP+JSON": new RestTransportFactory(),
  GRPC: new Grpc({ grpcChannelCredentials: grpc.credentials.createInsecure() }),
};

/** A message; names that a client leaves out are left out. */
function says(text, more = {}) {
  const part = { content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" };
  const message = { messageId: crypto.randomUUID(), contextId: "", taskId: "", role: Role.ROLE_USER, parts: [part],
    metadata: undefined, extensions: [], referenceTaskIds: [], ...more };
  return { tenant: "", message, configuration: undefined, metadata: undefined };
}

const task = (id) => ({ tenant: "", id });
const list = (more) => ({ tenant: "", contextId: "", status: 0, pageToken: "", ...more });
const words = (of) => of.artifacts.flatMap((artifact) => artifact.parts).map((part) => part.content.value).join("");
const ended = ({ payload }) => payload.value.status.state;

async function collected(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

async function refused(kind, promise) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof errors[kind], `${kind}: ${error.stack}`);
    return true;
  });
}

async function sendAndGet(client) {
  const done = await client.sendMessage(says("0.01 one two three"));
  assert.strictEqual(done.status.state, TASK_STATE_COMPLETED);
  assert.strictEqual(words(done), "one two three ");
  assert.strictEqual(done.status.message.parts[0].content.value, "3 words");
  const kept = await client.getTask(task(done.id));
  assert.deepStrictEqual([kept.id, kept.status.state, words(kept)], [done.id, TASK_STATE_COMPLETED, words(done)]);
  await refused("TaskNotFoundError", client.getTask(task("no-such-task")));
  await assert.rejects(client.sendMessage(says("0 more", { taskId: done.id })), "a task that is over takes no message");
  return done;
}

async function stream(client) {
  const times = [], events = [];
  for await (const event of client.sendMessageStream(says("0.1 a b c d"))) {
    times.push(performance.now());
    events.push(event);
  }
  assert.strictEqual(events[0].payload.$case, "task");
  const pieces = events.filter((event) => event.payload.$case === "artifactUpdate").map((event) => event.payload.value);
  assert.strictEqual(pieces.map((piece) => words({ artifacts: [piece.artifact] })).join(""), "a b c d ");
  assert.deepStrictEqual(pieces.map((piece) => piece.append), [false, true, true, true]);
  assert.strictEqual(ended(events.at(-1)), TASK_STATE_COMPLETED);
  assert.ok(times.at(-1) - times[0] > 200, `nothing streamed: ${times}`);
}

async function listed(client, done) {
  const ofContext = await client.listTasks(list({ contextId: done.contextId }));
  assert.deepStrictEqual(ofContext.tasks.map(({ id }) => id), [done.id]);
  const page = await client.listTasks(list({ pageSize: 1, status: TASK_STATE_COMPLETED }));
  assert.ok(page.tasks.length === 1 && page.totalSize >= 2 && page.nextPageToken, JSON.stringify(page));
  const rest = await client.listTasks(list({ pageSize: 100, status: TASK_STATE_COMPLETED, pageToken: page.nextPageToken }));
  assert.strictEqual(rest.tasks.length, page.totalSize - 1);
}

/** A second stream of a task tells the same as the first, and both end when it is cancelled. */
async function subscribeAndCancel(client, done) {
  const events = client.sendMessageStream(says("0.1 " + "w ".repeat(600)));
  const { id } = (await events.next()).value.payload.value;
  const second = client.resubscribeTask(task(id));
  const first = (await second.next()).value;
  assert.deepStrictEqual([first.payload.$case, first.payload.value.id], ["task", id]);
  const reading = collected(second);
  for (let pieces = 0; pieces < 2;) {
    if ((await events.next()).value.payload.$case === "artifactUpdate") pieces += 1;
  }
  const canceled = await client.cancelTask(task(id));
  assert.strictEqual(canceled.status.state, TASK_STATE_CANCELED);
  const [rest, seen] = [await collected(events), await reading];
  assert.strictEqual(ended(rest.at(-1)), TASK_STATE_CANCELED);
  assert.deepStrictEqual(seen.slice(-rest.length), rest, "both streams tell the same, in the same order");
  await refused("TaskNotCancelableError", client.cancelTask(task(done.id)));
  await refused("UnsupportedOperationError", collected(client.resubscribeTask(task(done.id))));
  await refused("TaskNotFoundError", collected(client.resubscribeTask(task("no-such-task"))));
}

async function pushed(client, done) {
  const config = { tenant: "", id: "mine", taskId: done.id, url: "https://hooks.example.org/a2a", token: "",
    authentication: undefined };
  const made = await client.createTaskPushNotificationConfig(config);
  assert.deepStrictEqual([made.id, made.taskId, made.url], [config.id, config.taskId, config.url]);
  const found = await client.getTaskPushNotificationConfig({ tenant: "", taskId: done.id, id: "mine" });
  assert.strictEqual(found.url, config.url);
  const all = await client.listTaskPushNotificationConfig({ tenant: "", taskId: done.id, pageSize: 0, pageToken: "" });
  assert.deepStrictEqual(all.configs.map(({ id }) => id), ["mine"]);
  await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: done.id, id: "mine" });
  const none = await client.listTaskPushNotificationConfig({ tenant: "", taskId: done.id, pageSize: 0, pageToken: "" });
  assert.deepStrictEqual(none.configs, []);
}

async function main() {
  const card = await new DefaultAgentCardResolver().resolve(base);
  assert.ok(card.capabilities.streaming && card.skills[0].id === "words.count", JSON.stringify(card));
  assert.ok(bindings.length > 0);
  for (const binding of bindings) {
    const client = await new ClientFactory({ transports: [transports[binding]] }).createFromUrl(base);
    assert.strictEqual(client.transport.protocolName, binding);
    const done = await sendAndGet(client);
    await stream(client);
    await listed(client, done);
    await subscribeAndCancel(client, done);
    await pushed(client, done);
    const extended = await client.getAgentCard();
    assert.strictEqual(extended.skills[0].id, "words.count");
    console.log(`${binding}: as it must be`);
  }
  clearTimeout(limit);
  console.log("A2A OK");
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
