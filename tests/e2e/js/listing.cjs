// The official clients of MCP, of both major versions: each lists the tools of a node, and calls those of one agent. The first
// argument is the address of the node's server, the second one how the names of the agent's tools begin.
const one = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const two = require("@modelcontextprotocol/client");

const [address, prefix] = process.argv.slice(2);

async function works(client, transport) {
  await client.connect(transport);
  const { tools } = await client.listTools();
  const odd = tools.filter(({ name }) => name.startsWith(prefix));
  for (const { name, outputSchema } of odd) {
    if (outputSchema === undefined) throw new Error(`${name} promises nothing`);
    // The client compares the result with the schema that was listed.
    const result = await client.callTool({ name, arguments: {} });
    if (result.isError || result.structuredContent === undefined) throw new Error(`${name}: ${JSON.stringify(result)}`);
  }
  await client.close();
  console.log(`${odd.length} tools`);
}

async function main() {
  const me = { name: "listing", version: "1" };
  await works(new one.Client(me), new StreamableHTTPClientTransport(new URL(address)));
  await works(new two.Client(me), new two.StreamableHTTPClientTransport(new URL(address)));
  console.log("LISTED OK");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
