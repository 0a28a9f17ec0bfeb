//! The ways to effects, and the gates that they pass.

/// How a function that takes a step towards an effect may do so.
pub enum Way {
    /// It passes this gate itself: it calls the function of that name, of [`GATES`] or [`DECIDES`].
    Gate(&'static str),
    /// It is a step itself: whoever calls it is listed too.
    Through,
    /// It belongs to a server of tools, which is called where a tool is.
    Tool,
    /// It is no way of an agent's to the effect, and why.
    Aside(&'static str),
}

use Way::{Aside, Gate, Through, Tool};

/// A function of which a call is a step towards an effect.
pub struct Step {
    pub name: &'static str,
    /// The folders and files in which a call of that name is such a step.
    pub within: &'static [&'static str],
    /// The last name of what it is called on; without any: whatever it is called on.
    pub on: &'static [&'static str],
    /// Who calls it: file, function, and how it may. The lists may only shrink, but for those who pass a gate.
    pub callers: &'static [(&'static str, &'static str, Way)],
}

/// Something that is done, and the steps from it back to what decides.
pub struct Effect {
    pub what: &'static str,
    pub steps: &'static [Step],
}

/// What decides: `Decide` of calls, `ToolGate` of tools, `admit` of governance and what leads to it through ports, and the grants of
/// an agent's start, which are called `grants` where they are a field, and else `ask`.
pub const DECIDES: &[&str] = &["decide", "decide_incoming", "admit", "admit_by", "admit_now", "ask", "grants"];

/// The gates, by file and function, each with what it asks: one of [`DECIDES`], or another gate.
pub const GATES: &[(&str, &str, &str)] = &[
    ("node/althing/src/egress.rs", "admit", "admit_by"),
    ("node/calls/src/hosting.rs", "decide_call", "decide_incoming"),
    ("node/calls/src/target.rs", "judge", "decide"),
    ("node/calls/src/target.rs", "judged", "judge"),
    ("node/calls/src/target.rs", "permitted", "judged"),
    ("node/composition/src/admission.rs", "admit_added", "admit_file"),
    ("node/composition/src/admission.rs", "admit_file", "admit"),
    ("node/composition/src/admission.rs", "admit_replaced", "admit_file"),
    ("node/l1-execution/egress/src/admission.rs", "admitted", "admit"),
    ("node/l1-execution/egress/src/proxy.rs", "admitted", "admitted"),
    ("node/l1-execution/src/decisions.rs", "closed", "permit"),
    ("node/l1-execution/src/decisions.rs", "gated", "closed"),
    ("node/l1-execution/src/decisions.rs", "gated_request", "closed"),
    ("node/l1-execution/src/decisions.rs", "permit", "rule"),
    ("node/l1-execution/src/decisions.rs", "permitted", "rule"),
    ("node/l1-execution/src/decisions.rs", "rule", "decide"),
    ("node/l1-execution/src/host/start.rs", "secrets_for", "asked_secrets"),
    ("node/l1-execution/src/grants.rs", "asked_secrets", "ask"),
    ("node/l1-execution/wasm/src/component/kept.rs", "keep", "permitted"),
    ("node/l7-governance/src/gates.rs", "admit_by", "admit"),
    ("node/l7-governance/src/gates.rs", "ask_grants", "admit_now"),
    ("node/operations/src/registries/install.rs", "admitted", "admit"),
];

