"""What a client of the protocol (protocol/SPEC.md) reads and checks, in the standard library alone: CBOR, keys, names,
Hellos, frames, authored objects, key logs, evidence. `vectors.py` runs the vectors with it."""
import hashlib, json, re
DAY, SKEW, P, L = 86_400_000, 120_000, 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
ALPHABET, D, OTHERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", -121665 * pow(121666, -1, P) % P, {}
KINDS = {"description": 1, "grant": 2, "placement": 3, "key event": 4, "membership": 5, "binding": 6, "task move": 20, "handoff": 21, "handoff answer": 22}
sha = lambda data: hashlib.sha256(data).digest()
want = lambda true: true or refuse()
def refuse(): raise ValueError

# -- ed25519, verified strictly (P-13, P-17)
def add(a, b):
    (x, y, z, t), (u, v, w, s) = a, b
    a, b, c, d = (y - x) * (v - u), (y + x) * (v + u), 2 * t * s * D, 2 * z * w
    return (b - a) * (d - c) % P, (d + c) * (b + a) % P, (d - c) * (d + c) % P, (b - a) * (b + a) % P
def mul(n, point):
    out = (0, 1, 1, 0)
    while n:
        out, point, n = add(out, point) if n & 1 else out, add(point, point), n >> 1
    return out
def encode_point(point):
    x, y = (point[at] * pow(point[2], -1, P) % P for at in (0, 1))
    return (y | (x & 1) << 255).to_bytes(32, "little")
def point(data):
    want(isinstance(data, bytes) and len(data) == 32)
    sign, y = divmod(int.from_bytes(data, "little"), 1 << 255)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    x = x if x & 1 == sign else P - x
    want(y < P and (x * x - square) % P == 0 and encode_point(mul(8, (x, y, 1, x * y % P))) != encode_point((0, 1, 1, 0)))
    return x, y, 1, x * y % P
BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
def verify(key, message, signature):
    r, s, a = signature[:32], int.from_bytes(signature[32:], "little"), point(key)
    k = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % L
    want(s < L and point(r) and encode_point(add(mul(s, BASE), mul(k, (P - a[0], a[1], 1, P - a[3])))) == r)

# -- deterministic CBOR (P-1 to P-10)
def head(major, n):
    if n < 24: return bytes([major << 5 | n])
    size = next(size for size in (0, 1, 2, 3) if n < 1 << 8 * 2**size)
    return bytes([major << 5 | 24 + size]) + n.to_bytes(2**size, "big")
def encode(value):
    if isinstance(value, str): return head(3, len(value.encode())) + value.encode()
    if isinstance(value, bytes): return head(2, len(value)) + value
    if isinstance(value, int): return head(0, value)
    return head(4, len(value)) + b"".join(map(encode, value))
def decode(data, most):
    want(len(data) <= most)
    at, items = 0, 0
    def take(count):
        nonlocal at
        want(at + count <= len(data))
        at += count
        return data[at - count:at]
    def item(depth):
        nonlocal items
        items += 1
        want(items <= 4096)
        first = take(1)[0]
        major, small = first >> 5, first & 31
        if major == 7: return want(20 <= small <= 22) and {20: False, 21: True, 22: None}[small]
        want(major != 6 and small < 28)
        n = small if small < 24 else int.from_bytes(take(2 ** (small - 24)), "big")
        want(small < 24 or n >= (24, 256, 65536, 2**32)[small - 24])
        if major < 2: return n if major == 0 else -1 - n
        if major == 2: return bytes(take(n))
        if major == 3: return take(n).decode()
        want(depth < 32 and n <= len(data) - at)
        if major == 4: return [item(depth + 1) for _ in range(n)]
        out, last = {}, b""
        for _ in range(n):
            begin, key = at, item(depth + 1)
            want(data[begin:at] > last)
            last = data[begin:at]
            out[str(key) if isinstance(key, (list, dict)) else key] = item(depth + 1)
        return out
    value = item(0)
    want(at == len(data))
    return value

