# An agent as a WebAssembly component, made by componentize-py; README.md says how.
# It counts the messages of a task, says each word as it comes, and calls a tool when it is asked to.
import wit_world
from componentize_py_types import Err
from wit_world.imports import kernel
from wit_world.imports.turns import Reply_Ask, Reply_Done


# Each call has an object of its own; what the agent remembers is the module's.
count = 0


class WitWorld(wit_world.WitWorld):
    def on_message(self, text: str):
        global count
        count += 1
        word, _, rest = text.partition(" ")
        if word == "call":
            return Reply_Done(str(kernel.invoke_tool(*rest.split(" ", 1))))
        if word == "ask":
            return Reply_Ask(f"({count}) what else?")
        if word == "fail":
            raise Err("as it was told")
        for word in text.split():
            kernel.say(word + " ")
        return Reply_Done(f"({count})")

    def checkpoint(self) -> bytes:
        return count.to_bytes(4, "little")

    def restore(self, state: bytes):
        global count
        count = int.from_bytes(state, "little")
