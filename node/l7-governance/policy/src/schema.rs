//! What policies are checked against: our stub, the gates, and the tools that are bound.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cedar_policy::{EntityUid, SchemaFragment, Validator};
use serde_json::{Map, Value, json};

use crate::entity_types::entity_types;
use crate::gate::Gate;
use crate::kind::Kind;
use crate::shape::Shape;

/// Tools of one schema: each is an action that every policy is checked for.
pub const TOOLS_MAX: usize = 4_096;
/// Bytes of a tool's name that become the name of an action.
const NAME_BYTES_MAX: usize = 256;

/// A tool as its server describes it.
#[derive(Debug, Clone, Copy)]
pub struct ToolSignature<'a> {
    /// The name of the server in the node's or the agent's file.
    pub server: &'a str,
    /// What its server calls it.
    pub name: &'a str,
    /// What is known of its arguments.
    pub input: &'a ToolInput,
}

/// What is known of the arguments of a tool: their names and types. Nothing else of its JSON Schema is kept. Clones are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolInput(Arc<Shape>);

impl ToolInput {
    /// Of a JSON Schema, whatever it is.
    #[must_use]
    pub fn of_schema(schema: &Value) -> ToolInput {
        ToolInput(Arc::new(Shape::of_schema(schema)))
    }
}

/// What a set is checked against, and how requests are understood.
pub struct Schema {
    /// It is as large as all tools together, and no set keeps it.
    pub(crate) validator: Validator,
    pub(crate) acts: Arc<Acts>,
}

/// How requests are understood, by the tools that are bound.
#[derive(Default)]
pub(crate) struct Acts {
    /// By `SERVER/TOOL`.
    tools: BTreeMap<String, Tool>,
    /// Of tools that two agents have by one name: by the agent, and then the tool.
    variants: BTreeMap<String, BTreeMap<String, Tool>>,
    gates: BTreeMap<Gate, Tool>,
    /// Actions whose arguments have no type, or not all of them.
    open: BTreeSet<EntityUid>,
}

/// How a request about a tool is understood.
pub(crate) struct Tool {
    pub(crate) action: EntityUid,
    pub(crate) shape: Arc<Shape>,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema").field("tools", &self.acts.tools.len()).finish_non_exhaustive()
    }
}

impl Schema {
    /// With these tools. A tool whose schema has no type in Cedar is there with arguments of no type; of more than
    /// [`TOOLS_MAX`] tools, those after them are not known, and are denied.
    #[must_use]
    pub fn new(tools: &[ToolSignature<'_>]) -> Schema {
        Schema::with_variants(tools, &[])
    }

    /// The same with tools that one agent has by a name by which another agent has another one: each with the agent.
    #[must_use]
    pub fn with_variants(tools: &[ToolSignature<'_>], variants: &[(&str, ToolSignature<'_>)]) -> Schema {
        let tools = &tools[..tools.len().min(TOOLS_MAX)];
        let variants = &variants[..variants.len().min(TOOLS_MAX - tools.len())];
        let mut actions: BTreeMap<String, Shape> = BTreeMap::new();
        let mut known = BTreeMap::new();
        for tool in tools {
            known.insert(format!("{}/{}", tool.server, tool.name), taken(&mut actions, tool));
        }
        let mut of_agents: BTreeMap<String, BTreeMap<String, Tool>> = BTreeMap::new();
        for (agent, tool) in variants {
            let entry = taken(&mut actions, tool);
            of_agents.entry((*agent).to_owned()).or_default().insert(format!("{}/{}", tool.server, tool.name), entry);
        }
        let cedar = build(&mut actions);
        let open =
            actions.iter().filter(|(_, shape)| shape.is_open()).map(|(name, _)| Kind::Action.uid(name)).collect();
        let gate = |gate: Gate| (gate, Tool { action: Kind::Action.uid(gate.word()), shape: Arc::new(gate.input()) });
        let gates = Gate::ALL.into_iter().map(gate).collect();
        let acts = Arc::new(Acts { tools: known, variants: of_agents, gates, open });
        Schema { validator: Validator::new(cedar), acts }
    }

