//! A tool of an MCP server: called at the server itself, and through a node that adopted it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::calls;
use crate::figures::percentile;

/// Calls one after the other.
const CALLS: usize = 300;
/// The version without sessions.
pub const VERSION: &str = "2026-07-28";

/// A server with one tool, which says what it is told.
#[derive(Clone)]
struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let Value::Object(schema) = schema else { return Err(ErrorData::internal_error("no schema", None)) };
        Ok(ListToolsResult::with_all_items(vec![Tool::new("say", "Says it again.", Arc::new(schema))]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text")).and_then(Value::as_str);
        let text = text.ok_or_else(|| ErrorData::invalid_params("`text` is missing", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// Child: serves the tool at `/mcp` until it is killed.
pub async fn serve() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("- http://{}/mcp", listener.local_addr().expect("an address"));
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(|| Ok(Echo), Arc::new(LocalSessionManager::default()), config);
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.expect("it serves");
}

/// The server as a process, and its address.
pub async fn started() -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("tool").stdout(Stdio::piped());
    let (server, _, address) = calls::started(command).await;
    (server, address)
}

/// The call of a tool that says what it is told, in the version of MCP without sessions.
pub fn request(tool: &str, text: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {
            "name": tool, "arguments": { "text": text },
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        },
    })
}

/// The same, to be sent.
pub fn post(client: &reqwest::Client, url: &str, tool: &str, request: &Value) -> reqwest::RequestBuilder {
    client
        .post(url)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", VERSION)
        .header("Mcp-Method", "tools/call")
        .header("Mcp-Name", tool)
        .json(request)
}

/// One call, at its server or through a node.
pub async fn call(client: &reqwest::Client, url: &str) {
    let sent = post(client, url, "say", &request("say", "Hello")).send().await;
    let answer: Value = sent.expect("an answer").json().await.expect("JSON");
    assert_eq!(answer["result"]["content"][0]["text"], "Hello", "{answer}");
}

/// The median time of a call, milliseconds.
pub async fn latency(client: &reqwest::Client, url: &str) -> f64 {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let begun = Instant::now();
        call(client, url).await;
        times.push(begun.elapsed());
    }
    percentile(&mut times, 0.5).as_secs_f64() * 1e3
}
