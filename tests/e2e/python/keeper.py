# Works its memory as it is told, and says what came of it.
import wit_world
from componentize_py_types import Err
from wit_world.imports import memory
from wit_world.imports.turns import Reply_Done


class WitWorld(wit_world.WitWorld):
    def on_message(self, text: str):
        word, _, rest = text.partition(" ")
        try:
            return Reply_Done(self.work(word, rest))
        except Err as refused:
            return Reply_Done("refused: " + refused.value)

    def work(self, word: str, rest: str) -> str:
        if word == "put":
            key, _, value = rest.partition(" ")
            memory.put(key, value.encode())
            return "kept"
        if word == "get":
            value = memory.get(rest)
            return "nothing" if value is None else value.decode()
        if word == "remember":
            source, _, text = rest.partition(" ")
            return f"{memory.remember(source, text)} passages"
        if word == "recall":
            return "; ".join(f"{found.source}: {found.text}" for found in memory.recall(rest, 1))
        if word == "forget":
            return f"{memory.forget(rest)} passages"
        return " ".join(memory.keys(""))

    def checkpoint(self) -> bytes:
        return b""

    def restore(self, state: bytes):
        pass
