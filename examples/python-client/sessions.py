"""Names of sessions and turns, keys of calls, rows of journals and notes (P-216 to P-220), and messages under a key that come again
(P-77). `vectors.py` reads `sessions.json` with it."""
import base64, json, re

from althing import *

ROW_BYTES, ROWS, TURN_BYTES, KEPT_MS = 2 << 20, 4096, 16 << 20, 25 * 3_600_000
LEVELS, CLOCKS = ("public", "internal", "confidential", "restricted"), ("wall", "monotonic")
STEPS, EFFECTS = ("tool", "recall", "model"), ("none", "repeatable", "keyed", "final")
CHOICES, NOTES = ("done", "again", "failed"), ("done", "remaining", "decision", "assumption", "pitfall")
big = lambda value, size=4: value.to_bytes(size, "big")
apart = lambda *texts: b"".join(big(len(one.encode()), 8) + one.encode() for one in texts)

# -- names and keys (P-216, P-217, P-219)
def session(given):
    of, caller, user = given["agent"], given["caller"], given["user"]
    agent(of)
    node(caller) if caller.startswith("did:") else publisher(caller)
    digest = user and base64.urlsafe_b64encode(sha(user.encode())).decode().rstrip("=")
    scope = caller + (f" user:{digest}" if user else "")
    id = sha(b"althing session\0" + apart(of, scope, given["context"]))[:16]
    return {"scope": scope, "session": id.hex(), "notes": (id + b"\xff" * 4).hex()}

def turn_of(task, message): return sha(b"althing session turn\0" + apart(task, message))
def origin(id, turn): return sha(b"althing session turn\0" + id + turn)

def turn(given):
    id, whole = bytes.fromhex(given["session"]), turn_of(given["task"], given["message"])
    number = min(int.from_bytes(whole[:4], "big"), 2**32 - 2)
    return {"turn": whole.hex(), "row": (id + big(number) + big(1)).hex(), "origin": origin(id, whole).hex()}

def call(given):
    sort = given["kind"] == "tool"
    text = json.dumps(given["arguments"], ensure_ascii=False, separators=(",", ":"), sort_keys=sort)
    return {"call": sha(apart(given["name"]) + text.encode()).hex()}

def call_key(given):
    known = b"".join(bytes.fromhex(given[name]) for name in ("session", "turn", "call")) + big(given["occurrence"])
    return {"key": sha(b"althing session call\0" + known + (big(given["since"]) if given["since"] else b"")).hex()}

# -- rows (P-217, P-218): each member has a name, a type, and a form to show it in; what is not known is left alone
u32, u64, string = upto(2**32 - 1), upto(2**64 - 1), lambda value: type(value) is str
data = lambda value: type(value) is bytes
strings = lambda value: type(value) is list and all(map(string, value))
same = lambda value: value
one_of = lambda words: (upto(len(words) - 1), words.__getitem__)
def members(value, needed, optional={}):
    want(isinstance(value, dict))
    value = {at: one for at, one in value.items() if one is not None}
    want(set(needed) <= set(value))
    known = {**needed, **optional}
    want(all(kind(value[at]) for at, (_, kind, _) in known.items() if at in value))
    return {name: form(value[at]) if at in value else None for at, (name, _, form) in sorted(known.items())}
is_label = lambda value: bool(members(value, {0: ("level", upto(3), same), 1: ("trusted", lambda it: type(it) is bool, same)}))
LABEL = (is_label, lambda it: {"level": LEVELS[it[0]], "trusted": it[1]})
ATTEMPT = {0: ("group", string, same), 1: ("task", string, same), 2: ("token", u64, same)}
STEP = {0: ("step", u32, same)}
CALL = {**STEP, 1: ("kind", *one_of(STEPS)), 2: ("name", string, same), 3: ("call", b32, bytes.hex), 4: ("effect", *one_of(EFFECTS))}
def readings(value):
    words = [int.from_bytes(value[at:at + 8], "big") for at in range(0, len(value), 8)]
    return [{"clock": CLOCKS[word >> 63], "ns": word & 2**63 - 1} for word in words]
BODIES = (
    ("begin", {0: ("task", string, same), 1: ("message", string, same), 2: ("agent", string, same), 3: ("version", string, same),
               4: ("binding", string, same), 5: ("epoch", u64, same), 6: ("principals", strings, same),
               7: ("extensions", strings, same), 15: ("began_ms", u64, same), 16: ("seed", b32, bytes.hex)},
     {8: ("label", *LABEL), 9: ("session", data, bytes.hex), 10: ("delegation", data, bytes.hex), 11: ("metadata", data, bytes.hex),
      12: ("modes", strings, same), 13: ("history_length", lambda it: type(it) is int and -2**31 <= it < 2**31, same),
      14: ("within_ms", u64, same), 17: ("caller", is_key, bytes.hex),
      18: ("attempt", lambda it: bool(members(it, ATTEMPT)), lambda it: members(it, ATTEMPT))}),
    ("intent", {**CALL, 5: ("key", b32, bytes.hex)}, {6: ("callee", string, same)}),
    ("result", {**CALL, 5: ("more", u32, same), 6: ("is_result", lambda it: type(it) is bool, same), 7: ("bytes", data, bytes.hex),
                8: ("tokens", u64, same)}, {9: ("label", *LABEL)}),
    ("resolved", {**STEP, 1: ("choice", *one_of(CHOICES)), 2: ("by", string, same)}, {}),
    ("checkpoint", {**STEP, 1: ("more", u32, same), 2: ("state_bytes", u32, same), 3: ("bytes", data, bytes.hex)}, {4: ("label", *LABEL)}),
    ("reads", {0: ("readings", data, readings)}, {}),
    ("note", {0: ("kind", *one_of(NOTES)), 1: ("text", string, same)}, {2: ("key", data, bytes.hex), 3: ("label", *LABEL)}),
    ("restart", {**STEP, 1: ("version", string, same), 2: ("binding", string, same), 3: ("by", string, same), 4: ("said_ms", u64, same)}, {}),
)
def is_body(value):
    return type(value) is list and len(value) == 2 and upto(7)(value[0]) and type(value[1]) is list and len(value[1]) > 0
