//! Reads a Thing Description that somebody else wrote member by member: what is good in it is used, what is not is named.
//!
//! What is read is valid. A description that is valid as it came is read as it came.

mod affordance;
mod judge;
mod notes;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::description::{Description, DescriptionError, identifier};
use crate::json::{Scanned, TD_BYTES_MAX, join, scan_shallow};
use crate::validate::{CONTEXT_1_0, CONTEXT_1_1};

use judge::Judge;
use notes::Notes;

/// The namespace of Thing Descriptions, which some name in place of a context.
const NAMESPACE: &str = "http://www.w3.org/ns/td";
/// What a Thing without a title and an id is called.
const UNTITLED: &str = "Untitled";
/// The members that hold affordances.
const AFFORDANCES: [&str; 3] = ["properties", "actions", "events"];
/// Affordances that are there more than once; of more it is not known which these are.
const REPEATED_MAX: usize = 63;

/// A Thing Description that somebody else wrote, as it is read.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownThing {
    /// What is good in it: a valid description. Its bytes are those that came if these are one.
    pub description: Description,
    /// Where it was not as it should be (a JSON pointer), and how it was read, for people: at most 33.
    pub notes: Vec<(String, String)>,
}

/// Whether a document says that it is a Thing Description, by its `@context`.
#[must_use]
pub fn is_thing(document: &Map<String, Value>) -> bool {
    let known = |context: &Value| [CONTEXT_1_1, CONTEXT_1_0, NAMESPACE].iter().any(|known| context == known);
    match document.get("@context") {
        Some(Value::Array(all)) => all.iter().any(known),
        Some(one) => known(one),
        None => false,
    }
}

/// Whether a document is a Thing Description whose author left the context out: it has none, or only names of others, and an
/// affordance of it has forms.
#[must_use]
pub fn is_thing_by_forms(document: &Map<String, Value>) -> bool {
    let has_context = !matches!(document.get("@context"), None | Some(Value::Null | Value::Object(_)));
    let of_kind = |kind: &&str| document.get(*kind).and_then(Value::as_object).into_iter().flatten();
    let mut affordances = AFFORDANCES.iter().flat_map(of_kind).map(|(_, affordance)| affordance);
    let leads = |form: &Value| form.get("href").is_some_and(Value::is_string);
    let has_forms =
        |one: &Value| one.get("forms").and_then(Value::as_array).is_some_and(|forms| forms.iter().any(leads));
    !has_context && affordances.any(has_forms)
}

/// Whether the media type of a document, as it is written in `Content-Type`, says that it is a Thing Description.
#[must_use]
pub fn is_thing_type(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/td+json")
}

/// Reads a Thing Description that somebody else wrote and showed with that media type; empty, if it is not known. An affordance,
/// a form, a security scheme or another member that is not as TD 1.1 has it is left out, the title and the security that are
/// missing have defaults, and each of these is noted.
///
/// # Errors
/// Neither its context, nor its media type, nor a form of it says that it is one; or it is no JSON, or too long; with the findings.
pub fn shown_thing(bytes: &[u8], media_type: &str) -> Result<ShownThing, DescriptionError> {
    let refused = match Description::parse(bytes) {
        Ok(description) => return Ok(ShownThing { description, notes: Vec::new() }),
        Err(refused) => refused,
    };
    let Ok(Scanned { value: Value::Object(td), duplicates, is_cut }) = scan_shallow(bytes, TD_BYTES_MAX) else {
        return Err(refused);
    };
    if !(is_thing(&td) || is_thing_type(media_type) || is_thing_by_forms(&td)) || duplicates.len() > REPEATED_MAX {
        return Err(refused);
    }
    let duplicates = duplicates.into_iter().collect();
    let mut reading = Reading { judge: Judge::new(), notes: Notes::default(), duplicates, is_cut, unsecured: None };
    let td = Value::Object(reading.read(td));
    match Description::parse(td.to_string().as_bytes()) {
        Ok(description) => Ok(ShownThing { description, notes: reading.notes.all() }),
        Err(_) => Err(refused),
    }
}

/// A description that is being read.
struct Reading {
    judge: Judge,
    notes: Notes,
    /// Pointers of the members that are there more than once.
    duplicates: BTreeSet<String>,
    /// Whether `null` stands for what is nested too deeply.
    is_cut: bool,
    /// Why a form without security of its own cannot be used, if it cannot.
    unsecured: Option<String>,
}

impl Reading {
    fn read(&mut self, td: Map<String, Value>) -> Map<String, Value> {
        let context = self.context(td.get("@context"));
        self.judge.within(&context);
        let title = self.title(&td);
        let mut schemes = self.schemes(td.get("securityDefinitions"));
        let security = self.security(td.get("security"), &mut schemes);
        let mut heads = Map::from_iter([
            ("@context".to_owned(), context),
            ("title".to_owned(), title.into()),
            ("securityDefinitions".to_owned(), schemes.into()),
            ("security".to_owned(), security),
        ]);
        for member in ["securityDefinitions", "security"] {
            self.judge.with(member, &heads[member]);
        }
        if let Some(base) = td.get("base").filter(|base| self.judge.bare_flaw("base", base).is_none()) {
            self.judge.with("base", base);
        }
        let mut read = Map::new();
        for (member, value) in td {
            let value = match member.as_str() {
                "properties" | "actions" | "events" => self.affordances(&member, value),
                name if heads.contains_key(name) => heads.remove(name),
                _ => self.member(&member, value),
            };
            read.extend(value.map(|value| (member, value)));
        }
        // Those that are missing.
        read.extend(heads);
        read
    }

    fn is_repeated(&self, pointer: &str) -> bool {
        self.duplicates.contains(pointer)
    }

