//! The rules of TD 1.1 beyond its JSON Schema.
//!
//! Each check takes time linear in the length of the text.

mod data;
mod forms;
mod security;
mod titles;

use serde_json::{Map, Value};

use super::report::{Finding, Findings, Severity};
use super::schema::{CONTEXT_1_0, CONTEXT_1_1};
use crate::json::join;

type Object = Map<String, Value>;

/// Runs every check over a description.
pub(super) fn check(td: &Object, out: &mut Findings) {
    context(td, out);
    identifiers(td, out);
    security::check(td, out);
    forms::check(td, out);
    data::check(td, out);
    link_types(td, out);
    titles::check(td, out);
}

/// TD 1.1 or TD 1.0 is named (TD 1.1 §5.3.1.1, `@context`).
fn context(td: &Object, out: &mut Findings) {
    let known = |v: &Value| v == CONTEXT_1_0 || v == CONTEXT_1_1;
    let named = match td.get("@context") {
        None => true, // the schema says that it is missing
        Some(Value::Array(items)) => items.iter().any(known),
        Some(one) => known(one),
    };
    if !named {
        out.error(|| {
            Finding::error(
                "/@context",
                "context-unknown",
                "neither TD 1.1 nor TD 1.0 is named".to_owned(),
                format!("Put {CONTEXT_1_1:?} first in @context"),
            )
        });
    }
}

/// `id` and JSON-LD's `@id` are two names of one member (the context of TD 1.1, and of 1.0): readers that know one of them
/// would take two values for two things. Where both stand, `id` is the one that counts here.
fn identifiers(td: &Object, out: &mut Findings) {
    let Some(given) = td.get("@id") else { return };
    let (severity, rule, message) = match td.get("id") {
        _ if !given.is_string() => (Severity::Error, "id-not-text", "@id is the id of the thing, and no text"),
        None => return,
        Some(id) if id == given => (Severity::Warning, "id-twice", "@id and id are two names of one member"),
        Some(_) => (Severity::Warning, "id-twice", "@id and id are two names of one member, and differ: id counts"),
    };
    let remedy = "Keep one of them, with a URI as its text";
    out.add(severity, || Finding::error("/@id", rule, message.to_owned(), remedy));
}

/// A thing is made from one Thing Model: at most one link has the relation `type` (TD 1.1 §5.3.4.1, `rel` = `type`).
fn link_types(td: &Object, out: &mut Findings) {
    let links = td.get("links").and_then(Value::as_array).into_iter().flatten().enumerate();
    for (n, _) in links.filter(|(_, link)| link.get("rel").is_some_and(|rel| rel == "type")).skip(1) {
        out.error(|| {
            Finding::error(
                join("/links", n),
                "link-type-twice",
                "a second link has the relation \"type\"".to_owned(),
                "Keep the link to the one Thing Model that the thing is made from",
            )
        });
    }
}

/// The position of a form, which decides its operations (TD 1.1 §5.3.4.2, table of `op`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Thing,
    Property,
    Action,
    Event,
}

impl Place {
    const AFFORDANCES: [Place; 3] = [Place::Property, Place::Action, Place::Event];

    /// The member of a description that holds the affordances of this kind.
    fn member(self) -> &'static str {
        match self {
            Place::Thing => "",
            Place::Property => "properties",
            Place::Action => "actions",
            Place::Event => "events",
        }
    }
}

/// The affordances of a description, with their names.
fn affordances(td: &Object) -> impl Iterator<Item = (Place, &str, &Object)> {
    let of = |place: Place| objects(td, place.member()).map(move |(name, affordance)| (place, name, affordance));
    Place::AFFORDANCES.into_iter().flat_map(of)
}

/// A form and its position.
#[derive(Clone, Copy)]
struct Form<'a> {
    place: Place,
    /// The affordance, with its name; none for a form of the thing.
    affordance: Option<(&'a str, &'a Object)>,
    index: usize,
    form: &'a Object,
}

impl Form<'_> {
    fn pointer(&self) -> String {
        let owner = self.affordance.map_or(String::new(), |(name, _)| join(&join("", self.place.member()), name));
        join(&join(&owner, "forms"), self.index)
    }
}

/// Every form of a description.
fn forms(td: &Object) -> impl Iterator<Item = Form<'_>> {
    let owners = affordances(td).map(|(place, name, affordance)| (place, Some((name, affordance)), affordance));
    std::iter::once((Place::Thing, None, td)).chain(owners).flat_map(|(place, affordance, owner)| {
        let forms = owner.get("forms").and_then(Value::as_array).into_iter().flatten().enumerate();
        forms.filter_map(move |(index, form)| Some(Form { place, affordance, index, form: form.as_object()? }))
    })
}

/// The object members of an object member.
fn objects<'a>(object: &'a Object, member: &str) -> impl Iterator<Item = (&'a str, &'a Object)> {
    let map = object.get(member).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.as_object()?)))
}

/// One of the strings of a member that is one string or a list of them.
struct Name<'a> {
    text: &'a str,
    member: &'static str,
    index: Option<usize>,
}

impl Name<'_> {
    fn pointer(&self, owner: &str) -> String {
        let pointer = join(owner, self.member);
        self.index.map_or(pointer.clone(), |n| join(&pointer, n))
    }
}

/// The strings of a member that is one string or a list of them.
fn names<'a>(object: &'a Object, member: &'static str) -> impl Iterator<Item = Name<'a>> {
    let value = object.get(member);
    let one = value.and_then(Value::as_str).map(|text| Name { text, member, index: None });
    let items = value.and_then(Value::as_array).into_iter().flatten().enumerate();
    one.into_iter()
        .chain(items.filter_map(move |(n, item)| Some(Name { text: item.as_str()?, member, index: Some(n) })))
}
