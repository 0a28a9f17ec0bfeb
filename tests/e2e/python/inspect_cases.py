"""Reads a file of cases with inspect-ai, unchanged, and says with its scorers of texts which are right.

    python inspect_cases.py make COUNT      generated cases, whose inputs are the outputs of an agent that says again what it hears
    python inspect_cases.py read FILE       one line of JSON for each case: id, input, target, metadata
    python inspect_cases.py score FILE      what each scorer says of each case, with its input as output: {SCORER: {ID: right}}
    python inspect_cases.py check           compares the scorers with what the node's are tested to say
"""

import asyncio
import json
import random
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


WORDS = ["Paris", "paris", "42", "4", "2", "no", "Yes", "straße", "STRASSE", "Σοφός", "mug", "a mug", "e-mail", "it's"]
BETWEEN = [" ", " ", ", ", ". ", " - ", "; "]
AROUND = ["", "", "", ".", "!", "?", "\"", " ", "...", "(", ")"]


def make(count):
    """The same ones each time."""
    draw = random.Random(7)

    def phrase(most):
        said = draw.choice(WORDS)
        for _ in range(draw.randrange(most)):
            said += draw.choice(BETWEEN) + draw.choice(WORDS)
        return said

    def target(text):
        words = text.split()
        cut = [text, words[0], words[-1], " ".join(words[:2]), " ".join(words[-2:]), draw.choice(words), phrase(2)]
        one = draw.choice([str, str.upper, str.lower])(draw.choice(cut))
        # An answer of punctuation alone is in every text for Inspect, and not for a node: docs/testing-agents.md.
        return one if any(letter.isalnum() for letter in one) else phrase(1)

    for number in range(count):
        text = draw.choice(AROUND) + phrase(5) + draw.choice(AROUND)
        targets = [target(text) for _ in range(draw.choice([1, 1, 2, 3]))]
        row = {"id": f"case-{number}", "input": text, "target": targets[0] if len(targets) == 1 else targets}
        print(json.dumps(row))


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


def score(path):
    samples = list(json_dataset(path))
    said = [right(sample.input, sample.target) for sample in samples]
    ids = [sample.id for sample in samples]
    print(json.dumps({name: dict(zip(ids, column)) for name, column in zip(SCORERS, zip(*said))}))


def check():
    for text, target, wanted in TABLE:
        said = right(text, target)
        assert said == wanted, (text, target, said, wanted)
    print(len(TABLE))


if __name__ == "__main__":
    {"make": lambda: make(int(sys.argv[2])), "read": lambda: read(sys.argv[2]), "score": lambda: score(sys.argv[2]),
     "check": check}[sys.argv[1]]()
