//! The tool of the steps that are measured. An agent calls it as it calls any: through its gate, and by the journal of its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_execution::tools::{Definition, Fault, ToolGate, ToolServer, Tools};
use althing_protocol::AgentRef;
use althing_td::Effect;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::tool;

/// The server, and the tool by the name that agents call it by.
const SERVER: &str = "count";
pub const TOOL: &str = "count/say";

/// A server whose tool has that effect. It asks another server where one is named, and else answers at once.
struct StepServer {
    effect: Effect,
    asked: Option<(reqwest::Client, String)>,
}

impl ToolServer for StepServer {
    // Its definitions do not change: no call lists them again.
    fn is_own(&self) -> bool {
        true
    }

    fn effect(&self, _: &str) -> Option<Effect> {
        Some(self.effect)
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let schema = json!({ "type": "object", "properties": { "step": { "type": "integer" } }, "required": ["step"] });
        let tool = Definition::new("say", "", schema);
        Box::pin(async { Ok(vec![tool]) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            if let Some((http, url)) = &self.asked {
                tool::call(http, url).await;
            }
            Ok(json!({ "content": [{ "type": "text", "text": "Hello" }], "isError": false }))
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// The tools of an agent behind that gate: one, of that effect.
pub async fn tools(
    agent: AgentRef,
    gate: Arc<dyn ToolGate>,
    effect: Effect,
    asked: Option<(reqwest::Client, String)>,
) -> Tools {
    let server: Arc<dyn ToolServer> = Arc::new(StepServer { effect, asked });
    let tools = Tools::new(agent, BTreeMap::from([(SERVER.to_owned(), server)]), gate);
    tools.listed().await;
    tools
}

/// Makes one step of the turn that runs here.
pub async fn call(tools: &Tools, number: usize) -> Result<(), String> {
    let arguments = json!({ "step": number }).to_string();
    let (called, _) = tools.invoke(TOOL, &arguments).await;
    called.map(drop).map_err(|error| error.to_string())
}
