# An agent as a WebAssembly component, made by componentize-py; README.md says how.
# It counts the messages of a task, says each word as it comes, and calls a tool when it is asked to: for "each", once for each
# word, and it saves after every second one how far it came, so that a node that ends meanwhile does not begin again.
import json
import struct

import wit_world
from componentize_py_types import Err
from wit_world.imports import kernel
from wit_world.imports.turns import Reply_Ask, Reply_Done


# After so many words it saves.
EVERY = 2
# Each call has an object of its own; what the agent remembers is the module's.
count = 0
# Words of the message that are done.
done = 0


class WitWorld(wit_world.WitWorld):
    def on_message(self, text: str):
        global count
        word, _, rest = text.partition(" ")
        if word == "each":
            return self.each(*rest.split())
        count += 1
        if word == "call":
            return Reply_Done(str(kernel.invoke_tool(*rest.split(" ", 1))))
        if word == "ask":
            return Reply_Ask(f"({count}) what else?")
        if word == "fail":
            raise Err("as it was told")
        for word in text.split():
            kernel.say(word + " ")
        return Reply_Done(f"({count})")

    def each(self, tool="", *words):
        global done
        # Not 0 where the turn goes on from what was saved.
        since = done
        for word in words[since:]:
            try:
                kernel.invoke_tool(tool, json.dumps({"word": word}))
            except Err as error:
                kernel.log(str(error.value))
            done += 1
            if done % EVERY == 0:
                try:
                    kernel.checkpoint(state())
                except Err as error:
                    kernel.log(str(error.value))
        finished, done = done, 0
        return Reply_Done(f"{finished} called" + (f", on from {since}" if since else ""))

    def checkpoint(self) -> bytes:
        return state()

    def restore(self, state: bytes):
        global count, done
        count, done = struct.unpack("<II", state)


def state() -> bytes:
    return struct.pack("<II", count, done)
