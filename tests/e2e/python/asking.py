# A component that asks the agent which the first word names, with the rest of what it was told.
import wit_world
from componentize_py_types import Err
from wit_world.imports import kernel
from wit_world.imports.turns import Reply_Done


class WitWorld(wit_world.WitWorld):
    def on_message(self, text: str):
        to, _, rest = text.partition(" ")
        try:
            said = kernel.send(to, rest, None)
        except Err as error:
            return Reply_Done(f"no answer: {error.value}")
        assert not said.asks and said.task
        return Reply_Done(f"{to} said: {said.text}")

    def checkpoint(self) -> bytes:
        return b""

    def restore(self, state: bytes):
        pass
