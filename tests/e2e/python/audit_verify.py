"""Verifies an exported leaf of an audit log, written from protocol/SPEC.md alone (P-17, P-172 to P-174, P-209, P-210, P-212).
    audit_verify.py FILE LOG_KEY [WANTED WITNESS_KEY...]

Prints what the leaf says as JSON; ends with 1 and a reason where the file does not show it.
"""

import base64
import hashlib
import json
import sys

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROLES = ["arguments", "result", "reason", "before", "after"]
STAGES = ["asked", "answered", "denied", "intent", "outcome", "changed", "started", "ended", "turn"]
NAMES = "kind atMs stage principals accountable agent version contract binding policy deciding action definition label"
NAMES = dict(enumerate((NAMES + " labelAfter consent row trace outcome bodies verdicts").split()))
Refused = type("Refused", (Exception,), {})


def need(condition, reason):
    if not condition:
        raise Refused(reason)


def sha256(data):
    return hashlib.sha256(data).digest()


def unbase64(text):
    data = base64.b64decode(text, validate=True)
    need(base64.b64encode(data).decode() == text, "base64 is not as it is written")
    return data


# Ed25519 (RFC 8032), strict as P-17 says: no small order, canonical points and scalars, no cofactor.
def add(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    m, n, c, d = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2), 2 * t1 * t2 * D, 2 * z1 * z2
    e, f, g, h = n - m, d - c, d + c, n + m
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(scalar, point):
    result = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def same(a, b):
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def point(data):
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    need(y < P, "a point is not canonical")
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    need((x * x - square) % P == 0 and not (x == 0 and sign), "it is no point")
    return (x if x & 1 == sign else P - x, y, 1, (x if x & 1 == sign else P - x) * y % P)


def verify(key, message, signature):
    need(len(key) == 32 and len(signature) == 64, "a key or a signature has another length")
    a, r, s = point(key), point(signature[:32]), int.from_bytes(signature[32:], "little")
    need(s < L, "a signature is not canonical")
    need(not same(times(8, a), (0, 1, 1, 0)) and not same(times(8, r), (0, 1, 1, 0)), "a point has a small order")
    y = 4 * pow(5, P - 2, P) % P
    base = point(y.to_bytes(32, "little"))
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    return same(times(s, base), add(r, times(k, a)))


def note_key(text, kind):
    name, digits, key = (text.split("+", 2) + ["", ""])[:3]
    typed = unbase64(key)
    need(name and len(typed) == 33 and typed[0] == kind, "a key is not of its kind")
    need(sha256(name.encode() + b"\n" + typed)[:4].hex() == digits, "the digits of a key are not its own")
    return name, bytes.fromhex(digits), typed[1:]


def signatures(lines, key):
    for line in lines:
        dash, name, data = (line.split(" ") + ["", ""])[:3]
        need(dash == "\u2014", "a signature does not begin with an em dash")
        data = unbase64(data)
        if (name, data[:4]) == key[:2]:
            yield data[4:]


def checkpoint(note, log, witnesses, wanted):
    need(len(note.encode()) <= 65536, "the checkpoint is too long")
    text, lines = note[: note.rindex("\n\n") + 1], note[note.rindex("\n\n") + 2 :]
    need(lines.endswith("\n"), "the checkpoint is cut")
    lines = lines[:-1].split("\n")
    own = list(signatures(lines, log))
    need(own and all(verify(log[2], text.encode(), one) for one in own), "the log did not sign the checkpoint")
    name, size, root = text.split("\n")[:3]
    need(name == log[0], "the checkpoint is of another log")
    need(size.isascii() and size.isdigit() and str(int(size)) == size and int(size) <= 2**48, "the size is no number")

    def signed(witness):
        for one in signatures(lines, witness):
            time = int.from_bytes(one[:8], "big")
            message = f"cosignature/v1\ntime {time}\n{text}"
            need(verify(witness[2], message.encode(), one[8:]), "a witness's signature is wrong")
            return True
        return False

    found = sum(signed(witness) for witness in witnesses)
    need(found >= wanted, f"{found} witnesses signed, and {wanted} are wanted")
    return int(size), unbase64(root)


