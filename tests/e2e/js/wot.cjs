// A stock consumer of the Web of Things: consumes the Thing at argv[2] unaided, and uses what its description offers.
// With a token (argv[3]) the description is fetched with it, and forms are called with it.
const assert = require("node:assert");
const { Servient } = require("@node-wot/core");
const { HttpClientFactory } = require("@node-wot/binding-http");

const [, , url, token] = process.argv;

const says = (text) => ({ messages: [{ role: "user", content: text }] });
const limit = setTimeout(() => { console.error("it takes too long"); process.exit(1); }, 60_000);

async function introduced(wot) {
  const node = await wot.consume(await wot.requestThingDescription(new URL("/.well-known/wot", url).href));
  const page = await (await node.readProperty("things", { uriVariables: { offset: 0, limit: 1 } })).value();
  assert.strictEqual(page.length, 1, "the variables of the form are filled in");
}

async function observed(thing) {
  const events = [];
  let woken = () => {};
  const subscription = await thing.subscribeEvent("agentEvent", async (event) => {
    events.push(await event.value());
    woken();
  }, (error) => { console.error(error); process.exit(1); });
  await thing.invokeAction("chat", says("seen"));
  const over = () => events.find((event) => event.payload.includes("TASK_STATE_COMPLETED"));
  while (!over()) await new Promise((resolve) => { woken = resolve; });
  assert.ok(events.some((event) => event.payload.includes("seen")), JSON.stringify(events));
  await subscription.stop();
}

async function main() {
  const servient = new Servient();
  servient.addClientFactory(new HttpClientFactory());
  const wot = await servient.start();
  const headers = { authorization: `Bearer ${token}` };
  const td = token ? await (await fetch(url, { headers })).json() : await wot.requestThingDescription(url);
  if (token) servient.addCredentials({ [td.id]: { token } });
  const thing = await wot.consume(td);
  assert.strictEqual(td.securityDefinitions[td.security[0]].scheme, token ? "bearer" : "nosec");
  const output = await (await thing.invokeAction("chat", says("hello"))).value();
  assert.strictEqual(output.status, "completed");
  assert.strictEqual(output.messages[0].content, "hello");
  await assert.rejects(thing.invokeAction("chat", { messages: [] }), /Bad Request/);
  const status = await (await thing.readProperty("status")).value();
  assert.strictEqual(status.available, true);
  const tasks = await (await thing.readProperty("tasks")).value();
  assert.strictEqual(tasks.total, 1);
  // Its client of server-sent events sends no token.
  if (!token) {
    await observed(thing);
    await introduced(wot);
  }
  await servient.shutdown();
  clearTimeout(limit);
  console.log("WOT OK");
}

main().catch((error) => { console.error(error); process.exit(1); });
