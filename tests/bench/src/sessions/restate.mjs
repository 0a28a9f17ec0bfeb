// A service of Restate: told a number and a tool's address it calls the tool so often, one call after the other, each a durable
// step, and says how many were answered. Prints its port.
import { createServer } from "node:http2";
import { createEndpointHandler, service } from "@restatedev/restate-sdk";

// Node.js 20 does not have it, which is maintained as long as Debian's.
Promise.withResolvers ??= () => {
  let resolve, reject;
  const promise = new Promise((yes, no) => { [resolve, reject] = [yes, no]; });
  return { promise, resolve, reject };
};

async function called({ url, headers, request }, text) {
  const body = JSON.stringify({ ...request, params: { ...request.params, arguments: { text } } });
  const response = await fetch(url, { method: "POST", headers, body });
  return (await response.json()).result.content[0].text;
}

const steps = service({
  name: "steps",
  handlers: {
    run: async (ctx, { count, tool }) => {
      let answered = 0;
      for (let step = 0; step < count; step++) {
        const text = `step ${step}`;
        if (await ctx.run(text, () => called(tool, text)) === text) answered += 1;
      }
      return answered;
    },
  },
});
const server = createServer(createEndpointHandler({ services: [steps] }));
server.listen(0, "127.0.0.1", () => console.log(`- ${server.address().port}`));
