//! What TD 1.1 asks in prose, beyond its JSON Schema.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Finding;
use super::schema::{CONTEXT_1_0, CONTEXT_1_1};
use crate::json::{excerpt, join};

type Object = Map<String, Value>;

/// Runs every check over a description, in the order of this list.
pub(super) fn check(td: &Object) -> Vec<Finding> {
    let walk = Walk { td, forms: forms(td), schemes: schemes(td) };
    let mut findings = Vec::new();
    walk.context(&mut findings);
    walk.security_names(&mut findings);
    walk.combos(&mut findings);
    walk.oauth2(&mut findings);
    walk.ops(&mut findings);
    walk.responses(&mut findings);
    walk.uri_variables(&mut findings);
    walk.data_schemas(&mut findings);
    findings
}

/// Where a form stands, which decides its operations (TD 1.1 §5.3.4.2, table of `op`).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Thing,
    Property,
    Action,
    Event,
}

impl Place {
    const AFFORDANCES: [(Place, &'static str); 3] =
        [(Place::Property, "properties"), (Place::Action, "actions"), (Place::Event, "events")];

    fn ops(self) -> &'static [&'static str] {
        match self {
            Place::Property => &["readproperty", "writeproperty", "observeproperty", "unobserveproperty"],
            Place::Action => &["invokeaction", "queryaction", "cancelaction"],
            Place::Event => &["subscribeevent", "unsubscribeevent"],
            Place::Thing => &[
                "readallproperties",
                "writeallproperties",
                "readmultipleproperties",
                "writemultipleproperties",
                "observeallproperties",
                "unobserveallproperties",
                "subscribeallevents",
                "unsubscribeallevents",
                "queryallactions",
            ],
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Place::Thing => "the thing",
            Place::Property => "a property",
            Place::Action => "an action",
            Place::Event => "an event",
        }
    }
}

struct Form<'a> {
    place: Place,
    pointer: String,
    form: &'a Object,
    affordance: Option<&'a Object>,
}

struct Walk<'a> {
    td: &'a Object,
    forms: Vec<Form<'a>>,
    schemes: BTreeMap<&'a str, &'a Object>,
}

