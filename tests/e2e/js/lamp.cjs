// A stock server of the Web of Things: a lamp at 127.0.0.1, at the port of argv[2]. With a second argument it wants that user and
// password (USER:PASSWORD). SIGHUP emits the event; from SIGUSR2 on it shows another description.
const { Servient } = require("@node-wot/core");
const { HttpServer } = require("@node-wot/binding-http");

const [, , port, credentials] = process.argv;
const id = "urn:dev:ops:lamp";

function described(changed) {
  return {
    id,
    title: "Lamp",
    ...(credentials && { securityDefinitions: { basic_sc: { scheme: "basic" } }, security: "basic_sc" }),
    description: changed ? "A lamp that also reports who is at home." : "A lamp on a desk.",
    properties: {
      level: { type: "integer", minimum: 0, maximum: 100, description: "How bright it is" },
      serial: { type: "string", readOnly: true },
    },
    actions: {
      dim: {
        description: "Changes how bright it is",
        input: { type: "object", properties: { by: { type: "integer" } }, required: ["by"] },
        output: { type: "object", properties: { level: { type: "integer" } } },
      },
      fail: { description: "Fails" },
    },
    events: { overheated: { description: "It is too hot", data: { type: "integer" } } },
  };
}

async function expose(wot, state, changed) {
  const thing = await wot.produce(described(changed));
  thing.setPropertyReadHandler("level", async () => state.level);
  thing.setPropertyWriteHandler("level", async (value) => { state.level = await value.value(); });
  thing.setPropertyReadHandler("serial", async () => "L-1");
  thing.setActionHandler("dim", async (input) => {
    state.level += (await input.value()).by;
    return { level: state.level };
  });
  thing.setActionHandler("fail", async () => { throw new Error("the bulb is broken"); });
  await thing.expose();
  return thing;
}

async function main() {
  const servient = new Servient();
  const security = credentials ? [{ scheme: "basic" }] : undefined;
  // By default its forms lead to the addresses of the machine on its networks.
  const baseUri = `http://127.0.0.1:${port}`;
  servient.addServer(new HttpServer({ port: Number(port), address: "127.0.0.1", baseUri, security }));
  if (credentials) {
    const [username, password] = credentials.split(":");
    servient.addCredentials({ [id]: { username, password } });
  }
  const wot = await servient.start();
  const state = { level: 40 };
  let thing = await expose(wot, state, false);
  process.on("SIGHUP", () => thing.emitEvent("overheated", 97));
  process.on("SIGUSR2", async () => {
    await thing.destroy();
    thing = await expose(wot, state, true);
  });
}

main().catch((error) => { console.error(error); process.exit(1); });
