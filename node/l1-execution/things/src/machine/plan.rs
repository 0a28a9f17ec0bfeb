//! Which tools a Thing Description becomes.

use std::collections::BTreeSet;

use althing_protocol::{digest, hex};
use althing_td::identifier;
use reqwest::Url;
use serde_json::{Map, Value, json};

use super::form::{Form, Ground, Op};
use althing_execution::definition::Definition;

/// The most tools of one Thing: an agent's contract names each of them.
pub const TOOLS_MAX: usize = 256;
/// The longest name of a tool: models know it with the name of its server before it.
const NAME_CHARS_MAX: usize = 56;
/// Of an affordance's description.
const DESCRIPTION_CHARS_MAX: usize = 4_096;
/// How long a tool waits for an event, seconds: where its caller does not say, and at most.
pub const WAIT_S: (u64, u64) = (30, 100);
/// The members of a description that are agreed to. Its version, its links and when it was made may change.
const AGREED: [&str; 11] = [
    "id",
    "title",
    "description",
    "base",
    "security",
    "securityDefinitions",
    "uriVariables",
    "schemaDefinitions",
    "properties",
    "actions",
    "events",
];

/// What the owner allows a description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// Origins beside its own that its forms may lead to: `http://192.0.2.7:8080`.
    pub allowed: BTreeSet<String>,
    /// Whether the node has a secret for it.
    pub has_secret: bool,
}

/// Tools of a Thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The Thing's id, if it has one.
    pub id: Option<String>,
    /// Its title.
    pub title: String,
    /// What it is.
    pub description: String,
    /// Its version.
    pub version: Option<String>,
    /// What can be done with it.
    pub tools: Vec<Affordance>,
    /// What cannot, and why.
    pub left_out: Vec<(String, String)>,
    /// The digest of what is agreed to, 64 hexadecimal digits.
    pub digest: String,
}

/// One thing that can be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Affordance {
    /// The tool.
    pub definition: Definition,
    /// How it is done.
    pub(crate) call: Call,
}

impl Affordance {
    /// The method and the address, with the names of its variables.
    #[must_use]
    pub fn request(&self) -> String {
        format!("{} {}", self.call.form.method, self.call.form.address)
    }
}

/// How it is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub form: Form,
    pub shape: Shape,
}

/// What the arguments of a tool are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Only variables of the address.
    Variables,
    /// The input itself.
    Whole,
    /// This member is the input; must it be there?
    Member(&'static str, bool),
}

/// Which tools a valid description becomes that was read at `from`.
#[must_use]
pub fn plan(td: &Map<String, Value>, from: &Url, terms: &Terms) -> Plan {
    let text = |member: &str| td.get(member).and_then(Value::as_str).map(str::to_owned);
    let base = text("base").and_then(|base| from.join(&base).ok());
    let own = from.origin().ascii_serialization();
    let ground = Ground {
        td,
        base: base.unwrap_or_else(|| from.clone()),
        origins: terms.allowed.iter().cloned().chain([own]).collect(),
        has_secret: terms.has_secret,
    };
    let mut tools = Planning { ground, tools: Vec::new(), left_out: Vec::new(), names: BTreeSet::new() };
    tools.all();
    Plan {
        id: identifier(td).map(str::to_owned),
        title: text("title").unwrap_or_default(),
        description: text("description").unwrap_or_default(),
        version: td.get("version").and_then(|version| version.get("instance")?.as_str()).map(str::to_owned),
        tools: tools.tools,
        left_out: tools.left_out,
        digest: agreed(td),
    }
}

fn agreed(td: &Map<String, Value>) -> String {
    let mut kept: Map<String, Value> =
        AGREED.into_iter().filter_map(|member| Some((member.to_owned(), td.get(member)?.clone()))).collect();
    // By either of its names: another Thing was not agreed to.
    if let Some(id) = identifier(td) {
        kept.insert("id".to_owned(), id.into());
    }
    hex(&digest(&serde_json_canonicalizer::to_vec(&kept).unwrap_or_default()))
}

struct Planning<'a> {
    ground: Ground<'a>,
    tools: Vec<Affordance>,
    left_out: Vec<(String, String)>,
    names: BTreeSet<String>,
}

impl Planning<'_> {
    fn all(&mut self) {
        let td = self.ground.td;
        let of = |kind: &str| td.get(kind).and_then(Value::as_object).into_iter().flatten();
        for (name, action) in of("actions") {
            self.one(name, action, Op::Invoke, &[Op::Invoke]);
        }
        for (name, property) in of("properties") {
            let is = |member: &str| property.get(member) == Some(&Value::Bool(true));
            let defaults: &[Op] = match (is("readOnly"), is("writeOnly")) {
                (true, _) => &[Op::Read],
                (false, true) => &[Op::Write],
                (false, false) => &[Op::Read, Op::Write],
            };
            for op in defaults {
                self.one(name, property, *op, defaults);
            }
        }
        for (name, event) in of("events") {
            self.one(name, event, Op::Await, &[Op::Await]);
        }
    }

    fn one(&mut self, name: &str, affordance: &Value, op: Op, defaults: &[Op]) {
        let Some(affordance) = affordance.as_object() else { return };
        let tool = tool_name(name, op);
        let made = self.ground.form(affordance, op, defaults).and_then(|form| {
            if self.tools.len() == TOOLS_MAX {
                return Err(format!("a Thing has at most {TOOLS_MAX} tools"));
            }
            let made = made(self.ground.td, affordance, &tool, form)?;
            match self.names.insert(tool.clone()) {
                true => Ok(made),
                false => Err(format!("{tool:?} is the name of another of its tools")),
            }
        });
        match made {
            Ok(made) => self.tools.push(made),
            Err(why) => self.left_out.push((tool, why)),
        }
    }
}

