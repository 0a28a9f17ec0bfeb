// The same agent as app.py, made into a component by componentize-js; README.md says how.
import { invokeTool, say } from "althing:agent/kernel@0.1.0";

let count = 0;

export function onMessage(text) {
  count += 1;
  const [word, tool, ...rest] = text.split(" ");
  if (word === "call") return { tag: "done", val: invokeTool(tool, rest.join(" ")) };
  if (word === "ask") return { tag: "ask", val: `(${count}) what else?` };
  if (word === "fail") throw "as it was told";
  for (const word of text.split(/\s+/).filter(Boolean)) say(word + " ");
  return { tag: "done", val: `(${count})` };
}

export function checkpoint() {
  return new Uint8Array(Uint32Array.of(count).buffer);
}

export function restore(state) {
  count = new Uint32Array(state.slice().buffer)[0];
}