impl Walk<'_> {
    fn context(&self, out: &mut Vec<Finding>) {
        let known = |v: &Value| v == CONTEXT_1_0 || v == CONTEXT_1_1;
        let declared = match self.td.get("@context") {
            None => return, // the schema says that it is missing
            Some(Value::Array(items)) => items.iter().any(known),
            Some(one) => known(one),
        };
        if !declared {
            out.push(Finding::error(
                "/@context",
                "context-unknown",
                "neither TD 1.1 nor TD 1.0 is named".to_owned(),
                format!("Put {CONTEXT_1_1:?} first in @context"),
            ));
        }
    }

    /// Each name in `security` is defined in `securityDefinitions` (TD 1.1 §5.3.1.1, §5.3.4.2).
    fn security_names(&self, out: &mut Vec<Finding>) {
        let places = self.forms.iter().map(|f| (f.pointer.as_str(), f.form));
        for (pointer, object) in std::iter::once(("", self.td)).chain(places) {
            for (pointer, name) in names(object, "security", pointer) {
                self.defined(name, pointer, out);
            }
        }
    }

    fn defined(&self, name: &str, pointer: String, out: &mut Vec<Finding>) {
        if !self.schemes.contains_key(name) {
            out.push(Finding::error(
                pointer,
                "security-undefined",
                format!("the security scheme {:?} is not in securityDefinitions", excerpt(name, 80)),
                "Define it there, or name one that is defined",
            ));
        }
    }

    /// A combo names its parts by exactly one of oneOf and allOf, and the parts are defined (TD 1.1 §5.3.3.4).
    fn combos(&self, out: &mut Vec<Finding>) {
        for (name, scheme) in self.schemes_of("combo") {
            let pointer = join("/securityDefinitions", name);
            if scheme.contains_key("oneOf") == scheme.contains_key("allOf") {
                out.push(Finding::error(
                    pointer.as_str(),
                    "combo-choice",
                    format!("the combo {name:?} needs exactly one of oneOf and allOf"),
                    "Keep oneOf where any of the schemes is enough, allOf where all of them are needed",
                ));
            }
            for member in ["oneOf", "allOf"] {
                for (pointer, part) in names(scheme, member, &pointer) {
                    self.defined(part, pointer, out);
                }
            }
        }
    }

    /// The endpoints that each OAuth 2.0 flow has (TD 1.1 §5.3.3.10).
    fn oauth2(&self, out: &mut Vec<Finding>) {
        for (name, scheme) in self.schemes_of("oauth2") {
            let Some(flow) = scheme.get("flow").and_then(Value::as_str) else { continue };
            let (needed, refused): (&[&str], &[&str]) = match flow {
                "code" | "device" => (&["authorization", "token"], &[]),
                "client" => (&["token"], &["authorization"]),
                _ => continue,
            };
            let pointer = join("/securityDefinitions", name);
            for member in needed.iter().filter(|m| !scheme.contains_key(**m)) {
                out.push(Finding::error(
                    pointer.as_str(),
                    "oauth2-flow",
                    format!("the OAuth 2.0 flow {flow:?} needs {member:?}"),
                    format!("Add {member:?} with the URL of that endpoint"),
                ));
            }
            for member in refused.iter().filter(|m| scheme.contains_key(**m)) {
                out.push(Finding::error(
                    join(&pointer, member),
                    "oauth2-flow",
                    format!("the OAuth 2.0 flow {flow:?} has no {member:?}"),
                    "Remove it, or name the flow \"code\"",
                ));
            }
        }
    }

    /// Operations belong to the kind of affordance (TD 1.1 §5.3.4.2), and should not contradict its access.
    fn ops(&self, out: &mut Vec<Finding>) {
        for Form { place, pointer, form, affordance } in &self.forms {
            let flag = |name: &str| affordance.and_then(|a| a.get(name)) == Some(&Value::Bool(true));
            for (pointer, op) in names(form, "op", pointer) {
                if !place.ops().contains(&op) {
                    out.push(Finding::error(
                        pointer,
                        "op-not-allowed",
                        format!("{:?} is not an operation of {}", excerpt(op, 80), place.noun()),
                        format!("Choose among {}", place.ops().join(", ")),
                    ));
                } else if (op == "writeproperty" && flag("readOnly")) || (op == "readproperty" && flag("writeOnly")) {
                    out.push(Finding::warning(
                        pointer,
                        "op-contradicts-access",
                        format!("{op:?} is offered, yet the property's readOnly or writeOnly excludes it"),
                        "Remove the operation, or the flag",
                    ));
                }
            }
        }
    }

    /// An expected response names its content type (TD 1.1 §5.3.4.3).
    fn responses(&self, out: &mut Vec<Finding>) {
        for Form { pointer, form, .. } in &self.forms {
            let Some(Value::Object(response)) = form.get("response") else { continue };
            if !response.contains_key("contentType") {
                out.push(Finding::error(
                    join(pointer, "response"),
                    "response-content-type",
                    "the expected response has no contentType".to_owned(),
                    "Add contentType, for example \"application/json\"",
                ));
            }
        }
    }

    /// A security scheme that sends its secret in a URI variable: the variable is in the URI template, and in no other
    /// role (TD 1.1 §5.3.3, `in` = `uri`).
    fn uri_variables(&self, out: &mut Vec<Finding>) {
        let mut taken: BTreeSet<&str> = declared_uri_variables(self.td).collect();
        for (name, scheme) in &self.schemes {
            let Some(variable) = uri_variable(scheme) else { continue };
            if !taken.insert(variable) {
                out.push(Finding::error(
                    join(&join("/securityDefinitions", name), "name"),
                    "uri-variable-not-distinct",
                    format!("the URI variable {variable:?} of {name:?} has another meaning too"),
                    "Give one of the two another name",
                ));
            }
        }
        let base = self.td.get("base").and_then(Value::as_str).unwrap_or_default();
        for Form { pointer, form, .. } in &self.forms {
            let Some(href) = form.get("href").and_then(Value::as_str) else { continue };
            let owner = if form.contains_key("security") { form } else { self.td };
            let present: BTreeSet<&str> = template_variables(base).chain(template_variables(href)).collect();
            for variable in self.demanded_variables(owner) {
                if !present.contains(variable) {
                    out.push(Finding::error(
                        join(pointer, "href"),
                        "uri-variable-missing",
                        format!("the security scheme needs the URI variable {variable:?}, which is not in the URI"),
                        format!("Write it into the href, for example {{?{variable}}}"),
                    ));
                }
            }
        }
    }

    /// The URI variables that the `security` of a form or of the thing needs in every case; of a choice (oneOf) none.
    fn demanded_variables(&self, owner: &Object) -> BTreeSet<&str> {
        let mut variables = BTreeSet::new();
        let mut open: Vec<&str> = names(owner, "security", "").into_iter().map(|(_, name)| name).collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = open.pop() {
            let Some((name, scheme)) = self.schemes.get_key_value(name) else { continue };
            if seen.insert(*name) {
                variables.extend(uri_variable(scheme));
                if scheme.get("scheme").is_some_and(|s| s == "combo") {
                    open.extend(names(scheme, "allOf", "").into_iter().map(|(_, name)| name));
                }
            }
        }
        variables
    }

    /// No data schema is both readOnly and writeOnly (TD 1.1 §5.3.2.1).
    fn data_schemas(&self, out: &mut Vec<Finding>) {
        let mut open: Vec<(String, &Value)> = Vec::new();
        children(self.td, "", &["schemaDefinitions", "uriVariables", "properties"], &[], &mut open);
        for (place, member) in Place::AFFORDANCES {
            for (name, affordance) in objects(self.td, member) {
                let pointer = join(&join("", member), name);
                let single: &[&str] = match place {
                    Place::Action => &["input", "output"],
                    Place::Event => &["data", "subscription", "dataResponse", "cancellation"],
                    Place::Property | Place::Thing => &[],
                };
                children(affordance, &pointer, &["uriVariables"], single, &mut open);
            }
        }
        while let Some((pointer, schema)) = open.pop() {
            let Value::Object(schema) = schema else { continue };
            let flag = |name: &str| schema.get(name) == Some(&Value::Bool(true));
            if flag("readOnly") && flag("writeOnly") {
                out.push(Finding::error(
                    pointer.as_str(),
                    "read-only-and-write-only",
                    "the data can neither be read nor written".to_owned(),
                    "Keep readOnly or writeOnly, not both",
                ));
            }
            children(schema, &pointer, &["properties"], &["items", "oneOf"], &mut open);
        }
    }

    fn schemes_of<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = (&'s str, &'s Object)> {
        self.schemes.iter().filter(move |(_, s)| s.get("scheme").is_some_and(|k| k == kind)).map(|(n, s)| (*n, *s))
    }
}

