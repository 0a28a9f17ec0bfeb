"""Cedar for Python beside a node: policies.py make SEED COUNT AGENT > CASES, and policies.py check CASES REPORT.

`agent URL` prints the file of an agent whose model is there, and `serve` is the server of its tools. `make` writes random cases
for `althing policy test`, all about calls of that agent, and beside them the policies in `set.cedar`. `check` reads what that
command printed, decides the same requests with `cedarpy`, from nothing but docs/policies.md, and names each case
in which answers or deciding policies differ. It prints how many there were of each answer.
"""

import collections
import json
import pathlib
import random
import sys
from decimal import Decimal

# By their ids, in the order of the file; with what they ask for, if they do.
POLICIES = [
    ("search", "", 'permit(principal, action == Action::"search", resource in Server::"shop")\n'
                   'when { context.level <= resource.clearance.rank };'),
    ("small", '@ask("it costs money")', 'permit(principal, action == Action::"pay", resource)\n'
                                        'when { context.input.amount.lessThan(decimal("100.0")) };'),
    ("large", '@sign_off("2:auditor")', 'permit(principal, action == Action::"pay", resource)\n'
                                        'when { context.input.amount.greaterThanOrEqual(decimal("100.0")) };'),
    ("rent", "", 'permit(principal, action == Action::"pay", resource)\n'
                 'when { context.input.to == "landlord" && context has person && context.person in Role::"tenant" };'),
    ("order", "@consent", 'permit(principal, action == Action::"order", resource)\n'
                          'when { context.input.count <= 10 };'),
    ("urgent", "", 'permit(principal, action in Action::"useTool", resource == Tool::"shop/order")\n'
                   'when { context.input has note && context.input.note like "urgent*" && context.trusted };'),
    ("tags", "", 'forbid(principal, action == Action::"order", resource)\n'
                 'when { context.input has tags && context.input.tags.contains("secret") };'),
    ("tainted", "", 'forbid(principal, action in Action::"useTool", resource)\n'
                    'when { !context.trusted && resource.effect != "none" };'),
    ("restricted", "", 'forbid(principal, action in Action::"useTool", resource)\n'
                       'when { context.label == Label::"restricted" }\n'
                       'unless { resource.tier < 2 };'),
    ("flaw", "", 'forbid(principal, action == Action::"order", resource)\n'
                 'when { context.input.count * 1000000000000000 > 9000000000000000000 };'),
]
LABELS = ["public", "internal", "confidential", "restricted"]
# What the agent's file says of its tools, which the node is told in `profiles` and `effect`.
TOOLS = {
    "search": {"effect": "none", "trusted": True, "label": "public", "clearance": "internal", "tier": 1},
    "pay": {"effect": "final", "trusted": True, "label": "internal", "clearance": "restricted", "tier": 3},
    "order": {"effect": "keyed", "trusted": False, "label": "internal", "clearance": "confidential", "tier": 2},
}
SCHEMAS = {
    "search": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    "pay": {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["to", "amount"]},
    "order": {"type": "object", "required": ["count"], "properties": {
        "count": {"type": "integer"}, "note": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}},
}
PEOPLE = {"ada": ["tenant", "auditor"], "bob": ["auditor"]}


def text_of_set():
    return "\n".join(f'@id("{name}") {asks}\n{text}\n' for name, asks, text in POLICIES)


def arguments(rng, tool):
    """Mostly such as fit the schema."""
    if tool == "search":
        return {"q": rng.choice(["tea", "", 'a "b" \\ \n', "日本"])}
    if tool == "pay":
        return {"to": rng.choice(["landlord", "shop"]), "amount": rng.choice([0, 1, 99.9999, 100, 100.0, 900, 2.00004, -5, "1"])}
    chosen = {"count": rng.choice([0, 1, 10, 11, 9_001, 10**17, 1.5])}
    if rng.random() < 0.5:
        chosen["note"] = rng.choice(["urgent: today", "later", "URGENT", None])
    if rng.random() < 0.5:
        chosen["tags"] = rng.sample(["a", "b", "secret"], rng.randrange(4))
    return chosen


def case(rng, number, agent):
    tool = rng.choice(list(TOOLS))
    context = {"input": arguments(rng, tool), "label": rng.choice(LABELS), "trusted": rng.random() < 0.6}
    if rng.random() < 0.7:
        context["person"] = rng.choice(list(PEOPLE))
    if rng.random() < 0.05:
        context["input"].pop(rng.choice(list(context["input"])))
    return {"name": f"c{number}", "principal": f'Agent::"{agent}"', "action": tool, "resource": f'Tool::"shop/{tool}"',
            "context": context, "expect": "permit"}


def entity(kind, name):
    return {"type": kind, "id": name}


def reference(kind, name):
    return {"__entity": entity(kind, name)}


