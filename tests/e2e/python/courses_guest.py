# A component: `courses.py` stands before this in one module.
import json

import wit_world
from componentize_py_types import Err
from wit_world.imports import kernel
from wit_world.imports.turns import Reply_Done


class WitWorld(wit_world.WitWorld):
    def on_message(self, text: str):
        calls, said = course(text)
        for tool, arguments in calls:
            try:
                kernel.invoke_tool(tool, json.dumps(arguments))
            except Err as error:
                kernel.log(str(error.value))
        # As it would be streamed, and the end at once.
        for at in range(0, len(said) // 2, 7):
            kernel.say(said[at:min(at + 7, len(said) // 2)])
        return Reply_Done(said[len(said) // 2:])

    def checkpoint(self) -> bytes:
        return b""

    def restore(self, state: bytes):
        pass
