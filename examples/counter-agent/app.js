// The same agent as app.py, made into a component by componentize-js; README.md says how.
import { checkpoint as save, invokeTool, log, say } from "althing:agent/kernel@0.1.0";

// After so many words it saves.
const EVERY = 2;
let count = 0;
// Words of the message that are done.
let done = 0;

export function onMessage(text) {
  const [word, tool, ...rest] = text.split(" ");
  if (word === "each") return each(tool, rest);
  count += 1;
  if (word === "call") return { tag: "done", val: invokeTool(tool, rest.join(" ")) };
  if (word === "ask") return { tag: "ask", val: `(${count}) what else?` };
  if (word === "fail") throw "as it was told";
  for (const word of text.split(/\s+/).filter(Boolean)) say(word + " ");
  return { tag: "done", val: `(${count})` };
}

function each(tool, words) {
  // Not 0 where the turn goes on from what was saved.
  const since = done;
  for (const word of words.slice(since)) {
    attempt(() => invokeTool(tool, JSON.stringify({ word })));
    done += 1;
    if (done % EVERY === 0) attempt(() => save(checkpoint()));
  }
  const finished = done;
  done = 0;
  return { tag: "done", val: `${finished} called` + (since ? `, on from ${since}` : "") };
}

function attempt(make) {
  try {
    make();
  } catch (error) {
    log(String(error.payload ?? error));
  }
}

export function checkpoint() {
  return new Uint8Array(Uint32Array.of(count, done).buffer);
}

export function restore(state) {
  [count, done] = new Uint32Array(state.slice().buffer);
}