/// The name of a tool: that of its action, or what is done with a property or an event.
fn tool_name(name: &str, op: Op) -> String {
    let before = match op {
        Op::Invoke => "",
        Op::Read => "read_",
        Op::Write => "write_",
        Op::Await => "next_",
    };
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    before.chars().chain(name.chars().map(allowed)).take(NAME_CHARS_MAX).collect()
}

fn made(
    td: &Map<String, Value>,
    affordance: &Map<String, Value>,
    tool: &str,
    form: Form,
) -> Result<Affordance, String> {
    let text = |member: &str| affordance.get(member).and_then(Value::as_str);
    let (op, has_variables) = (form.op, !form.address.variables().is_empty());
    let input = match op {
        Op::Invoke => affordance.get("input").cloned(),
        Op::Write => Some(Value::Object(schema(affordance))),
        Op::Read | Op::Await => None,
    };
    let is_object = input.as_ref().is_some_and(|input| input["type"] == "object");
    let shape = match (&input, op) {
        (None, _) => Shape::Variables,
        (Some(_), Op::Write) => Shape::Member("value", true),
        (Some(_), _) if is_object && !has_variables => Shape::Whole,
        (Some(_), _) => Shape::Member("input", true),
    };
    let input_schema = match (&shape, input) {
        (Shape::Whole, Some(input)) => input,
        (shape, input) => arguments(td, affordance, &form, shape, input)?,
    };
    let done = match op {
        Op::Invoke => "",
        Op::Read => "Reads: ",
        Op::Write => "Writes: ",
        Op::Await => "Waits for the next event: ",
    };
    let said = text("description").or(text("title")).unwrap_or(tool);
    let said: String = said.chars().take(DESCRIPTION_CHARS_MAX).collect();
    let mut definition = Definition::new(tool, &format!("{done}{said}"), input_schema);
    if let Some(title) = text("title") {
        definition.rest.insert("title".to_owned(), title.into());
    }
    let output = match op {
        Op::Invoke => affordance.get("output").cloned(),
        Op::Read => Some(Value::Object(schema(affordance))),
        Op::Write | Op::Await => None,
    };
    if let Some(output) = output.filter(|output| output["type"] == "object") {
        definition.rest.insert("outputSchema".to_owned(), output);
    }
    let is = |member: &str| affordance.get(member) == Some(&Value::Bool(true));
    let reads = matches!(op, Op::Read | Op::Await) || is("safe");
    let hints = json!({ "readOnlyHint": reads, "idempotentHint": op != Op::Invoke || is("idempotent") });
    definition.rest.insert("annotations".to_owned(), hints);
    Ok(Affordance { definition, call: Call { form, shape } })
}

/// The schema of the arguments, where they are not the input itself.
fn arguments(
    td: &Map<String, Value>,
    affordance: &Map<String, Value>,
    form: &Form,
    shape: &Shape,
    input: Option<Value>,
) -> Result<Value, String> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (name, needed) in form.address.variables() {
        let declared = |of: &Map<String, Value>| of.get("uriVariables")?.get(name).cloned();
        let schema = declared(affordance).or_else(|| declared(td)).unwrap_or_else(|| json!({}));
        properties.insert(name.to_owned(), schema);
        if needed {
            required.push(name.to_owned());
        }
    }
    if let (Shape::Member(name, needed), Some(input)) = (shape, input) {
        if properties.insert((*name).to_owned(), input).is_some() {
            return Err(format!("a variable of its address has the name {name:?}"));
        }
        required.extend(needed.then(|| (*name).to_owned()));
    }
    if form.op == Op::Await {
        let (default, maximum) = WAIT_S;
        let seconds = json!({ "description": "How long to wait", "type": "integer", "minimum": 1, "maximum": maximum, "default": default });
        if properties.insert("seconds".to_owned(), seconds).is_some() {
            return Err("a variable of its address has the name \"seconds\"".to_owned());
        }
    }
    Ok(json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }))
}

/// The schema of a property: what it is without what is done with it.
fn schema(property: &Map<String, Value>) -> Map<String, Value> {
    let other =
        ["forms", "uriVariables", "observable", "readOnly", "writeOnly", "title", "titles", "descriptions", "@type"];
    property.iter().filter(|(name, _)| !other.contains(&name.as_str())).map(|(n, v)| (n.clone(), v.clone())).collect()
}

#[cfg(test)]
mod tests;
