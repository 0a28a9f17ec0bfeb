// Stock consumers of the Web of Things: they use the directory at argv[2] by its own description, and know nothing else of
// directories. One reads; the other has a token (argv[3]), with which it fetches the description, and writes.
const assert = require("node:assert");
const { Servient } = require("@node-wot/core");
const { HttpClientFactory } = require("@node-wot/binding-http");

const [, , url, token] = process.argv;
const COUNT = 25;

const limit = setTimeout(() => { console.error("it takes too long"); process.exit(1); }, 60_000);

const thing = (number) => ({
  "@context": "https://www.w3.org/2022/wot/td/v1.1",
  id: `urn:example:lamp-${String(number).padStart(2, "0")}`,
  title: `Lamp ${number}`,
  securityDefinitions: { none: { scheme: "nosec" } },
  security: ["none"],
});

async function all(directory, words) {
  const found = [];
  for (;;) {
    const uriVariables = { offset: found.length, limit: 10, ...words };
    const page = await (await directory.readProperty("things", { uriVariables })).value();
    if (page.length === 0) return found;
    assert.ok(page.length <= 10);
    found.push(...page);
  }
}

async function heard(directory, event, act) {
  let told;
  const first = new Promise((resolve, reject) => {
    told = directory.subscribeEvent(event, async (data) => resolve(await data.value()), reject);
  });
  const subscription = await told;
  await act();
  const data = await first;
  await subscription.stop();
  return data;
}

async function main() {
  const servient = new Servient();
  servient.addClientFactory(new HttpClientFactory());
  const wot = await servient.start();
  const introduction = new URL("/.well-known/wot", url).href;
  const reader = await wot.consume(await wot.requestThingDescription(introduction));
  const td = await (await fetch(introduction, { headers: { authorization: `Bearer ${token}` } })).json();
  servient.addCredentials({ [td.id]: { token } });
  const directory = await wot.consume(td);

  for (let number = 0; number < COUNT - 1; number += 1) {
    const described = thing(number);
    await directory.invokeAction("createThing", described, { uriVariables: { id: described.id } });
  }
  const last = thing(COUNT - 1);
  const created = await heard(reader, "thingCreated", () =>
    directory.invokeAction("createThing", last, { uriVariables: { id: last.id } }));
  assert.strictEqual(created.id, last.id);

  const ids = (found) => found.map((one) => one.id);
  const wanted = ids(Array.from({ length: COUNT }, (_, number) => thing(number)));
  assert.deepStrictEqual(ids(await all(reader, {})), wanted, "three pages");
  assert.deepStrictEqual(ids(await all(reader, { sort_order: "desc" })), wanted.slice().reverse());
  await assert.rejects(reader.invokeAction("createThing", last, { uriVariables: { id: last.id } }), "it has no token");
  const collection = await (await reader.readProperty("thingCollection", { uriVariables: { limit: 2 } })).value();
  assert.strictEqual(collection.total, COUNT);
  assert.strictEqual(collection.members.length, 2);

  const one = { uriVariables: { id: last.id } };
  const retrieved = await (await directory.invokeAction("retrieveThing", undefined, one)).value();
  assert.strictEqual(retrieved.title, last.title);
  assert.ok(retrieved.registration.created);
  await directory.invokeAction("updateThing", { ...last, title: "Light" }, one);
  await directory.invokeAction("partiallyUpdateThing", { description: "Gives light" }, one);
  const query = { uriVariables: { query: "$[?@.title == 'Light'].description" } };
  const found = await (await reader.invokeAction("searchJSONPath", undefined, query)).value();
  assert.deepStrictEqual(found, ["Gives light"]);
  const deleted = await heard(reader, "thingDeleted", () => directory.invokeAction("deleteThing", undefined, one));
  assert.strictEqual(deleted.id, last.id);
  await assert.rejects(directory.invokeAction("retrieveThing", undefined, one));
  const { id, ...anonymous } = last;
  await directory.invokeAction("createAnonymousThing", anonymous);
  assert.strictEqual((await all(reader, {})).length, COUNT);

  await servient.shutdown();
  clearTimeout(limit);
  console.log("DIRECTORY OK");
}

main().catch((error) => { console.error(error); process.exit(1); });