    /// Of policies that are about something else than a node.
    #[cfg(test)]
    pub(crate) fn of_cedar(cedar: cedar_policy::Schema) -> Schema {
        Schema { validator: Validator::new(cedar), acts: Arc::default() }
    }

    /// Actions of tools whose arguments have no type, or not all of them: a policy about these is not checked.
    #[must_use]
    pub fn untyped(&self) -> Vec<String> {
        self.acts.open.iter().map(|action| action.id().unescaped().to_owned()).collect()
    }
}

impl Acts {
    /// How a request of an agent, or of somebody else, about this gate is understood. `None` for a tool that is not known here.
    pub(crate) fn act(&self, principal: &str, gate: Gate, resource: &str) -> Option<&Tool> {
        if gate != Gate::UseTool {
            return self.gates.get(&gate);
        }
        let own = self.variants.get(principal).and_then(|tools| tools.get(resource));
        own.or_else(|| self.tools.get(resource))
    }

    /// Whether arguments of this action have members without a type.
    pub(crate) fn is_open(&self, action: &EntityUid) -> bool {
        self.open.contains(action)
    }

    /// Whether a tool of this name, `SERVER/TOOL`, is known.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools.contains_key(name) || self.variants.values().any(|tools| tools.contains_key(name))
    }
}

/// A tool as requests about it are understood, whose arguments its action is for from now on too.
fn taken(actions: &mut BTreeMap<String, Shape>, tool: &ToolSignature<'_>) -> Tool {
    let ToolInput(shape) = tool.input.clone();
    let action = action_name(tool.name);
    if action != Gate::UseTool.word() {
        let joint = match actions.remove(action) {
            Some(other) => other.join(Shape::clone(&shape)),
            None => Shape::clone(&shape),
        };
        actions.insert(action.to_owned(), joint);
    }
    Tool { action: Kind::Action.uid(action), shape }
}

/// A tool has the action of its own name. One that is named as a gate (`add`) has no action of its own: a policy for the
/// gate would be one for the tool.
fn action_name(tool: &str) -> &str {
    let is_its_own = Gate::of_word(tool).is_none() && !tool.is_empty() && tool.len() <= NAME_BYTES_MAX;
    if is_its_own { tool } else { Gate::UseTool.word() }
}

/// Takes the types from actions whose types Cedar refuses, and then from all.
fn build(actions: &mut BTreeMap<String, Shape>) -> cedar_policy::Schema {
    if let Some(schema) = compile(actions) {
        return schema;
    }
    for (name, shape) in actions.iter_mut() {
        let alone = BTreeMap::from([(name.clone(), shape.clone())]);
        if compile(&alone).is_none() {
            *shape = Shape::Any;
        }
    }
    if let Some(schema) = compile(actions) {
        return schema;
    }
    actions.values_mut().for_each(|shape| *shape = Shape::Any);
    compile(actions).or_else(|| compile(&BTreeMap::new())).expect("the types and the gates are a schema")
}

fn compile(tools: &BTreeMap<String, Shape>) -> Option<cedar_policy::Schema> {
    let mut actions = Map::new();
    for gate in Gate::ALL {
        actions.insert(gate.word().to_owned(), action(&[], gate.resources(), &gate.input()));
    }
    for (name, shape) in tools {
        let groups = [Gate::UseTool.word()];
        actions.insert(name.clone(), action(&groups, Gate::UseTool.resources(), shape));
    }
    let schema = json!({ "": { "entityTypes": entity_types(), "actions": actions } });
    let fragment = SchemaFragment::from_json_value(schema).ok()?;
    cedar_policy::Schema::from_schema_fragments([fragment]).ok()
}

