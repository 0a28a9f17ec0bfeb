//! What policies speak of, as Cedar's schemas are written in JSON: a schema in Cedar's own syntax would need a parser of its own,
//! which stays in memory.

use serde_json::{Value, json};

/// All types. The actions are added to these: one for each gate, and one for each tool that is bound.
pub(crate) fn entity_types() -> Value {
    json!({
        "Publisher": {},
        "Role": {},
        "Server": {},
        // One agent, whatever its version.
        "Agent": { "memberOfTypes": ["Publisher"], "shape": record(&[("version", &text())]) },
        "Person": { "memberOfTypes": ["Role"] },
        "Node": {},
        // public 0, internal 1, confidential 2, restricted 3.
        "Label": { "shape": record(&[("rank", &whole())]) },
        "Tool": { "memberOfTypes": ["Server"], "shape": tool() },
        "Model": { "shape": record(&[("clearance", &label())]) },
        "Memory": {},
        "Host": {},
        "Secret": {},
        // A number that neither Long nor decimal can hold, and JSON's null: equal to themselves, and no more.
        "Number": {},
        "Null": {},
    })
}

/// What nobody wrote a profile for is final, untrusted, and cleared for public.
fn tool() -> Value {
    record(&[
        ("server", &text()),
        ("name", &text()),
        // none, repeatable, keyed or final.
        ("effect", &text()),
        ("trusted", &json!({ "type": "Boolean" })),
        // Of what the tool returns.
        ("label", &label()),
        // The strictest that the tool may be given.
        ("clearance", &label()),
        ("tier", &whole()),
    ])
}

fn record(members: &[(&str, &Value)]) -> Value {
    let attributes: Value = members.iter().map(|(name, of_type)| ((*name).to_owned(), (*of_type).clone())).collect();
    json!({ "type": "Record", "attributes": attributes })
}

fn text() -> Value {
    json!({ "type": "String" })
}

fn whole() -> Value {
    json!({ "type": "Long" })
}

fn label() -> Value {
    json!({ "type": "Entity", "name": "Label" })
}