def body(value):
    name, needed, optional = BODIES[value[0]]
    return name, members(value[1][0], needed, optional)
ROW = {0: ("seq", u32, same), 1: ("previous", b32, same), 2: ("at_ms", u64, same), 3: ("body", is_body, body)}
def read(data, number, expected, previous):
    """A row: when it was made, what it is, and what it says."""
    seq, before, at_ms, (name, says) = members(decode(data, ROW_BYTES), ROW).values()
    want(seq == number == expected and before == previous)
    return at_ms, name, says

def row(given):
    data = bytes.fromhex(given["bytes"])
    at_ms, name, says = read(data, given["number"], given["expected"], bytes.fromhex(given["previous"]))
    return {"digest": sha(data).hex(), "at_ms": at_ms, name: says["readings"] if name == "reads" else says}

# -- journals and notes (P-218, P-220)
def journal(given):
    id, rows = bytes.fromhex(given["session"]), [(one["number"], bytes.fromhex(one["bytes"])) for one in given["rows"]]
    want(rows and len(rows) <= ROWS and sum(len(data) + 24 for _, data in rows) <= TURN_BYTES)
    first, begin = members(decode(rows[0][1], ROW_BYTES), ROW)["body"]
    want(first == "begin")
    last, expected, steps, since, parts, second = origin(id, turn_of(begin["task"], begin["message"])), 0, {}, 0, None, False
    goes_on = begin
    for number, data in rows:
        # A checkpoint follows the beginning: what was between is deleted.
        if expected == 1 and number > 1 and read(data, number, number, last)[1] == "checkpoint": expected = number
        at_ms, name, says = read(data, number, expected, last)
        want((name == "begin") == (expected == 0) and name != "note" and (parts is None or name in ("result", "checkpoint")))
        step = says.get("step")
        if name == "intent":
            same_call = (says["kind"], says["name"], says["call"], says["effect"], says["key"])
            want(says["effect"] in ("keyed", "final"))
            want(steps[step][:2] == ("free", same_call) if step in steps else step >= since)
            steps[step] = ("doubt" if says["effect"] == "final" else "under way", same_call, at_ms)
        if name == "resolved":
            want(step in steps and steps[step][0] == "doubt")
            state = {"done": "doubt", "again": "free", "failed": "over"}[says["choice"]]
            steps[step] = (state, *steps[step][1:])
        if name in ("result", "checkpoint"):
            want(parts is None or parts[:2] == (step, says["more"] + 1))
            want(name == "result" or second or parts)
            whole = (parts[2] if parts else b"") + bytes.fromhex(says["bytes"])
            parts = (step, says["more"], whole) if says["more"] else None
        if name == "checkpoint" and parts is None:
            want(says["state_bytes"] <= len(whole))
            since = step
        if name == "result" and parts is None:
            json.loads(whole.decode()) if says["is_result"] else whole.decode()
            made = (says["kind"], says["name"], says["call"], says["effect"])
            if step in steps: want(steps[step][1][:4] == made and steps[step][0] in ("doubt", "under way"))
            else: want(says["effect"] in ("none", "repeatable") and step >= since)
            steps[step] = ("over", (*made, None), at_ms)
        if name == "restart":
            kept = [at for at, one in steps.items() if at >= step and one[1][3] == "final"]
            want(step >= since and not kept)
            steps, goes_on = {at: one for at, one in steps.items() if at < step}, {**says, "began_ms": says["said_ms"]}
        last, expected, second = sha(data), expected + 1, name == "begin"
    want(parts is None)
    in_doubt = [{"step": at, "name": one[1][1], "since_ms": one[2]} for at, one in sorted(steps.items()) if one[0] == "doubt"]
    known = {name: goes_on[name] for name in ("version", "binding", "began_ms")}
    return {"task": begin["task"], "message": begin["message"], **known, "in_doubt": in_doubt}

def notes(given):
    last, out = sha(b"althing session notes\0" + bytes.fromhex(given["session"])), []
    for expected, one in enumerate(given["rows"]):
        data = bytes.fromhex(one["bytes"])
        _, name, says = read(data, one["number"], expected, last)
        want(name == "note")
        last = sha(data)
        out.append({at: says[at] for at in ("kind", "text", "label")})
    return out

# -- messages under a key (P-77)
def message(given):
    plain = lambda it: {name: one for name, one in it.items() if name not in ("taskId", "contextId")}
    first, again, age = given["first"], given["again"], given["now_ms"] - given["answered_at_ms"]
    if not re.fullmatch("[0-9a-f]{64}", again["messageId"]) or age > KEPT_MS:
        return {"code": None, "reason": None, "answer": None}
    if first and plain(first) != plain(again): return {"code": -32602, "reason": "MESSAGE_ID_REUSED", "answer": None}
    return {"code": -32000, "reason": "ALREADY_DONE", "answer": given["answer"]}

def refusal(given):
    body = json.loads(given["body"])
    info = body["data"][0]
    want(info["domain"] == "althing.dev")
    answer = info.get("metadata", {}).get("message")
    return {"code": body["code"], "reason": info["reason"], "answer": answer and json.loads(answer)}

RUN = {"session": session, "turn": turn, "call": call, "call key": call_key, "row": row, "journal": journal, "notes": notes,
       "message": message, "refusal": refusal}
def run(given): return RUN[given["document"]](given)
