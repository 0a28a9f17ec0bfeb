// The server that MCP's conformance suite asks for, as far as tools go: made with the official SDK, on a port of its own,
// which it prints. The suite says which tools it calls, and what they answer.
const { createServer } = require("node:http");
const { createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired, McpServer } =
  require("@modelcontextprotocol/server");
const { getRequestListener } = require("@hono/node-server");

// A picture of one point, and a sound of no samples.
const PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

const text = (said) => ({ type: "text", text: said });
const image = { type: "image", data: PICTURE, mimeType: "image/png" };
const resource = (uri, mimeType, said) => ({ type: "resource", resource: { uri, mimeType, text: said } });
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

// State that comes back from clients is sealed.
const state = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });

/** A request for one answer of a person. */
function asks(name, message, member, type) {
  const requestedSchema = { type: "object", properties: { [member]: { type } }, required: [member] };
  return { [name]: inputRequired.elicit({ message, requestedSchema }) };
}

/** What the person answered, if that is so. */
function answer({ mcpReq }, name, member) {
  const given = mcpReq.inputResponses?.[name];
  return given?.action === "accept" ? given.content?.[member] : undefined;
}

function greets(context) {
  const name = answer(context, "user_name", "name");
  if (typeof name === "string") return { content: [text(`Hello, ${name}!`)] };
  return inputRequired({ inputRequests: asks("user_name", "What is your name?", "name", "string") });
}

async function confirms(context) {
  if (context.mcpReq.requestState() === undefined) {
    return inputRequired({
      inputRequests: asks("confirm", "Please confirm", "ok", "boolean"), requestState: await state.mint("asked", context) });
  }
  return { content: [text("state-ok")] };
}

async function inRounds(context) {
  const step = context.mcpReq.requestState() ?? 0;
  const questions = [
    ["step1", "Step 1: What is your name?", "name"],
    ["step2", "Step 2: What is your favorite color?", "color"],
  ];
  if (step === questions.length) return { content: [text("All steps are done")] };
  const [name, message, member] = questions[step];
  const requestState = await state.mint(step + 1, context);
  return inputRequired({ inputRequests: asks(name, message, member, "string"), requestState });
}

const titled = [{ const: "value1", title: "First" }, { const: "value2", title: "Second" }];

/** A tool that shows a form, and says what was filled in. */
function form(properties) {
  const filled = inputRequired.elicit({ message: "Please fill this in", requestedSchema: { type: "object", properties } });
  return ({ mcpReq }) => {
    const given = mcpReq.inputResponses?.form;
    if (given === undefined) return inputRequired({ inputRequests: { form: filled } });
    return { content: [text(`action=${given.action}, content=${JSON.stringify(given.content)}`)] };
  };
}

/** Tools that answer with their content. */
const TOOLS = {
  test_simple_text: () => [text("This is a simple text response for testing.")],
  test_image_content: () => [image],
  test_audio_content: () => [{ type: "audio", data: SOUND, mimeType: "audio/wav" }],
  test_embedded_resource: () =>
    [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
  test_multiple_content_types: () => [
    text("Multiple content types test:"),
    image,
    resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ],
  test_error_handling: () => { throw new Error("This tool intentionally returns an error for testing"); },
  test_tool_with_progress: async ({ mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
      }
      await pause();
    }
    return [text("Its progress was told")];
  },
  test_logging_tool: async ({ mcpReq }) => {
    await mcpReq.log("info", "It works");
    return [text("It was logged")];
  },
};

/** Tools that ask for more, or refuse. */
const ASKING = {
  test_input_required_result_elicitation: greets,
  test_streaming_elicitation: greets,
  test_input_required_result_request_state: confirms,
  test_input_required_result_tampered_state: confirms,
  test_input_required_result_multi_round: inRounds,
  test_missing_capability: () => inputRequired({ inputRequests: { model: inputRequired.createMessage({
    messages: [{ role: "user", content: text("What is the capital of France?") }], maxTokens: 100 }) } }),
  test_elicitation: form({ username: { type: "string" }, email: { type: "string" } }),
  test_elicitation_sep1034_defaults: form({
    name: { type: "string", default: "John Doe" },
    age: { type: "integer", default: 30 },
    score: { type: "number", default: 95.5 },
    status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
    verified: { type: "boolean", default: true },
  }),
  test_elicitation_sep1330_enums: form({
    untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
    titledSingle: { type: "string", oneOf: titled },
    legacyEnum: { type: "string", enum: ["opt1", "opt2"], enumNames: ["Option One", "Option Two"] },
    untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
    titledMulti: { type: "array", items: { anyOf: titled } },
  }),
};

// What a schema of JSON Schema 2020-12 has beside properties.
const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: { type: "string" }, city: { type: "string" } } } },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
};

function server() {
  const options = { capabilities: { tools: {} }, requestState: { verify: state.verify } };
  const made = new McpServer({ name: "fixture", version: "1.0.0" }, options);
  const tools = Object.entries(TOOLS).map(([name, does]) => [name, async (context) => ({ content: await does(context) })]);
  for (const [name, does] of [...tools, ...Object.entries(ASKING)]) {
    const inputSchema = fromJsonSchema({ type: "object", properties: { message: { type: "string" } } });
    made.registerTool(name, { description: `Does ${name}`, inputSchema }, (_, context) => does(context));
  }
  const inputSchema = fromJsonSchema(SCHEMA);
  made.registerTool("json_schema_2020_12_tool", { description: "Has a schema", inputSchema }, () => ({ content: [text("It has")] }));
  return made;
}

const handler = createMcpHandler(server);
const listening = createServer(getRequestListener((request) => handler.fetch(request))).listen(0, "127.0.0.1", () => {
  console.log(listening.address().port);
});
