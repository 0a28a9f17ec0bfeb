// Validates the OpenAPI document at argv[2] with a stock validator, and calls an operation as the document says.
const assert = require("node:assert");
const path = require("node:path");
const { pathToFileURL } = require("node:url");

const [, , url, agent] = process.argv;

async function main() {
  const validator = path.join(process.env.NODE_PATH, "@seriousme/openapi-schema-validator/index.js");
  const { Validator } = await import(pathToFileURL(validator).href);
  const document = await (await fetch(url)).json();
  const checking = new Validator();
  const { valid, errors } = await checking.validate(structuredClone(document));
  assert.ok(valid, JSON.stringify(errors, null, 1));
  assert.strictEqual(checking.version, "3.1");
  // The validator must be able to refuse.
  const broken = structuredClone(document);
  delete broken.info;
  assert.ok(!(await new Validator().validate(broken)).valid);
  const operations = Object.entries(document.paths).flatMap(([route, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route, method, operation })));
  const chat = operations.find(({ operation }) => operation.operationId === "postThingsAgentActionsChat");
  const address = document.servers[0].url + chat.route.replace("{agent}", encodeURIComponent(agent));
  const [media] = Object.keys(chat.operation.requestBody.content);
  const body = JSON.stringify({ messages: [{ role: "user", content: "hello" }] });
  const answer = await fetch(address, { method: chat.method.toUpperCase(), headers: { "content-type": media }, body });
  assert.ok(chat.operation.responses[answer.status], `${answer.status} is described`);
  assert.strictEqual((await answer.json()).messages[0].content, "hello");
  console.log("OPENAPI OK");
}

main().catch((error) => { console.error(error); process.exit(1); });