/// Pushes the data schemas below an object: the values of the maps in `maps`, and the values (or lists) in `single`.
fn children<'a>(
    object: &'a Object,
    pointer: &str,
    maps: &[&str],
    single: &[&str],
    open: &mut Vec<(String, &'a Value)>,
) {
    for member in maps {
        if let Some(Value::Object(map)) = object.get(*member) {
            let pointer = join(pointer, member);
            open.extend(map.iter().map(|(name, schema)| (join(&pointer, name), schema)));
        }
    }
    for member in single {
        let pointer = join(pointer, member);
        match object.get(*member) {
            Some(Value::Array(items)) => open.extend(items.iter().enumerate().map(|(n, s)| (join(&pointer, n), s))),
            Some(schema) => open.push((pointer, schema)),
            None => {}
        }
    }
}

/// The object members of an object member.
fn objects<'a>(object: &'a Object, member: &str) -> impl Iterator<Item = (&'a str, &'a Object)> {
    let map = object.get(member).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.as_object()?)))
}

fn schemes(td: &Object) -> BTreeMap<&str, &Object> {
    objects(td, "securityDefinitions").collect()
}

fn forms(td: &Object) -> Vec<Form<'_>> {
    let mut out = Vec::new();
    let mut add = |place, owner: &'_ str, holder, affordance| {
        let Some(Value::Array(forms)) = Map::get(holder, "forms") else { return };
        for (n, form) in forms.iter().enumerate() {
            if let Value::Object(form) = form {
                out.push(Form { place, pointer: join(&join(owner, "forms"), n), form, affordance });
            }
        }
    };
    add(Place::Thing, "", td, None);
    for (place, member) in Place::AFFORDANCES {
        for (name, affordance) in objects(td, member) {
            add(place, &join(&join("", member), name), affordance, Some(affordance));
        }
    }
    out
}

/// The strings of a member that is one string or a list of them, each with its pointer.
fn names<'a>(object: &'a Object, member: &str, pointer: &str) -> Vec<(String, &'a str)> {
    let pointer = join(pointer, member);
    match object.get(member) {
        Some(Value::String(one)) => vec![(pointer, one)],
        Some(Value::Array(items)) => {
            items.iter().enumerate().filter_map(|(n, item)| Some((join(&pointer, n), item.as_str()?))).collect()
        }
        _ => Vec::new(),
    }
}

fn uri_variable(scheme: &Object) -> Option<&str> {
    (scheme.get("in")? == "uri").then(|| scheme.get("name")?.as_str()).flatten()
}

fn declared_uri_variables(td: &Object) -> impl Iterator<Item = &str> {
    let affordances = Place::AFFORDANCES.into_iter().flat_map(|(_, member)| objects(td, member).map(|(_, a)| a));
    let holders = std::iter::once(td).chain(affordances);
    holders.filter_map(|h| h.get("uriVariables")?.as_object()).flat_map(|v| v.keys().map(String::as_str))
}

/// The variable names in a URI template (RFC 6570 §2): `/a{/b}{?c,d*}` has b, c and d.
fn template_variables(template: &str) -> impl Iterator<Item = &str> {
    let expressions = template.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    expressions
        .flat_map(|e| e.trim_start_matches(['+', '#', '.', '/', ';', '?', '&', '=', ',', '!', '@', '|']).split(','))
        .map(|variable| variable.split_once(':').map_or(variable, |(name, _)| name).trim_end_matches('*'))
}
