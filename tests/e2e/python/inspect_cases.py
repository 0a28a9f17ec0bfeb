"""Reads a file of cases with inspect-ai, unchanged, and says with its scorers of texts which are right.

    python inspect_cases.py read FILE       one line of JSON for each case: id, input, target, metadata
    python inspect_cases.py score           asks of each line of standard input, [text, target], all five scorers
    python inspect_cases.py check           compares the scorers with what the node's are tested to say
"""

import asyncio
import json
import sys
from types import SimpleNamespace

from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import CORRECT, Target, includes, match

SCORERS = {
    "includes": includes(),
    "match": match(),
    "match:begin": match(location="begin"),
    "match:any": match(location="any"),
    "match:exact": match(location="exact"),
}

# The table of node/l6-verification/src/machine/report/scorer.rs.
TABLE = [
    ("The answer is 42.", "42", [True, True, False, True, False]),
    ("42 is it", "42", [True, False, True, True, False]),
    (" 42!\n", "42", [True, True, True, True, True]),
    ("PARIS", "paris", [True] * 5),
    ("in Paris, France", "Paris", [True, False, False, True, False]),
    ("STRASSE", "straße", [True] * 5),
    ("ΣΟΦΟΣ", "σοφος", [True] * 5),
    ("", "x", [False] * 5),
    ("nothing", "42", [False] * 5),
]


def read(path):
    for sample in json_dataset(path):
        given = sample.input if isinstance(sample.input, str) else [message.text for message in sample.input]
        row = {"id": sample.id, "input": given, "target": sample.target, "metadata": sample.metadata}
        print(json.dumps(row))


def right(text, target):
    """What each scorer says of a text."""
    state = SimpleNamespace(output=SimpleNamespace(completion=text))

    async def ask():
        scores = [await scorer(state, Target(target)) for scorer in SCORERS.values()]
        return [score.value == CORRECT for score in scores]

    return asyncio.run(ask())


def score():
    for line in sys.stdin:
        text, target = json.loads(line)
        print(json.dumps(dict(zip(SCORERS, right(text, target)))))


def check():
    for text, target, wanted in TABLE:
        said = right(text, target)
        assert said == wanted, (text, target, said, wanted)
    print(len(TABLE))


if __name__ == "__main__":
    {"read": lambda: read(sys.argv[2]), "score": score, "check": check}[sys.argv[1]]()
