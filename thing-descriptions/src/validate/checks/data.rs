//! Data schemas at any position.

use std::fmt;

use serde_json::Value;

use super::{Findings, Object, Place, affordances};
use crate::json::join;
use crate::validate::Finding;

/// No data schema is both readOnly and writeOnly (TD 1.1 §5.3.2.1).
pub(super) fn check(td: &Object, out: &mut Findings) {
    let root = Path { parent: None, token: Token::Name("") };
    children(td, root, &["schemaDefinitions", "uriVariables", "properties"], &[], out);
    for (place, name, affordance) in affordances(td) {
        let kind = root.below(Token::Name(place.member()));
        let single: &[&str] = match place {
            Place::Action => &["input", "output"],
            Place::Event => &["data", "subscription", "dataResponse", "cancellation"],
            Place::Property | Place::Thing => &[],
        };
        children(affordance, kind.below(Token::Name(name)), &["uriVariables"], single, out);
    }
}

/// The data schemas below an object: the values of the maps in `maps`, and the values (or lists) in `single`. It goes
/// no deeper than the text, which [`crate::DEPTH_MAX`] bounds.
fn children(object: &Object, path: Path<'_>, maps: &[&str], single: &[&str], out: &mut Findings) {
    for member in maps {
        let path = path.below(Token::Name(member));
        for (name, value) in object.get(*member).and_then(Value::as_object).into_iter().flatten() {
            schema(value, path.below(Token::Name(name)), out);
        }
    }
    for member in single {
        let path = path.below(Token::Name(member));
        match object.get(*member) {
            Some(Value::Array(items)) => {
                for (n, item) in items.iter().enumerate() {
                    schema(item, path.below(Token::Index(n)), out);
                }
            }
            Some(value) => schema(value, path, out),
            None => {}
        }
    }
}

fn schema(value: &Value, path: Path<'_>, out: &mut Findings) {
    let Value::Object(schema) = value else { return };
    let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
    if flag("readOnly") && flag("writeOnly") {
        out.error(|| {
            Finding::error(
                path.pointer(),
                "read-only-and-write-only",
                "the data can neither be read nor written".to_owned(),
                "Keep readOnly or writeOnly, not both",
            )
        });
    }
    children(schema, path, &["properties"], &["items", "oneOf"], out);
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Name(&'a str),
    Index(usize),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Name(name) => f.write_str(name),
            Token::Index(n) => write!(f, "{n}"),
        }
    }
}

/// A JSON pointer that is written only when it is needed.
#[derive(Clone, Copy)]
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    token: Token<'a>,
}

impl Path<'_> {
    fn below<'b>(&'b self, token: Token<'b>) -> Path<'b> {
        Path { parent: Some(self), token }
    }

    fn pointer(&self) -> String {
        self.parent.map_or(String::new(), |parent| join(&parent.pointer(), self.token))
    }
}
