// An agent of the official SDK for JavaScript, on the socket that its node hands it: says the words that it is told, at the
// pace that the first word names, and counts them.
const http = require("node:http");
const { AgentCard, Role, SSE_HEADERS, TaskState, formatSSEEvent } = require("@a2a-js/sdk");
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore, JsonRpcTransportHandler, ServerCallContext } =
  require("@a2a-js/sdk/server");

const card = AgentCard.fromJSON({
  name: "counter",
  description: "Counts words",
  version: "1.0.0",
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  capabilities: { streaming: true },
  skills: [{ id: "words.count", name: "Count", description: "Counts words", tags: ["words"] }],
  // Only the path counts: the node asks on the socket.
  supportedInterfaces: [{ url: "http://localhost/", protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
});

const part = (text) => ({ content: { $case: "text", value: text }, filename: "", mediaType: "" });

class Counter {
  cancelled = new Set();

  async execute({ taskId, contextId, userMessage }, bus) {
    const status = (state, text) => ({
      state,
      timestamp: new Date().toISOString(),
      message: text && { messageId: crypto.randomUUID(), contextId, taskId, role: Role.ROLE_AGENT, parts: [part(text)],
        extensions: [], referenceTaskIds: [] },
    });
    const update = (state, text) => bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, text) }));
    bus.publish(AgentEvent.task({
      id: taskId, contextId, status: status(TaskState.TASK_STATE_SUBMITTED), artifacts: [], history: [userMessage] }));
    update(TaskState.TASK_STATE_WORKING, "counting the words");
    const [pause, ...words] = userMessage.parts[0].content.value.split(" ").filter(Boolean);
    for (const [at, word] of words.entries()) {
      await new Promise((resolve) => setTimeout(resolve, 1000 * Number(pause)));
      if (this.cancelled.delete(taskId)) {
        update(TaskState.TASK_STATE_CANCELED);
        return bus.finished();
      }
      const artifact = { artifactId: "words", name: "", description: "", parts: [part(`${word} `)], extensions: [] };
      const lastChunk = at + 1 === words.length;
      bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append: at > 0, lastChunk }));
    }
    update(TaskState.TASK_STATE_COMPLETED, `${words.length} words`);
    bus.finished();
  }

  async cancelTask(taskId) {
    this.cancelled.add(taskId);
  }
}

const handler = new JsonRpcTransportHandler(new DefaultRequestHandler(card, new InMemoryTaskStore(), new Counter()));

async function answer(request, response) {
  if (request.method === "GET") return response.end(JSON.stringify(AgentCard.toJSON(card)));
  let body = "";
  for await (const piece of request) body += piece;
  const result = await handler.handle(body, new ServerCallContext({ requestedVersion: request.headers["a2a-version"] }));
  if (!(Symbol.asyncIterator in result)) {
    return response.setHeader("content-type", "application/json").end(JSON.stringify(result));
  }
  response.writeHead(200, SSE_HEADERS);
  try {
    for await (const event of result) response.write(formatSSEEvent(event));
  } catch (error) {
    response.write(formatSSEEvent({ jsonrpc: "2.0", id: null, error: JsonRpcTransportHandler.mapToJSONRPCError(error) }));
  }
  response.end();
}

http.createServer((request, response) => {
  answer(request, response).catch((error) => { console.error(error); response.destroy(); });
}).listen({ fd: 3 });
