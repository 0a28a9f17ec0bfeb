"""Runs the protocol's vectors with `althing.py`: `python3 vectors.py protocol/vectors`. Exits with 1 where it decides
otherwise."""
import hashlib, json, pathlib, sys

import handoff, sessions
from althing import *

def public(seed):
    number = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little") & (1 << 254) - 8 | 1 << 254
    return encode_point(mul(number, BASE))

def identity(given):
    form = given["form"]
    if form == "agent":
        digest, name = agent(given["text"])
        return {"publisher": urn(digest), "digest": digest.hex(), "name": name}
    if form == "publisher": return {"digest": publisher(given["text"]).hex()}
    if form == "digest": return {"publisher": urn(bytes.fromhex(given["digest"]))}
    if form == "caller":
        text = given["text"]
        return {"node": node(text).hex()} if text.startswith("did:") else {"publisher": publisher(text).hex()}
    if form == "seed": key = public(bytes.fromhex(given["seed"]))
    if form == "public_key": key = bytes.fromhex(given["public_key"])
    if form == "did": key = node(given["text"])
    if form == "peer_id": key = unbase58(given["text"], bytes.fromhex("002408011220"), 32)
    point(key)
    return {"public_key": key.hex(), "did": "did:key:z" + base58(b"\xed\x01" + key),
            "peer_id": base58(bytes.fromhex("002408011220") + key)}

def cbor(given):
    decode(bytes.fromhex(given["bytes"]), given["max_bytes"])
    return {}

def frames(given):
    by_opener = given["receiver"] == "acceptor"
    for counter, earlier in enumerate(given["accepted_before"]):
        frame(bytes.fromhex(earlier), given["stream"], by_opener, counter)
    it = frame(bytes.fromhex(given["frame"]), given["stream"], by_opener, len(given["accepted_before"]))
    names = "operation agent deadline_ms traceparent tracestate principals extensions".split()
    out = {name: it.get(at) for at, name in enumerate(names, 4)}
    if 12 in it:
        level = ("public", "internal", "confidential", "restricted")[it[12][0]]
        out["label"] = {"level": level, "trusted": it[12][1]}
    if 13 in it: out["session"] = it[13].hex()
    if 14 in it: out["delegation"] = it[14].hex()
    kind = ("request", "response", "event", "end", "error", "cancel")[it[0] - 1]
    return {"kind": kind, **out, "body": it[11].hex()}

def objects(given):
    kind, now, data = given["kind"], given["now_ms"], bytes.fromhex(given["object"])
    signer, body = authored(data, kind, given["network"], given["scope"])
    if kind in ("grant", "membership"): in_force(body, now)
    if kind == "handoff": handoff.in_time(body, now)
    if kind == "placement": want(body[3] - SKEW <= now <= body[3] + body[4] + SKEW)
    return {"signer": signer.hex(), "digest": sha(data).hex(), "body": shown(kind, body, now)}

def hosted(it): return {"agent": it[0], "description": it[1].hex(), "grant": it[2].hex()}

def shown(kind, it, now):
    if kind == "handoff": return handoff.shown(it, now)
    if kind == "handoff answer": return handoff.told(it)
    hexed = lambda at: it[at].hex() if at in it else None
    if kind == "description": return {"agent": it[1], "sequence": it[2], "issued_at_ms": it[3], "td": hexed(4)}
    if kind == "grant": return {"agent": it[1], "node": hexed(2), "not_before_ms": it[3], "not_after_ms": it[4]}
    if kind == "membership":
        return {"owner": urn(it[1]), "node": hexed(2), "not_before_ms": it[3], "not_after_ms": it[4]}
    if kind == "binding":
        seal = {"node": hexed(1), "bound_at_ms": it[2], "core": it.get(4), "proof": hexed(5)}
        return {**seal, "manifest": json.loads(it[3]), "hash": sha(it[3]).hex()}
    if kind == "key event":
        return {"change": it[1], "sequence": it[2], "previous": hexed(3), "key": hexed(4), "issued_at_ms": it[6],
                "next": [one.hex() for one in it[5]] if 5 in it else None, "previous_until_ms": it.get(7)}
    if kind == "task move":
        return {"agent": it[1], "task": it[2], "to": hexed(3), "fence": it[4], "contents": hexed(5)}
    loads = [it[9][at:at + 5] for at in range(0, len(it[9]), 5)] if 9 in it else None
    names = ("grade", "cores", "memory_mib", "promised_permille")
    machine = {name: it[8][at] for at, name in enumerate(names)} if 8 in it else None
    turns = lambda one: {"class": ("hrt", "srt", "dt")[one[0]], "turns": int.from_bytes(one[1:], "big")}
    return {"node": hexed(1), "sequence": it[2], "issued_at_ms": it[3], "ttl_ms": it[4], "load_permille": it[5],
            "health": it[6], "agents": [hosted(one) for one in it[7]],
            "loads": loads and [turns(one) for one in loads],
            "successes": [None if one == 255 else one for one in it[10]] if 10 in it else None,
            "machine": machine and {**machine, "grade": "ABC"[machine["grade"]]}}

def keylogs(given):
    events = [bytes.fromhex(event) for event in given["events"]]
    log = key_log(events)
    accepts(log, bytes.fromhex(given["key"]), given["now_ms"])
    out = {"publisher": urn(sha(events[0])), "events": len(events)}
    if "seen" in given:
        seen = [bytes.fromhex(event) for event in given["seen"]]
        same = (at for at, (one, other) in enumerate(zip(events, seen)) if one != other)
        common = next(same, min(len(events), len(seen)))
        own, other = len(events) - common, len(seen) - common
        names = {(0, 0): "same"}
        if own and not other: names[own, other] = "continues"
        if other and not own: names[own, other] = "is continued"
        if own > 1 and other == 1: names[own, other] = "displaces"
        if own == 1 and other > 1: names[own, other] = "is displaced"
        out["relation_to_seen"] = names.get((own, other), "contradicts")
    return out

def shows(given):
    data, key = bytes.fromhex(given["evidence"]), bytes.fromhex(given["node"])
    parts, description, grant = evidence(data, given["network"], given["agent"], key, given["now_ms"])
    return {"description": sha(parts[1]).hex(), "grant": sha(parts[2]).hex(), "sequence": description[2],
            "td": description[4].hex(), "not_after_ms": grant[4]}

RUN = {
    "cbor": cbor,
    "identity": identity, "hello": lambda given: hello(bytes.fromhex(given["bytes"]), given["network"]),
    "frames": frames, "objects": objects, "keylogs": keylogs, "evidence": shows, "sessions": sessions.run,
}

def main(folder):
    wrong = 0
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        told = json.loads(path.read_text())
        run = RUN.get(told["what"])
        if run is None:
            print(f"{path.name}: not read by this client")
            continue
        for vector in told["vectors"]:
            try: outcome = run(vector["input"])
            except ValueError: outcome = None
            expected = vector["decoded"] if vector["verdict"] == "accept" else None
            if outcome != expected:
                wrong += 1
                print(f"{path.name}: {vector['name']}: {outcome} in place of {expected}")
        print(f"{path.name}: {len(told['vectors'])} vectors")
    print(f"{wrong} decided otherwise" if wrong else "all as expected")
    return 1 if wrong else 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
