//! Tools that do nothing, beside which it is measured what a contract adds to a call.

use std::sync::Arc;

use althing_execution::Ports;
use althing_execution::tools::{ContractGate, Definition, Fault, ToolServer, Tools};
use althing_protocol::contract::Contract;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::error::BenchError;

/// A contract with these members beside its class.
pub fn contract(more: &Value) -> Result<Contract, BenchError> {
    let mut value = json!({ "class": { "latency": "srt" } });
    if let (Some(fields), Some(more)) = (value.as_object_mut(), more.as_object()) {
        fields.extend(more.clone());
    }
    Contract::from_value(&value).map_err(|problems| BenchError::not_measured(format!("{problems:?}")))
}

/// What an agent with that contract calls: of each of these servers the tool `nothing`.
pub async fn tools(contract: &Contract, servers: &[&str]) -> Result<Tools, BenchError> {
    let server: Arc<dyn ToolServer> = Arc::new(Nothing);
    let servers = servers.iter().map(|name| ((*name).to_owned(), server.clone())).collect();
    let agent = Ports::none().agent_ref("bench", "1.0.0").map_err(BenchError::not_measured)?;
    let tools = Tools::new(agent, servers, Arc::new(ContractGate::of(contract)));
    tools.listed().await;
    Ok(tools)
}

/// A server with one tool, which does nothing.
struct Nothing;

impl ToolServer for Nothing {
    // Its definitions do not change: the listing is not measured.
    fn is_own(&self) -> bool {
        true
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let tool = Definition::new("nothing", "", json!({}));
        Box::pin(async { Ok(vec![tool]) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async { Ok(json!({ "content": [] })) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
