"""Computes the figures of a comparison again, with scipy and numpy.

    python scipy_figures.py FILE      FILE is what `althing compare --json` printed

Prints how many figures are equal. Those of the bootstrap are computed on the same draws: ChaCha20 (20 rounds), whose key is the seed,
by its own definition.
"""

import json
import math
import sys

import numpy as np
from scipy.stats import beta, binomtest

RESAMPLES = 9_999
CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
QUARTERS = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
            (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]


def draws(seed, count):
    """So many words of 64 bits."""
    blocks = -(-count // 8)
    state = np.zeros((16, blocks), dtype=np.uint32)
    state[0:4] = CONSTANTS[:, None]
    state[4], state[5] = seed & 0xFFFFFFFF, seed >> 32
    state[12] = np.arange(blocks, dtype=np.uint32)
    work = state.copy()

    def turn(to, by, bits):
        word = work[to] ^ work[by]
        work[to] = (word << np.uint32(bits)) | (word >> np.uint32(32 - bits))

    for _ in range(10):
        for a, b, c, d in QUARTERS:
            for one, other, turned, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                work[one] += work[other]
                turn(turned, one, bits)
    words = (work + state).T.reshape(-1).astype(np.uint64)
    return (words[0::2] | (words[1::2] << np.uint64(32)))[:count]


def resampled(values, alpha, seed):
    """The bounds of the mean, by the percentiles of means of samples drawn again."""
    size = len(values)
    drawn = draws(seed, RESAMPLES * size)
    # The upper half of the product with the size, which is far below 2**32.
    high, low = drawn >> np.uint64(32), drawn & np.uint64(0xFFFFFFFF)
    places = (high * np.uint64(size) + ((low * np.uint64(size)) >> np.uint64(32))) >> np.uint64(32)
    means = np.array(values)[places.astype(np.int64)].reshape(RESAMPLES, size).mean(axis=1)
    return np.percentile(means, [100 * alpha / 2, 100 * (1 - alpha / 2)])


def share(some, of, alpha):
    low = beta.ppf(alpha / 2, some, of - some + 1) if some else 0.0
    high = beta.ppf(1 - alpha / 2, some + 1, of - some) if some < of else 1.0
    return low, high


def check(figures, alpha):
    """The figures of passes and fails."""
    pairs, broken, mended = figures["pairs"], figures["broken"], figures["mended"]
    p = binomtest(broken, broken + mended, 0.5).pvalue if broken + mended else 1.0
    lost, won = share(broken, pairs, alpha / 2), share(mended, pairs, alpha / 2)
    wanted = [p, won[0] - lost[1], won[1] - lost[0], (mended - broken) / pairs]
    return equal([figures["p"], *figures["interval"], figures["difference"]], wanted)


def check_scores(report):
    """The figures of all scores as one."""
    cases = sorted(report["cases"], key=lambda case: case["id"])
    differences = [case["after"] - case["before"] for case in cases]
    bounds = resampled(differences, report["alpha"], report["seed"])
    whole = report["whole"]
    return equal([*whole["interval"], whole["difference"]], [*bounds, float(np.mean(differences))])


def equal(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert math.isclose(one, other, rel_tol=1e-8, abs_tol=1e-10), (found, wanted)
    return len(found)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        told = json.load(file)
    if told["whole"]["p"] is None:
        print(check_scores(told))
    else:
        parts = told["slices"]
        print(check(told["whole"], told["alpha"]) + sum(check(part, told["alpha"] / len(parts)) for part in parts.values()))