pub const EFFECTS: &[Effect] = &[
    Effect {
        what: "a call of a tool",
        steps: &[
            Step {
                name: "call_listed",
                within: &["node"],
                on: &[],
                callers: &[("node/l1-execution/src/tools/mod.rs", "call", Through)],
            },
            Step {
                name: "call",
                within: &["node"],
                on: &["server"],
                callers: &[
                    (
                        "node/althing/demo/src/governance/desk.rs",
                        "model",
                        Aside("a demonstration's own model writes there which call it wants; none is made"),
                    ),
                    (
                        "node/althing/demo/src/sessions/desk.rs",
                        "model",
                        Aside("a demonstration's own model writes there which call it wants; none is made"),
                    ),
                ],
            },
            Step {
                name: "call",
                within: &["node/l1-execution/src/tools"],
                on: &["self"],
                callers: &[("node/l1-execution/src/tools/mod.rs", "bounded", Through)],
            },
            Step {
                name: "bounded",
                within: &["node/l1-execution/src"],
                on: &["self", "tools"],
                callers: &[
                    ("node/l1-execution/src/steps.rs", "journalled", Gate("rule")),
                    ("node/l1-execution/src/tools/mod.rs", "decided", Gate("permit")),
                ],
            },
        ],
    },
    Effect {
        what: "a message to an agent, from an agent",
        steps: &[Step {
            name: "ask",
            within: &["node/l1-execution/src"],
            on: &["calls"],
            callers: &[("node/l1-execution/src/agents.rs", "call", Tool)],
        }],
    },
    Effect {
        what: "a message to an agent, from anybody here",
        steps: &[
            Step {
                name: "stream",
                within: &["node/calls", "node/composition", "node/operations"],
                on: &["communication"],
                callers: &[("node/calls/src/outgoing/host_calls.rs", "send_once", Through)],
            },
            Step {
                name: "call",
                within: &["node/calls", "node/composition", "node/operations"],
                on: &["communication"],
                callers: &[
                    ("node/calls/src/outgoing/host_calls.rs", "send_once", Through),
                    ("node/calls/src/reserve.rs", "ask", Aside("reserves time of another node's agent")),
                    ("node/calls/src/spans/gather.rs", "call", Aside("reads spans")),
                    ("node/composition/src/orders/gossip.rs", "compare", Aside("compares what owners signed")),
                    ("node/composition/src/orders/gossip.rs", "push_to", Aside("tells what owners signed")),
                    ("node/composition/src/orders/ledger.rs", "tell_own", Aside("tells what the owner signed")),
                    ("node/composition/src/orders/policy_sets.rs", "ask", Aside("reads the owner's policies")),
                    (
                        "node/composition/src/rollouts/news_gossip.rs",
                        "compare",
                        Aside("reads what came of rollouts on the owner's other nodes"),
                    ),
                    (
                        "node/composition/src/rollouts/news_gossip.rs",
                        "push_to",
                        Aside("tells the owner's other nodes what came of a rollout"),
                    ),
                    ("node/operations/src/doctor/overhead.rs", "remote", Aside("reads spans, to take the time")),
                ],
            },
            Step {
                name: "send_once",
                within: &["node/calls"],
                on: &["self"],
                callers: &[("node/calls/src/outgoing/host_calls.rs", "send", Through)],
            },
            Step {
                name: "send",
                within: &["node/calls"],
                on: &["self"],
                callers: &[("node/calls/src/outgoing/host_calls.rs", "ask_host", Through)],
            },
            Step {
                name: "ask_host",
                within: &["node/calls"],
                on: &[],
                callers: &[
                    ("node/calls/src/outgoing.rs", "walk", Gate("permitted")),
                    ("node/calls/src/outgoing/host_attempts.rs", "attempt", Through),
                    ("node/calls/src/outgoing/host_attempts.rs", "fall_back_to_first", Through),
                ],
            },
            Step {
                name: "ask",
                within: &["node/calls/src/outgoing.rs", "node/calls/src/outgoing"],
                on: &["new"],
                callers: &[("node/calls/src/outgoing.rs", "walk", Gate("permitted"))],
            },
            Step {
                name: "attempt",
                within: &["node/calls/src/outgoing/host_attempts.rs"],
                on: &["self"],
                callers: &[("node/calls/src/outgoing/host_attempts.rs", "ask", Through)],
            },
            Step {
                name: "fall_back_to_first",
                within: &["node/calls/src/outgoing"],
                on: &["self"],
                callers: &[("node/calls/src/outgoing/host_attempts.rs", "attempt", Through)],
            },
        ],
    },
    Effect {
        what: "a turn of an agent here",
        steps: &[
            Step {
                name: "send",
                within: &["node/calls"],
                on: &["tasks"],
                callers: &[("node/calls/src/hosting.rs", "handle", Gate("decide_call"))],
            },
            Step {
                name: "send_streaming",
                within: &["node"],
                on: &[],
                callers: &[("node/calls/src/hosting.rs", "handle", Gate("decide_call"))],
            },
            Step {
                name: "take",
                within: &["node/calls"],
                on: &["handoffs"],
                callers: &[("node/calls/src/hosting.rs", "handle", Gate("decide_call"))],
            },
        ],
    },
    Effect {
        what: "a handoff",
        steps: &[
            Step {
                name: "hand_over",
                within: &["node/l1-execution/src"],
                on: &["calls"],
                callers: &[("node/l1-execution/src/note_server/handoff.rs", "offer", Tool)],
            },
            Step {
                name: "give",
                within: &["node"],
                on: &["handoffs"],
                callers: &[("node/calls/src/handoffs.rs", "give", Gate("decide"))],
            },
        ],
    },
    Effect {
        what: "a request to a model",
        steps: &[
            Step {
                name: "ask",
                within: &["node/l1-execution/src/model"],
                on: &["client"],
                callers: &[
                    ("node/l1-execution/src/model/measure.rs", "measure", Through),
                    ("node/l1-execution/src/model/mod.rs", "answer", Through),
                ],
            },
            Step {
                name: "answer",
                within: &["node/l1-execution/src/model"],
                on: &["self"],
                callers: &[
                    ("node/l1-execution/src/model/mod.rs", "traced_answer", Through),
                    (
                        "node/l1-execution/src/model/mod.rs",
                        "turn",
                        Aside("begins a turn, which sends them by `request`"),
                    ),
                ],
            },
            Step {
                name: "traced_answer",
                within: &["node/l1-execution/src/model"],
                on: &[],
                callers: &[("node/l1-execution/src/model/mod.rs", "request", Gate("gated_request"))],
            },
            Step {
                name: "measure",
                within: &["node/l1-execution/src"],
                on: &["model"],
                callers: &[(
                    "node/l1-execution/src/node_models.rs",
                    "measure",
                    Aside("the owner measures the models of the node, without an agent and its data"),
                )],
            },
        ],
    },
    Effect {
        what: "a change of memory",
        steps: &[
            Step {
                name: "put",
                within: MEMORY,
                on: &["memory"],
                callers: &[
                    ("node/l1-execution/src/memory/server.rs", "dispatch", Tool),
                    ("node/l1-execution/wasm/src/component/kept.rs", "put", Gate("keep")),
                ],
            },
            Step {
                name: "delete",
                within: MEMORY,
                on: &["memory"],
                callers: &[
                    ("node/gateway/control/src/memory.rs", "answer", Aside("the owner does it by hand")),
                    ("node/l1-execution/src/memory/server.rs", "dispatch", Tool),
                    ("node/l1-execution/wasm/src/component/kept.rs", "delete", Gate("keep")),
                ],
            },
            Step {
                name: "remember",
                within: MEMORY,
                on: &["memory"],
                callers: &[
                    ("node/gateway/control/src/memory.rs", "answer", Aside("the owner does it by hand")),
                    ("node/l1-execution/src/memory/server.rs", "dispatch", Tool),
                    ("node/l1-execution/wasm/src/component/kept.rs", "remember", Gate("keep")),
                ],
            },
            Step {
                name: "forget",
                within: MEMORY,
                on: &["memory"],
                callers: &[
                    ("node/gateway/control/src/memory.rs", "answer", Aside("the owner does it by hand")),
                    ("node/l1-execution/src/memory/server.rs", "dispatch", Tool),
                    ("node/l1-execution/wasm/src/component/kept.rs", "forget", Gate("keep")),
                ],
            },
        ],
    },
    Effect {
        what: "a secret that is read",
        steps: &[
            Step {
                name: "lookup",
                within: &["node/l1-execution"],
                on: &[],
                callers: &[
                    (
                        "node/l1-execution/src/node_models.rs",
                        "measure",
                        Aside("the owner measures the models of the node, each with the secret of its endpoint"),
                    ),
                    ("node/l1-execution/src/memory/mod.rs", "new_seal", Through),
                    ("node/l1-execution/src/memory/mod.rs", "unlock", Through),
                    ("node/l1-execution/src/secrets.rs", "granted", Through),
                    (
                        "node/l1-execution/things/src/recognise.rs",
                        "recognise",
                        Aside("the owner looks at what is to be adopted, and names the secret"),
                    ),
                ],
            },
            Step {
                name: "granted",
                within: &["node/l1-execution/src"],
                on: &[],
                callers: &[
                    ("node/l1-execution/src/host/start.rs", "runtime", Gate("secrets_for")),
                    ("node/l1-execution/src/host/start.rs", "servers", Gate("secrets_for")),
                    ("node/l1-execution/src/memory/embed.rs", "of", Through),
                    ("node/l1-execution/src/model/mod.rs", "new", Through),
                    (
                        "node/l1-execution/src/process/machine/scope.rs",
                        "is_hidden",
                        Aside("a closure of that name, about paths"),
                    ),
                ],
            },
            Step {
                name: "of",
                within: &["node/l1-execution/src"],
                on: &["Embedder"],
                callers: &[("node/l1-execution/src/host/start.rs", "memory", Gate("secrets_for"))],
            },
            Step {
                name: "new",
                within: &["node/l1-execution/src"],
                on: &["Model"],
                callers: &[("node/l1-execution/src/host/start.rs", "runtime", Gate("secrets_for"))],
            },
            Step {
                name: "new_seal",
                within: &["node/l1-execution/src/memory"],
                on: &[],
                callers: &[("node/l1-execution/src/memory/mod.rs", "open", Through)],
            },
            Step {
                name: "unlock",
                within: &["node/l1-execution/src/memory"],
                on: &["self"],
                callers: &[
                    ("node/l1-execution/src/memory/mod.rs", "open", Through),
                    ("node/l1-execution/src/memory/mod.rs", "operate", Aside("the owner opens a memory of the node")),
                ],
            },
            Step {
                name: "open",
                within: &["node/l1-execution/src"],
                on: &["memories"],
                callers: &[("node/l1-execution/src/host/start.rs", "memory", Gate("grants"))],
            },
        ],
    },
    Effect {
        what: "a host that a program reaches",
        steps: &[
            Step {
                name: "dial",
                within: &["node/l1-execution"],
                on: &[],
                callers: &[("node/l1-execution/egress/src/proxy.rs", "connect", Gate("admitted"))],
            },
            Step {
                name: "open",
                within: &["node/l1-execution/egress"],
                on: &["fetch"],
                callers: &[("node/l1-execution/egress/src/forward.rs", "forward", Through)],
            },
            Step {
                name: "forward",
                within: &["node/l1-execution/egress"],
                on: &[],
                callers: &[
                    ("node/l1-execution/egress/src/local.rs", "answer", Gate("admitted")),
                    ("node/l1-execution/egress/src/proxy.rs", "answer", Gate("admitted")),
                ],
            },
        ],
    },
    Effect {
        what: "an agent that is added, or another version of one",
        steps: &[
            Step {
                name: "start_version",
                within: &["node"],
                on: &[],
                callers: &[
                    ("node/composition/src/agents.rs", "start", Through),
                    ("node/composition/src/rollouts/orders.rs", "run_beside", Through),
                    (
                        "node/composition/src/rollouts/starts.rs",
                        "start_others",
                        Aside("starts again what was admitted when its rollout began"),
                    ),
                ],
            },
            Step {
                name: "run_beside",
                within: &["node/composition"],
                on: &[],
                callers: &[("node/composition/src/rollouts/orders.rs", "begin_beside", Gate("admit_replaced"))],
            },
            Step {
                name: "start",
                within: &["node/composition/src/agents.rs"],
                on: &["self"],
                callers: &[
                    ("node/composition/src/agents.rs", "add_as", Gate("admit_added")),
                    ("node/composition/src/agents.rs", "replace", Gate("admit_replaced")),
                    (
                        "node/composition/src/agents.rs",
                        "restart",
                        Aside("starts again what was admitted when it was added"),
                    ),
                ],
            },
        ],
    },
    Effect {
        what: "a release that is installed",
        steps: &[Step {
            name: "set_installed",
            within: &["node"],
            on: &[],
            callers: &[
                ("node/composition/src/agents.rs", "forget", Aside("forgets the release of an agent that is removed")),
                ("node/operations/src/registries/install.rs", "install", Gate("admitted")),
                ("node/operations/src/registries/install.rs", "update", Gate("admitted")),
                (
                    "node/operations/src/registries/inventory.rs",
                    "set_rule",
                    Aside("says how newer releases come of what is installed"),
                ),
                ("node/operations/src/updates.rs", "begin", Gate("admitted")),
                (
                    "node/operations/src/updates.rs",
                    "note",
                    Aside("notes what became of a release that was admitted when its rollout began"),
                ),
            ],
        }],
    },
    Effect {
        what: "a change at a registry",
        steps: &[
            Step {
                name: "ask",
                within: &["registry/client"],
                on: &[],
                callers: &[
                    ("registry/client/src/attestations.rs", "attestations", Aside("reads")),
                    ("registry/client/src/http.rs", "exchange", Through),
                    ("registry/client/src/lib.rs", "hosts", Aside("reads")),
                    ("registry/client/src/published.rs", "published", Aside("reads")),
                ],
            },
            Step {
                name: "exchange",
                within: &["registry/client"],
                on: &[],
                callers: &[
                    ("registry/client/src/http.rs", "get", Aside("reads")),
                    ("registry/client/src/lib.rs", "host", Through),
                    ("registry/client/src/lib.rs", "keep_bundle", Through),
                    ("registry/client/src/lib.rs", "purge", Through),
                    ("registry/client/src/lib.rs", "submit_for_proofs", Through),
                    ("registry/client/src/organisation.rs", "prove", Through),
                    (
                        "registry/client/src/organisation.rs",
                        "sign_in",
                        Aside("signs in for some minutes, and changes nothing that others see"),
                    ),
                    ("registry/client/src/organisation.rs", "stage", Through),
                    ("registry/client/src/organisation.rs", "unstage", Through),
                ],
            },
            Step {
                name: "submit_for_proofs",
                within: REGISTRIES,
                on: &[],
                callers: &[
                    (
                        "node/operations/src/registries/receipt_book.rs",
                        "send",
                        Aside("sends what the owner signed by hand"),
                    ),
                    ("registry/client/src/lib.rs", "submit", Through),
                ],
            },
            Step { name: "submit", within: REGISTRIES, on: &[], callers: &[] },
            Step {
                name: "keep_bundle",
                within: REGISTRIES,
                on: &[],
                callers: &[
                    ("node/operations/src/registries/publishing.rs", "publish", Aside("the owner does it by hand")),
                    ("node/operations/src/registries/stage.rs", "release_staged", Aside("the owner does it by hand")),
                ],
            },
            Step {
                name: "purge",
                within: REGISTRIES,
                on: &[],
                callers: &[("node/operations/src/registries/purge.rs", "purge", Aside("the owner does it by hand"))],
            },
            Step {
                name: "host",
                within: REGISTRIES,
                on: &["client"],
                callers: &[(
                    "node/operations/src/registries/presence.rs",
                    "tell_all",
                    Aside("tells where the node is, and what of its agents is shown"),
                )],
            },
            Step {
                name: "prove",
                within: REGISTRIES,
                on: &[],
                callers: &[(
                    "node/operations/src/registries/organisation.rs",
                    "prove",
                    Aside("the owner does it by hand"),
                )],
            },
            Step {
                name: "stage",
                within: REGISTRIES,
                on: &[],
                callers: &[
                    (
                        "node/operations/src/registries/build.rs",
                        "send",
                        Aside("a build machine does it, with its token"),
                    ),
                    ("registry/client/src/organisation.rs", "stage", Through),
                ],
            },
            Step {
                name: "unstage",
                within: REGISTRIES,
                on: &[],
                callers: &[
                    ("node/operations/src/registries/stage.rs", "reject", Aside("the owner does it by hand")),
                    ("node/operations/src/registries/stage.rs", "release_staged", Aside("the owner does it by hand")),
                ],
            },
        ],
    },
];

/// Where memories of agents are written to.
const MEMORY: &[&str] =
    &["node/calls", "node/composition", "node/gateway", "node/l1-execution", "node/l4-session", "node/operations"];

/// Where registries are told something.
const REGISTRIES: &[&str] = &["node/operations/src/registries", "registry/client"];

/// Files of servers of tools beside that of the server itself.
pub const BELOW_SERVERS: &[&str] = &["node/l1-execution/src/note_server/handoff.rs"];