def world(agent):
    """What docs/policies.md says that is known."""
    def known(kind, name, attributes=None, parents=()):
        return {"uid": entity(kind, name), "attrs": attributes or {}, "parents": list(parents)}

    entities = [known("Label", label, {"rank": rank}) for rank, label in enumerate(LABELS)]
    entities += [known("Server", "shop"), known("Agent", agent, {"version": "1.0.0", "tier": 0}), known("Action", "useTool")]
    for name, profile in TOOLS.items():
        labels = {what: reference("Label", profile[what]) for what in ("label", "clearance")}
        entities.append(known("Tool", f"shop/{name}", {**profile, **labels, "server": "shop", "name": name},
                              [entity("Server", "shop")]))
        entities.append(known("Action", name, parents=[entity("Action", "useTool")]))
    for name, roles in PEOPLE.items():
        entities.append(known("Person", name, parents=[entity("Role", role) for role in roles]))
    entities += [known("Role", role) for role in sorted({role for roles in PEOPLE.values() for role in roles})]
    return entities


class Misfit(Exception):
    """Arguments that do not fit the schema of their tool."""


def number(value):
    """As a decimal, or as what can be compared with `==` only."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Misfit
    exact = Decimal(str(value))
    places = max(0, -exact.normalize().as_tuple().exponent)
    if places > 4:
        return reference("Number", str(value))
    return {"__extn": {"fn": "decimal", "arg": f"{exact:.{max(1, places)}f}"}}


def whole(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise Misfit
    return int(value)


def text(value):
    if not isinstance(value, str):
        raise Misfit
    return value


def read(value, schema):
    """Arguments as a policy reads them."""
    required = schema.get("required", [])
    if any(name not in value for name in required):
        raise Misfit
    readers = {"string": text, "number": number, "integer": whole, "array": lambda all_: [text(one) for one in all_]}
    seen = {name: one for name, one in value.items() if one is not None or name in required}
    return {name: readers[schema["properties"][name]["type"]](one) for name, one in seen.items()}


def request(case_):
    context = case_["context"]
    told = {"input": read(context["input"], SCHEMAS[case_["action"]]), "label": reference("Label", context["label"]),
            "level": LABELS.index(context["label"]), "trusted": context["trusted"]}
    if "person" in context:
        told["person"] = reference("Person", context["person"])
    return {"principal": case_["principal"], "action": f'Action::"{case_["action"]}"', "resource": case_["resource"],
            "context": told}


def decided(result):
    """Permit, ask or deny, as docs/policies.md says; the policies behind it; and whether something could not be evaluated."""
    by_id = {f"policy{at}": policy for at, policy in enumerate(POLICIES)}
    reasons = sorted(by_id[reason][0] for reason in result.diagnostics.reasons)
    if not result.allowed or result.diagnostics.errors:
        return "deny", reasons, bool(result.diagnostics.errors)
    asks = all(asked for name, asked, _ in POLICIES if name in reasons)
    return ("ask" if asks else "permit"), reasons, False


def make(seed, count, agent):
    rng = random.Random(int(seed))
    with open("set.cedar", "w", encoding="utf-8") as file:
        file.write(text_of_set())
    print(json.dumps({"cases": [case(rng, at, agent) for at in range(int(count))]}))


def loaded(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["cases"]


def check(path, report):
    import cedarpy

    cases, told = loaded(path), {one["name"]: one["verdict"] for one in loaded(report)}
    assert len(told) == len(cases), f"{len(told)} of {len(cases)} cases are told"
    entities = world(cases[0]["principal"].split('"')[1])
    totals, differ = collections.Counter(), 0
    for one in cases:
        verdict = told[one["name"]]
        try:
            answer, reasons, is_error = decided(cedarpy.is_authorized(request(one), text_of_set(), entities))
        except Misfit:
            answer, reasons, is_error = "deny", [], True
        totals[answer] += 1
        # Where something cannot be evaluated, which policies apply besides is not what decided.
        is_same = verdict["answer"] == answer and bool(verdict.get("errors")) == is_error
        if not is_same or (not is_error and sorted(verdict["policies"]) != reasons):
            differ += 1
            print("DIFFERS", json.dumps(one), json.dumps(verdict), answer, reasons)
    print(json.dumps(totals))
    sys.exit(1 if differ else 0)


def agent(url):
    """The file of the agent `clerk`, which calls what its model is told to."""
    server = {
        "command": ["python3", str(pathlib.Path(__file__).resolve()), "serve"],
        "effect": {name: profile["effect"] for name, profile in TOOLS.items()},
        "profiles": {name: {what: said for what, said in profile.items() if what != "effect"} for name, profile in TOOLS.items()},
    }
    print(json.dumps({
        "name": "clerk",
        "description": "Calls what it is told to",
        "version": "1.0.0",
        "runtime": {"model": {"prompt": "Call it.", "endpoints": [{"url": url, "model": "stub"}]}},
        "tools": {"shop": server},
        "contract": {"class": {"latency": "srt"}, "capabilities": ["shop/*"]},
    }))


def serve():
    import plain_mcp

    tools = [{"name": name, "description": f"Does a {name}", "inputSchema": schema} for name, schema in SCHEMAS.items()]
    plain_mcp.serve("shop", tools, lambda name, _: {"done": name})


{"make": make, "check": check, "agent": agent, "serve": serve}[sys.argv[1]](*sys.argv[2:])
