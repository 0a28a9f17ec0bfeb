//! Governance of a node on a store, with an agent that has one tool.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use althing_communication::{Entropy, WallClock};
use althing_execution::tools::{ToolGate, ToolStatements, contract_gates};
use althing_governance::{Actor, Gates, Governance, NodeProfile, Ports};
use althing_protocol::contract::DataLabel;
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentRef, Contract, PublisherId, SecretKey};
use althing_store::Store;
use althing_td::{Effect, ToolTerms};
use rand::Rng as _;
use serde_json::{Value, json};

/// Policies of the set that figures are measured under.
pub const POLICIES: usize = 100;
/// The tool of the agent.
pub const TOOL: &str = "count/say";

/// One policy that permits, and others that forbid something else: by the principal, by the resource, or by what is known of
/// both, a third of them each.
pub fn policies() -> String {
    let mut text = "@id(\"all\")\npermit(principal, action, resource) when { context.level <= 2 };\n".to_owned();
    for number in 1..POLICIES {
        let forbid = match number % 3 {
            0 => format!("forbid(principal in Publisher::\"urn:althing:publisher-{number}\", action, resource);"),
            1 => format!("forbid(principal, action in Action::\"useTool\", resource in Server::\"shut-{number}\");"),
            _ => format!(
                "forbid(principal, action in Action::\"useTool\", resource)\n\
                 when {{ context.level > 1 && resource.tier > 5 && resource.server == \"shut-{number}\" }};"
            ),
        };
        text.push_str(&format!("@id(\"p{number}\")\n{forbid}\n"));
    }
    text
}

/// What the tool takes.
pub fn schema() -> Value {
    json!({ "type": "object", "properties": { "step": { "type": "integer" } }, "required": ["step"] })
}

pub fn agent() -> AgentRef {
    AgentRef::new(owner(), "worker", "1.0.0").expect("a name")
}

/// Governance on that store; its sets are in that folder.
pub async fn open(store: Arc<dyn Store>, folder: &Path) -> Governance {
    let key = SecretKey::from_seed(&[1; 32]);
    let ports = Ports {
        store,
        clock: WallClock::new(now_ms),
        entropy: Entropy::new(|bytes| rand::rng().fill(bytes)),
        node: key.public(),
        owner: owner(),
        folder: Some(folder.to_owned()),
        sign: Arc::new(move |origin, head| Checkpoint::sign(origin, head, &key)),
        profile: NodeProfile::Local,
    };
    Box::pin(Governance::open(ports)).await.expect("it opens")
}

/// Puts the policies in force.
pub async fn load(governance: &Governance) {
    let status = governance.load_policy(&policies(), Actor::Owner).await.expect("they are good");
    assert_eq!(status.policies, POLICIES);
}

/// The gate of the agent, whose tool does that outside; without governance the contract alone decides.
pub fn gate(governance: Option<&Governance>, effect: Effect) -> Arc<dyn ToolGate> {
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": [TOOL] });
    let contract = Contract::from_value(&contract).expect("a contract");
    let said = statements(effect);
    let Some(governance) = governance else { return contract_gates()(&agent(), &contract, &said) };
    let gates = Gates::default();
    gates.connect(governance);
    governance.take_tools(&agent(), &BTreeMap::from([(TOOL.to_owned(), schema())]), &said);
    gates.make(contract_gates())(&agent(), &contract, &said)
}

/// What the owner says of the tool: it may be given everything.
fn statements(effect: Effect) -> ToolStatements {
    let terms = ToolTerms {
        trusted: Some(true),
        clearance: Some(DataLabel::Restricted),
        tier: Some(0),
        ..ToolTerms::default()
    };
    ToolStatements {
        effects: [BTreeMap::from([(TOOL.to_owned(), effect)]), BTreeMap::new()],
        terms: [BTreeMap::from([(TOOL.to_owned(), terms)]), BTreeMap::new()],
        servers: BTreeMap::from([("count".to_owned(), [7; 32])]),
        here: BTreeSet::from(["count".to_owned()]),
        embeddings: None,
    }
}

pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a while yet")
}

fn owner() -> PublisherId {
    PublisherId::from_digest([1; 32])
}
