// The official MCP client, by whom a user is asked: everything.cjs URL MODE SECONDS STEPS, against a node that adopted the official
// server that does everything. MODE is that of the client: "auto" finds the newest version, "legacy" is one with sessions. Any
// surprise ends it with an error.
const assert = require("node:assert/strict");
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

const [url, mode, seconds, steps] = process.argv.slice(2);
const duration = Number(seconds), many = Number(steps);
const VERSIONS = { auto: "2026-07-28", legacy: "2025-11-25" };

const texts = (result) => result.content.map((block) => block.text).join("\n");

/** The tool asks its user, who answers so. */
async function elicits(client, questions) {
  questions.answer = { action: "accept", content: { name: "Ada", check: true, integer: 7 } };
  const given = texts(await client.callTool({ name: "trigger-elicitation-request", arguments: {} }));
  assert.match(given, /Name: Ada\n- Agreed to terms: true\n- Favorite Integer: 7/);
  assert.equal(questions.asked.length, 1);
  assert.equal(questions.asked[0].requestedSchema.required[0], "name");
  for (const action of ["decline", "cancel"]) {
    questions.answer = { action };
    const refused = texts(await client.callTool({ name: "trigger-elicitation-request", arguments: {} }));
    assert.ok(refused.includes(`"action": "${action}"`), refused);
  }
  assert.equal(questions.asked.length, 3, "each time the user is asked once");
}

/** Each step of a long work is told, in order, before it ends. */
async function progresses(client) {
  const told = [];
  const onprogress = ({ progress, total }) => told.push([progress, total]);
  const options = { onprogress, timeout: 60_000, resetTimeoutOnProgress: true };
  const asked = { name: "trigger-long-running-operation", arguments: { duration, steps: many } };
  const done = texts(await client.callTool(asked, options));
  assert.deepEqual(told, Array.from({ length: many }, (_, at) => [at + 1, many]));
  assert.match(done, new RegExp(`completed. Duration: ${duration} seconds, Steps: ${many}`));
}

async function main() {
  const client = new Client({ name: "user", version: "1" }, {
    capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } });
  const questions = { asked: [], answer: undefined };
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    questions.asked.push(params);
    return questions.answer;
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  assert.equal(client.getNegotiatedProtocolVersion(), VERSIONS[mode]);
  const { tools } = await client.listTools();
  assert.ok(tools.length >= 13, `${tools.length} tools`);
  const sum = await client.callTool({ name: "get-sum", arguments: { a: 2, b: 40 } });
  assert.match(texts(sum), /42/);
  const weather = await client.callTool({ name: "get-structured-content", arguments: { location: "Chicago" } });
  assert.equal(typeof weather.structuredContent.temperature, "number");
  const picture = await client.callTool({ name: "get-tiny-image", arguments: {} });
  assert.ok(picture.content.some((block) => block.type === "image" && block.data.length > 1_000));
  await elicits(client, questions);
  await progresses(client);
  await client.close();
  console.log("EVERYTHING OK");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