# -- identities (P-11, P-12)
def base58(data):
    number, out = int.from_bytes(data, "big"), ""
    while number: number, rest = divmod(number, 58); out = ALPHABET[rest] + out
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + out
def unbase58(text, begin, length):
    want(text and all(c in ALPHABET for c in text) and len(text) < 64)
    number = sum(ALPHABET.index(c) * 58**at for at, c in enumerate(reversed(text)))
    data = b"\0" * (len(text) - len(text.lstrip("1"))) + number.to_bytes(48, "big").lstrip(b"\0")
    want(data.startswith(begin) and len(data) == len(begin) + length)
    return data[len(begin):]
def publisher(text): return unbase58(text[13:], b"\x12\x20", 32) if text.startswith("urn:althing:z") else refuse()
urn = lambda digest: "urn:althing:z" + base58(b"\x12\x20" + digest)
def agent(text):
    want(isinstance(text, str) and text.count(":") == 3 and re.search("(?a):[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z", text))
    return publisher(text.rsplit(":", 1)[0]), text.rsplit(":", 1)[1]
def node(text):
    key = unbase58(text[9:], b"\xed\x01", 32) if text.startswith("did:key:z") else refuse()
    return point(key) and key

# -- shapes: each member is there and of its type, and no other is (P-18)
def shape(value, needed, optional={}):
    want(isinstance(value, dict) and set(needed) <= set(value) <= set(needed) | set(optional))
    for name, member in value.items():
        kind = {**needed, **optional}[name]
        want(kind(member) if callable(kind) and not isinstance(kind, type) else type(member) is kind)
    return value
uint = lambda value: type(value) is int and value >= 0
upto = lambda most, least=0: lambda value: uint(value) and least <= value <= most
b32 = lambda value: type(value) is bytes and len(value) == 32
is_key = lambda value: bool(point(value))
is_agent = lambda value: bool(agent(value))
text = lambda most: lambda value: type(value) is str and len(value.encode()) <= most
texts = lambda most: lambda value: type(value) is list and len(value) <= most and all(map(text(256), value))

# -- envelopes (P-14 to P-17)
def envelope(data, most):
    parts = decode(data, most)
    want(type(parts) is list and [type(one) for one in parts] == [bytes, dict, bytes, bytes] and parts[1] == {})
    protected, _, payload, signature = parts
    want(protected[:6] == bytes.fromhex("a20127045820") and len(protected) == 38 and len(signature) == 64)
    signed = lambda aad: encode(["Signature1", protected, encode(aad), payload])
    return protected[6:], decode(payload, most), lambda aad: verify(protected[6:], signed(aad), signature)
def hello(data, network):
    value = decode(data, 2048)
    want(isinstance(value, dict) and value.get(0) == 1)
    shape(value, {0: uint, 1: b32, 2: text(64)}, {3: lambda owner: bool(shape(owner, {0: bytes, 1: bytes}))})
    want(value[2] == network)
    owner = value.get(3) and {"membership": value[3][0].hex(), "inception": value[3][1].hex()}
    return {"version": 1, "challenge": value[1].hex(), "network": network, "owner": owner}
def frame(data, stream, by_opener, counter):
    challenges = [bytes.fromhex(stream[name]) for name in ("opener_challenge", "acceptor_challenge")]
    sides = [bytes.fromhex(stream[name]) for name in ("opener", "acceptor")]
    sender, receiver = sides if by_opener else sides[::-1]
    signer, payload, check = envelope(data, 1_114_112)
    want(signer == sender)
    shape(payload, {0: uint, 1: b32, 2: bytes, 3: dict})
    want(payload[0] == counter and payload[1] == receiver and payload[2] == sha(b"".join(challenges))[:8])
    check(["althing/frame/1", stream["network"], stream["protocol"], sender, receiver, *challenges])
    label, delegation = lambda it: bool(shape(it, {0: upto(3), 1: bool})), lambda it: type(it) is bytes and 0 < len(it) <= 4096
    of_request = {4: text(64), 5: is_agent, 6: uint, 7: text(512), 8: text(512), 9: texts(8)}
    of_data, kind = {12: label, 13: b32, 14: delegation}, payload[3].get(0)
    optional = {**(of_request if kind == 1 else {}), 10: texts(16), **(of_data if kind in (1, 2, 3) else {})}
    body = shape(payload[3], {0: uint, 11: bytes}, optional)
    want(kind in ((1, 6) if by_opener else (2, 3, 4, 5)) and (kind != 1 or 4 in body) and len(body[11]) <= 1 << 20)
    return body

