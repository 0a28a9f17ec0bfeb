// node build.mjs FOLDER-OF-WIT app.js counter.wasm
import { readFile, writeFile } from "node:fs/promises";
import { componentize } from "@bytecodealliance/componentize-js";

const [wit, source, target] = process.argv.slice(2);
const disableFeatures = ["http", "fetch-event", "stdio"];
const { component } = await componentize(await readFile(source, "utf8"), { witPath: wit, worldName: "agent", disableFeatures });
await writeFile(target, component);
