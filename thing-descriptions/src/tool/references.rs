//! References within a schema: what they lead to, and which of them clients can follow. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Members with schemas under names.
pub(super) const MAPS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members with lists of schemas.
pub(super) const LISTS: [&str; 4] = ["prefixItems", "anyOf", "oneOf", "allOf"];
/// Members with one schema.
pub(super) const SINGLES: [&str; 10] = [
    "items",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
];
/// References of one schema. Clients follow a chain of them on their stack, and put what they lead to in their place.
const REFERENCES_MAX: usize = 256;
/// Schemas that they lead to: a chain has as many at most.
const TARGETS_MAX: usize = 100;
/// Members whose schemas are about the same value as the schema that they stand in.
const IN_PLACE: [&str; 8] = ["anyOf", "oneOf", "allOf", "dependentSchemas", "not", "if", "then", "else"];

/// A name as a part of a JSON Pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The schemas right below one, each at its JSON Pointer, with the keyword under which it stands.
fn below<'a>(schema: &'a Value, at: &str) -> Vec<(String, &'a Value, &'a str)> {
    let mut all = Vec::new();
    for (name, value) in schema.as_object().into_iter().flatten() {
        match value {
            Value::Object(map) if MAPS.contains(&name.as_str()) => {
                all.extend(map.iter().map(|(key, one)| (format!("{at}/{name}/{}", escaped(key)), one, name.as_str())));
            }
            Value::Array(list) if LISTS.contains(&name.as_str()) => {
                let place = |(place, one)| (format!("{at}/{name}/{place}"), one, name.as_str());
                all.extend(list.iter().enumerate().map(place));
            }
            Value::Object(_) if SINGLES.contains(&name.as_str()) => {
                all.push((format!("{at}/{name}"), value, name.as_str()))
            }
            _ => {}
        }
    }
    all
}

/// By what names a schema refers to its parts.
pub(super) struct Names<'a> {
    /// Its own identifier.
    id: &'a str,
    /// Its anchors with their places; two with one name have none.
    anchors: BTreeMap<&'a str, Option<String>>,
}

impl<'a> Names<'a> {
    pub fn of(schema: &'a Value) -> Names<'a> {
        let id = schema.get("$id").and_then(Value::as_str).unwrap_or_default().trim_end_matches('#');
        let mut anchors = BTreeMap::new();
        // Which schema an anchor names depends on the way to it where there are several bases.
        if !gather(schema, "", &mut anchors) {
            anchors.clear();
        }
        Names { id, anchors }
    }

    /// A reference as the place in the same schema that it leads to, such as `#/$defs/a`.
    pub fn within(&self, to: &str, is_embedded: bool) -> Option<String> {
        if is_embedded {
            return None;
        }
        let to = to.strip_prefix(self.id).filter(|rest| rest.is_empty() || rest.starts_with('#')).unwrap_or(to);
        let fragment = if to.is_empty() { "" } else { to.strip_prefix('#')? };
        if fragment.is_empty() || fragment.starts_with('/') {
            return Some(format!("#{fragment}"));
        }
        self.anchors.get(fragment)?.as_ref().map(|at| format!("#{at}"))
    }
}

/// Gathers anchors; whether the schema has one base for all references.
fn gather<'a>(schema: &'a Value, at: &str, to: &mut BTreeMap<&'a str, Option<String>>) -> bool {
    for keyword in ["$anchor", "$dynamicAnchor"] {
        if let Some(name) = schema.get(keyword).and_then(Value::as_str) {
            to.entry(name).and_modify(|place| *place = None).or_insert_with(|| Some(at.to_owned()));
        }
    }
    let has_base = !at.is_empty() && schema.get("$id").is_some_and(Value::is_string);
    !has_base && below(schema, at).into_iter().all(|(at, one, _)| gather(one, &at, to))
}

/// Where `$ref` stands that a client cannot follow: it leads to no schema, or in a circle without going into a value, or there
/// are too many of them.
pub(super) fn unfit(schema: &Value) -> BTreeSet<String> {
    let mut nodes = BTreeMap::new();
    enter(schema, "", &mut nodes);
    let leading = || nodes.iter().filter_map(|(at, node)| Some((at, node.to.as_ref()?)));
    let targets: BTreeSet<&String> = leading().map(|(_, to)| to).collect();
    if leading().count() > REFERENCES_MAX || targets.len() > TARGETS_MAX {
        return leading().map(|(at, _)| at.clone()).collect();
    }
    let dangling: BTreeSet<String> =
        leading().filter(|(_, to)| !nodes.contains_key(*to)).map(|(at, _)| at.clone()).collect();
    if !dangling.is_empty() {
        return dangling;
    }
    let mut walk = Walk { nodes: &nodes, path: Vec::new(), done: BTreeSet::new(), unfit: BTreeSet::new() };
    for at in nodes.keys() {
        walk.visit(at, false);
    }
    walk.unfit
}

/// One schema within another.
struct Node {
    /// Where its reference leads: a JSON Pointer, or what is none.
    to: Option<String>,
    /// The schemas below it that are about the same value.
    in_place: Vec<String>,
}

fn enter(schema: &Value, at: &str, nodes: &mut BTreeMap<String, Node>) {
    if !schema.is_object() {
        return;
    }
    let to = schema.get("$ref").and_then(Value::as_str).map(|to| pointer(to).unwrap_or_else(|| "nowhere".to_owned()));
    let below = below(schema, at);
    let in_place = below.iter().filter(|(_, _, name)| IN_PLACE.contains(name)).map(|(at, ..)| at.clone()).collect();
    nodes.insert(at.to_owned(), Node { to, in_place });
    for (at, one, _) in below {
        enter(one, &at, nodes);
    }
}

/// The JSON Pointer in a reference, whose characters need no more escaping in an address.
fn pointer(to: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = to.strip_prefix('#')?.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                digit()? * 16 + digit()?
            }
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => return None,
            _ if byte.is_ascii_graphic() => byte,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok()
}

struct Walk<'a> {
    nodes: &'a BTreeMap<String, Node>,
    /// The way to where it is, and whether each step followed a reference.
    path: Vec<(&'a str, bool)>,
    done: BTreeSet<&'a str>,
    unfit: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, at: &'a str, by_reference: bool) {
        if let Some(start) = self.path.iter().position(|(one, _)| *one == at) {
            // The reference that closes the circle, or the last one on its way.
            let last = self.path.len() - 1;
            let step = (start + 1..=last).rev().find(|step| self.path[*step].1).map(|step| step - 1);
            let from = if by_reference { Some(last) } else { step };
            self.unfit.extend(from.map(|from| self.path[from].0.to_owned()));
            return;
        }
        if self.done.contains(at) {
            return;
        }
        let nodes = self.nodes;
        let Some(node) = nodes.get(at) else { return };
        self.path.push((at, by_reference));
        if let Some(to) = &node.to {
            self.visit(to, true);
        }
        for one in &node.in_place {
            self.visit(one, false);
        }
        self.path.pop();
        self.done.insert(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_from_a_reference() {
        for (to, read) in [
            ("#", Some("")),
            ("#/$defs/a~1b", Some("/$defs/a~1b")),
            ("#/$defs/a%20%3Cb%3E", Some("/$defs/a <b>")),
            ("#/$defs/a%2", None),
            ("#/$defs/%c3", None),
            ("#/$defs/a b", None),
            ("#/a#b", None),
            ("/a", None),
        ] {
            assert_eq!(pointer(to).as_deref(), read, "{to}");
        }
    }
}