# -- authored objects (P-35 to P-41, P-43 to P-58)
def authored(data, kind, network, scope=""):
    signer, body, check = envelope(data, 983_040)
    want(isinstance(body, dict) and body.get(0) == KINDS[kind])
    check([f"althing/{kind.replace(' ', '-')}/1", network, scope])
    loads = lambda value: type(value) is bytes and len(value) == 5 * len(body[7]) and all(one < 3 for one in value[::5])
    shares = lambda value: type(value) is bytes and len(value) == len(body[7]) and all(one in (*range(101), 255) for one in value)
    machine = lambda it: bool(shape(it, {0: upto(2), 1: upto(65535, 1), 2: upto(2**32 - 1), 3: upto(1000)}))
    ids = lambda all: [shape(one, {0: is_agent, 1: b32, 2: b32})[0] for one in all]
    hosted = lambda all: type(all) is list and len(all) <= 500 and ids(all) == sorted({one[0] for one in all})
    pair = lambda value: type(value) is list and len(value) == 2 and all(map(b32, value))
    needed, optional = {
        "description": ({1: is_agent, 2: uint, 3: uint, 4: bytes}, {}), "binding": ({1: is_key, 2: uint, 3: bytes}, {4: upto(65535), 5: b32}),
        "grant": ({1: is_agent, 2: is_key, 3: uint, 4: uint}, {}), "membership": ({1: b32, 2: is_key, 3: uint, 4: uint}, {}),
        "placement": ({1: is_key, 2: uint, 3: uint, 4: upto(60_000), 5: upto(1000), 6: upto(2), 7: hosted}, {8: machine, 9: loads, 10: shares}),
        "key event": ({1: upto(3, 1), 2: uint, 4: is_key, 6: uint}, {3: b32, 5: pair, 7: uint}),
        "task move": ({1: is_agent, 2: lambda it: it != "" and text(256)(it), 3: is_key, 4: upto(2**64 - 1, 1), 5: b32}, {}),
    }.get(kind) or OTHERS[kind]
    shape(body, {0: uint, **needed}, optional)
    if kind in ("grant", "membership"): want(body[3] <= body[4] <= body[3] + DAY)
    if kind in ("placement", "binding", "key event"): want(signer == body[4 if kind == "key event" else 1])
    if kind == "binding":
        written = json.dumps(json.loads(body[3]), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        want(written.encode() == body[3] and (4 in body or 5 not in body))
    return signer, body
def in_force(body, now): want(body[3] - SKEW <= now <= body[4])
def key_log(events):
    want(1 <= len(events) <= 208)
    log = [authored(event, "key event", "")[1] for event in events]
    for at, body in enumerate(log):
        want((body[1] == 1) == (at == 0) == (3 not in body) and body[2] == at and (5 in body) == (body[1] != 3))
        want(7 not in body or body[1] == 2 and body[7] <= body[6] + DAY)
        before = log[at - 1]
        if at:
            want(before[1] != 3 and body[3] == sha(events[at - 1]) and sha(body[4]) == before[5][0])
            want(body[6] >= before[6] and (body[1] == 3 or body[5][0] == before[5][1]))
    return log
def accepts(log, key, now):
    last, before = log[-1], log[-2] if len(log) > 1 else None
    overlap = before and 7 in last and now <= last[7] and last[6] <= now + SKEW
    want(last[1] != 3 and (key == last[4] or overlap and key == before[4]))
def evidence(data, network, of, node_key, now):
    parts = shape(decode(data, 1 << 20), {0: list, 1: bytes, 2: bytes})
    log, whose = key_log(parts[0]), agent(of)[0]
    want(sha(parts[0][0]) == whose)
    signer, description = authored(parts[1], "description", network)
    by, grant = authored(parts[2], "grant", network)
    for key in (signer, by): accepts(log, key, now)
    want(description[1] == of == grant[1] and grant[2] == node_key and description[3] <= now + SKEW)
    in_force(grant, now)
    return parts, description, grant