    /// What is said of a value where an object belongs.
    fn no_object(&self, value: &Value) -> String {
        let is_deep = self.is_cut && value.is_null();
        if is_deep { "it is nested too deeply, or null" } else { "it is no object" }.to_owned()
    }

    fn context(&mut self, given: Option<&Value>) -> Value {
        if let Some(given) = given.filter(|given| self.judge.bare_flaw("@context", given).is_none()) {
            return given.clone();
        }
        let items = match given {
            Some(Value::Array(items)) => items.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let is_named = |context: &str| items.iter().any(|item| item == context);
        let known = if is_named(CONTEXT_1_0) && !is_named(CONTEXT_1_1) { CONTEXT_1_0 } else { CONTEXT_1_1 };
        let known = json!(known);
        let mut kept = vec![known.clone()];
        for item in items.iter().filter(|item| **item != known) {
            if self.judge.bare_flaw("@context", &json!([known, item])).is_none() {
                kept.push(item.clone());
            }
        }
        let how = match given {
            None | Some(Value::Null | Value::Object(_)) => "it is missing, and is read as TD 1.1",
            Some(_) => "it is not as it should be, and is read as that of Thing Descriptions",
        };
        self.notes.note("/@context", how);
        Value::Array(kept)
    }

    fn title(&mut self, td: &Map<String, Value>) -> String {
        let given = td.get("title").filter(|title| !title.is_null());
        let said = match given {
            Some(Value::Number(number)) => Some(number.to_string()),
            Some(title) if self.judge.bare_flaw("title", title).is_none() => title.as_str().map(str::to_owned),
            _ => None,
        };
        if let Some(said) = said {
            return said;
        }
        let lacks = if given.is_none() { "it is missing" } else { "it is no text that can be shown" };
        let id = identifier(td).filter(|id| self.judge.bare_flaw("title", &json!(id)).is_none());
        let title = id.unwrap_or(UNTITLED);
        self.notes.note("/title", &format!("{lacks}, and is read as {title:?}"));
        title.to_owned()
    }

    /// The security schemes that can be used.
    fn schemes(&mut self, given: Option<&Value>) -> Map<String, Value> {
        let at = "/securityDefinitions";
        if self.is_repeated(at) {
            self.notes.left_out(at, "it is there more than once");
            return Map::new();
        }
        let Some(Value::Object(all)) = given else {
            self.notes.note(at, "it is no object, and is read as none");
            return Map::new();
        };
        let mut open = Vec::new();
        for (name, scheme) in all {
            let at = join(at, name);
            if self.is_repeated(&at) {
                self.notes.left_out(&at, "it is there more than once");
            } else if !scheme.is_object() {
                let why = self.no_object(scheme);
                self.notes.left_out(&at, &why);
            } else {
                open.push((name, scheme));
            }
        }
        let first = open.first().map(|(name, _)| json!(name));
        let is_plain = open.len() == all.len();
        if is_plain && first.is_some_and(|first| self.judge.security_flaw(all, first).is_none()) {
            return all.clone();
        }
        let mut kept = Map::new();
        loop {
            let (mut later, before) = (Vec::new(), kept.len());
            for (name, scheme) in open {
                kept.insert(name.clone(), scheme.clone());
                if let Some(flaw) = self.judge.security_flaw(&kept, json!(name)) {
                    kept.remove(name);
                    later.push((name, scheme, flaw.message));
                }
            }
            // Those that name others may come before these.
            if later.is_empty() || kept.len() == before {
                later.iter().for_each(|(name, _, why)| self.notes.left_out(&join(at, name), why));
                return kept;
            }
            open = later.into_iter().map(|(name, scheme, _)| (name, scheme)).collect();
        }
    }

    /// What proves that a request is allowed, where a form says nothing else.
    fn security(&mut self, given: Option<&Value>, schemes: &mut Map<String, Value>) -> Value {
        let at = "/security";
        match given.filter(|given| !given.is_null() && **given != json!([])) {
            Some(given) => match self.judge.security_flaw(schemes, given.clone()) {
                None => return given.clone(),
                Some(flaw) => {
                    self.notes.note(at, &format!("{}: forms without their own are left out", flaw.message));
                    self.unsecured = Some(format!("its security cannot be met: {}", flaw.message));
                }
            },
            None => self.notes.note(at, "it is missing, and is read as no credentials"),
        }
        let mut name = "nosec_sc".to_owned();
        while schemes.contains_key(&name) {
            name.push('_');
        }
        schemes.insert(name.clone(), json!({ "scheme": "nosec" }));
        json!(name)
    }

    /// Another member, as far as it is good.
    fn member(&mut self, member: &str, value: Value) -> Option<Value> {
        let at = join("", member);
        if self.is_cut && value.is_null() {
            let why = self.no_object(&value);
            self.notes.left_out(&at, &why);
            return None;
        }
        let flaw = match self.judge.flaw(member, &value) {
            None => return Some(value),
            Some(flaw) => flaw,
        };
        let mended = match (member, value) {
            ("links" | "forms", Value::Array(items)) => Some(self.items(member, items, &at)),
            ("uriVariables" | "schemaDefinitions", value) => self.mended(member, value, &at),
            _ => None,
        };
        let mended = mended.filter(|mended| self.judge.flaw(member, mended).is_none());
        if mended.is_none() {
            self.notes.left_out(&at, &flaw.message);
        }
        mended
    }

    /// The good ones of a list.
    fn items(&mut self, member: &str, items: Vec<Value>, at: &str) -> Value {
        let mut kept = Vec::new();
        for (number, item) in items.into_iter().enumerate() {
            match self.judge.flaw(member, &json!([item])) {
                None => kept.push(item),
                Some(flaw) => self.notes.left_out(&join(at, number), &flaw.message),
            }
        }
        Value::Array(kept)
    }
}
