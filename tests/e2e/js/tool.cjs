// A stock consumer of the Web of Things uses a tool of another node: the Thing at argv[2], whose only action takes a text.
const assert = require("node:assert");
const { Servient } = require("@node-wot/core");
const { HttpClientFactory } = require("@node-wot/binding-http");

const limit = setTimeout(() => { console.error("it takes too long"); process.exit(1); }, 60_000);

async function main() {
  const servient = new Servient();
  servient.addClientFactory(new HttpClientFactory());
  const wot = await servient.start();
  const td = await wot.requestThingDescription(process.argv[2]);
  const thing = await wot.consume(td);
  const [action] = Object.keys(td.actions);
  const output = await (await thing.invokeAction(action, { text: "hi" })).value();
  assert.strictEqual(output.text, `${action} {"text": "hi"}`);
  const model = new URL(td.links.find((link) => link.rel === "type").href, td.base);
  const { actions } = await (await fetch(model)).json();
  assert.deepStrictEqual(actions[action].input, td.actions[action].input);
  await servient.shutdown();
  clearTimeout(limit);
  console.log("TOOL OK");
}

main().catch((error) => { console.error(error); process.exit(1); });
