"""What a handoff has (P-206), whose sign-offs under it count (P-207), and what is said to it (P-208). `vectors.py` reads both
with it."""
import hashlib, unicodedata

from althing import *

LEVELS = ("public", "internal", "confidential", "restricted")
entry = lambda most, least=1: lambda value: text(most)(value) and len(value.encode()) >= least
name, line = entry(128), entry(4096)
listed = lambda kind, most=64: lambda value: type(value) is list and len(value) <= most and all(map(kind, value))
data = lambda most, least=0: lambda value: type(value) is bytes and least <= len(value) <= most
of = lambda needed, optional={}: lambda value: bool(shape(value, needed, optional)) or not needed
number = upto(2**64 - 1)
seen = lambda value: all(unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp") for c in value)
version_7 = lambda value: type(value) is bytes and len(value) == 16 and value[6] >> 4 == 7 and value[8] >> 6 == 2
context = of(
    {0: entry(65_536, 0), 3: of({at: listed(line) for at in range(3)}), 4: listed(name),
     5: of({}, {0: upto(2**32 - 1), 1: number, 2: line})},
    {1: line, 2: data(524_288)},
)
sign_off = of({0: lambda role: name(role) and seen(role), 1: number, 2: data(512, 1)})
regulation = of(
    {0: upto(3), 2: listed(name), 3: listed(of({0: name, 1: b32})), 4: listed(sign_off, 16)}, {1: name}
)
OTHERS["handoff"] = (
    {1: version_7, 2: entry(256), 3: of({0: is_agent}, {1: b32}), 4: is_agent, 5: number, 6: number, 7: context,
     8: listed(line), 9: listed(line), 10: listed(of({0: name, 1: name, 2: number, 3: b32}))},
    {11: of({0: upto(3), 1: bool}), 12: b32, 13: regulation},
)

# -- answers: what each of them has beside its word (member 4)
REASONS = ("missing_tools", "context_overflow", "not_capable", "deadline", "busy", "label", "sign_off_missing",
           "bad_signature", "incomplete", "conflict", "not_accepted", "too_late")
SAID = {"accepted": {5: "task", 6: "acceptance", 7: "until_ms"}, "queued": {8: "wait_ms"}, "already_done": {5: "task"},
        "duplicate": {9: "original"}, "rejected": {10: "reason", 11: "message"}}
OTHERS["handoff answer"] = (
    {1: b32, 2: is_agent, 3: number, 4: upto(4)},
    {5: entry(256), 6: upto(2**64 - 1, 1), 7: number, 8: number, 9: lambda it: type(it) is bytes and len(it) == 16,
     10: upto(11), 11: line},
)

def told(body):
    word = list(SAID)[body[4]]
    want({at for at in body if at > 4} == set(SAID[word]))
    form = {"original": bytes.hex, "reason": REASONS.__getitem__}
    members = {name: form.get(name, lambda it: it)(body[at]) for at, name in SAID[word].items()}
    return {"offer": body[1].hex(), "recipient": body[2], "issued_at_ms": body[3], "verdict": word, **members}

def in_time(body, now): want(body[5] <= body[6] <= body[5] + DAY and body[5] - SKEW <= now <= body[6])

def written(value):
    """Deterministic CBOR of what was read."""
    if value is True or value is False: return b"\xf5" if value else b"\xf4"
    if isinstance(value, list): return head(4, len(value)) + b"".join(map(written, value))
    if isinstance(value, dict):
        return head(5, len(value)) + b"".join(written(key) + written(value[key]) for key in sorted(value))
    return encode(value)

def document(body):
    return sha(written({**body, 13: {**body[13], 4: []}} if 13 in body else body))

def signer(body, one, now):
    """The key of a sign-off, in hexadecimal; None where it does not count."""
    part = lambda value: len(value).to_bytes(4, "big") + value
    lines = ("althing handoff sign-off", f"document: {document(body).hex()}", f"role: {one[0]}", f"until: {one[1]}")
    message = "".join(line + "\n" for line in lines).encode()
    for hashed in ("sha512", "sha256"):
        names = part(b"althing-handoff") + part(b"") + part(hashed.encode())
        # magic, version, and a key of 51 bytes; the names; the kind of the signature again, and its 64 bytes
        begin = b"SSHSIG\0\0\0\1" + b"\0\0\0\x33" + part(b"ssh-ed25519") + b"\0\0\0\x20"
        end = names + b"\0\0\0\x53" + part(b"ssh-ed25519") + b"\0\0\0\x40"
        given = one[2]
        if len(given) != len(begin) + 32 + len(end) + 64 or given[:len(begin)] != begin: continue
        key, rest = given[len(begin):len(begin) + 32], given[len(begin) + 32:]
        if rest[:-64] != end: continue
        try: verify(key, b"SSHSIG" + names + part(hashlib.new(hashed, message).digest()), rest[-64:])
        except ValueError: return None
        return key.hex() if now <= one[1] else None
    return None

def shown(body, now):
    given, hexed = body[7], lambda it, at: it[at].hex() if at in it else None
    memory, bounds, rules = given[3], given[5], body.get(13)
    label = {"level": LEVELS[body[11][0]], "trusted": body[11][1]} if 11 in body else None
    artifacts = [{"name": it[0], "media_type": it[1], "size": it[2], "digest": it[3].hex()} for it in body[10]]
    signed = lambda it: {"role": it[0], "until_ms": it[1], "signer": signer(body, it, now)}
    rules = rules and {
        "classification": LEVELS[rules[0]], "region": rules.get(1), "regulation_refs": rules[2],
        "audit": [{"event": it[0], "digest": it[1].hex()} for it in rules[3]], "sign_offs": list(map(signed, rules[4])),
    }
    return {
        "handoff_id": body[1].hex(), "task_id": body[2], "sender": body[3][0], "session": hexed(body[3], 1),
        "recipient": body[4], "issued_at_ms": body[5], "not_after_ms": body[6], "task_description": given[0],
        "workspace_path": given.get(1), "state_snapshot": hexed(given, 2), "key_decisions": memory[0],
        "discovered_pitfalls": memory[1], "pending_items": memory[2], "tools_required": given[4],
        "max_turns": bounds.get(0), "deadline_ms": bounds.get(1), "compliance_level": bounds.get(2),
        "assumptions": body[8], "quality_checklist": body[9], "artifacts": artifacts, "label": label,
        "previous": hexed(body, 12), "regulation": rules, "document": document(body).hex(),
    }