fn action(groups: &[&str], resources: &[Kind], input: &Shape) -> Value {
    let groups: Vec<Value> = groups.iter().map(|group| json!({ "id": group })).collect();
    let resources: Vec<&str> = resources.iter().map(|kind| kind.word()).collect();
    let none = json!({ "type": "Record", "attributes": {} });
    let mut input = match input.to_schema() {
        Some(record) if record["type"] == "Record" => record,
        _ => none,
    };
    input["required"] = json!(true);
    json!({
        "memberOf": groups,
        "appliesTo": {
            "principalTypes": ["Agent", "Person", "Node"],
            "resourceTypes": resources,
            "context": {
                "type": "Record",
                "attributes": {
                    "input": input,
                    "label": { "type": "Entity", "name": "Label", "required": true },
                    "level": { "type": "Long", "required": true },
                    "trusted": { "type": "Boolean", "required": true },
                    "person": { "type": "Entity", "name": "Person", "required": false },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_and_the_gates_are_a_schema() {
        let schema = Schema::new(&[]);
        let cedar = schema.validator.schema();
        let actions: BTreeSet<String> = cedar.actions().map(|uid| uid.id().unescaped().to_owned()).collect();
        assert_eq!(actions, Gate::ALL.iter().map(|gate| gate.word().to_owned()).collect());
        let types: BTreeSet<String> = cedar.entity_types().map(ToString::to_string).collect();
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Action) {
            assert!(types.contains(kind.word()), "{kind:?}");
        }
    }

    #[test]
    fn each_tool_is_an_action_of_its_name_but_for_those_named_as_a_gate() {
        let input = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
        let input = ToolInput::of_schema(&input);
        let tool = |server, name| ToolSignature { server, name, input: &input };
        let names = ["search", "get-weather", "a b\"c", "日本", "model"];
        let tools: Vec<ToolSignature<'_>> = names.into_iter().map(|name| tool("shop", name)).collect();
        let schema = Schema::new(&tools);
        assert_eq!(schema.untyped(), Vec::<String>::new());
        for name in names {
            let entry = schema.acts.act("a", Gate::UseTool, &format!("shop/{name}")).expect("it is known");
            let action = if name == "model" { "useTool" } else { name };
            assert_eq!(entry.action, Kind::Action.uid(action));
            assert!(schema.validator.schema().actions().any(|known| *known == entry.action), "{name}");
        }
        assert!(schema.acts.act("a", Gate::UseTool, "shop/other").is_none());
    }

    #[test]
    fn two_agents_have_each_their_own_tool_of_one_name() {
        let input = |kind: &str| json!({ "type": "object", "properties": { "q": { "type": kind } } });
        let (text, number) = (input("string"), input("integer"));
        let inputs = [&text, &number].map(ToolInput::of_schema);
        let tool = |input| ToolSignature { server: "shop", name: "pay", input };
        let schema = Schema::with_variants(&[], &[("one", tool(&inputs[0])), ("two", tool(&inputs[1]))]);
        let acts = &schema.acts;
        let shape = |agent: &str| acts.act(agent, Gate::UseTool, "shop/pay").map(|tool| Shape::clone(&tool.shape));
        assert_eq!(shape("one"), Some(Shape::of_schema(&text)));
        assert_eq!(shape("two"), Some(Shape::of_schema(&number)));
        assert!(shape("three").is_none() && acts.has_tool("shop/pay"));
    }

    #[test]
    fn odd_schemas_fail_no_other_tool() {
        let good = json!({ "type": "object", "properties": { "q": { "type": "string" } } });
        let odd =
            [json!(null), json!("x"), json!({ "$ref": "#" }), json!({ "properties": { "": { "type": "string" } } })];
        let good = ToolInput::of_schema(&good);
        let odd = odd.each_ref().map(ToolInput::of_schema);
        let mut tools = vec![ToolSignature { server: "s", name: "good", input: &good }];
        let names = ["o0", "o1", "o2", "o3"];
        tools.extend(odd.iter().zip(names).map(|(input, name)| ToolSignature { server: "s", name, input }));
        let schema = Schema::new(&tools);
        assert!(!schema.acts.is_open(&Kind::Action.uid("good")));
        assert!(schema.acts.is_open(&Kind::Action.uid("o0")));
        assert!(schema.acts.has_tool("s/o2"));
    }
}