def included(leaf, index, size, hashes, root):
    need(index < size, "there is no such entry")
    digest, at, last = sha256(b"\0" + leaf), index, size - 1
    for one in hashes:
        need(last, "the proof is too long")
        if at & 1 or at == last:
            digest = sha256(b"\1" + one + digest)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            digest = sha256(b"\1" + digest + one)
        at, last = at >> 1, last >> 1
    need(last == 0 and digest == root, "the proof leads to another root")


def item(data, at):
    need(at < len(data), "the leaf is cut")
    kind, low, at = data[at] >> 5, data[at] & 31, at + 1
    if kind == 7:
        need(low in (20, 21), "the leaf has what it must not")
        return low == 21, at
    need(low < 28 and kind != 6, "the leaf has what it must not")
    length = 0 if low < 24 else 1 << (low - 24)
    number = int.from_bytes(data[at : at + length], "big") if length else low
    need(not length or number >= (24 if length == 1 else 1 << (4 * length)), "a number is longer than it must be")
    at += length
    if kind == 0:
        return number, at
    if kind in (2, 3):
        need(at + number <= len(data), "the leaf is cut")
        part = data[at : at + number]
        return (part if kind == 2 else part.decode()), at + number
    need(kind in (4, 5) and number <= 256, "the leaf has what it must not")
    items = []
    for _ in range(number * (2 if kind == 5 else 1)):
        one, at = item(data, at)
        items.append(one)
    if kind == 4:
        return items, at
    need(all(a < b for a, b in zip(items[::2], items[2::2])), "the keys of a map do not ascend")
    return dict(zip(items[::2], items[1::2])), at


def check(text, log, witnesses, wanted):
    need(len(text.encode()) <= 4 << 20, "it is too long")
    head, _, proof = text.partition("\n\n")
    first, key, leaf_line, *bodies = head.split("\n")
    need(first == "althing audit leaf 1" and key.startswith("log ") and leaf_line.startswith("leaf "), "no exported leaf")
    need(key[4:] == log, "it is of another log than the one that is trusted")
    data = unbase64(leaf_line[5:])
    leaf, end = item(data, 0)
    need(end == len(data) <= 8192 and leaf.get(0) == 23 and set(leaf) <= set(range(21)), "it is no leaf")
    lines, _, note = proof.partition("\n\n")
    version, index, *hashes = [line for line in lines.split("\n") if not line.startswith("extra ")]
    need(version == "c2sp.org/tlog-proof@v1" and index.startswith("index "), "it has no proof")
    need(len(hashes) <= 64, "the proof is too long")
    size, root = checkpoint(note, note_key(log, 1), [note_key(one, 4) for one in witnesses], wanted)
    included(data, int(index[6:]), size, [unbase64(one) for one in hashes], root)
    named = [(body[0], body[1]) for body in leaf[19]]
    for line in bodies:
        word, role, salt, body = line.split(" ")
        need(word == "body" and role in ROLES, "a line is no body")
        commitment = sha256(unbase64(salt) + unbase64(body))
        need((ROLES.index(role), commitment) in named, f"the {role} are not those that the leaf names")
    shown = {name: leaf[at] for at, name in NAMES.items() if at in leaf}
    return {**shown, "index": int(index[6:]), "entries": size, "stage": STAGES[leaf[2]]}


def main(path, log, wanted="0", *witnesses):
    try:
        with open(path, encoding="utf-8", newline="") as file:
            shown = check(file.read(), log, witnesses, int(wanted))
    except (Refused, ValueError, KeyError, IndexError, TypeError) as error:
        sys.exit(f"refused: {error}")
    print(json.dumps(shown, default=bytes.hex, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
