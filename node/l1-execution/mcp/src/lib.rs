//! Tool servers that speak MCP, over standard input and output or over HTTP.
//!
//! **Inputs**: where a server is, what is called on it. **Outputs**: its tools, and what they answer.
//!
//! **Invariants**: a program that was started ends with the node, and its children with it; a connection that broke is
//! made anew with the next call; everything is bounded in time and size.
//!
//! **Never knows**: who calls, and whether it may.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use althing_execution::tools::{Definition, Fault, ToolServer};
use althing_td::ToolServerSpec;
use futures::future::BoxFuture;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rmcp::model::{CallToolRequestParams, ClientConfig, PaginatedRequestParams};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long a server may take until it speaks.
const CONNECT: Duration = Duration::from_secs(30);
/// How long it may take to list its tools.
const LIST: Duration = Duration::from_secs(10);
/// The longest message of a server, bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Tools of one server.
const TOOLS_MAX: usize = 1_024;
/// Pages of a list of tools.
const PAGES_MAX: usize = 16;
/// How long a program may take to end.
const GRACE: Duration = Duration::from_secs(3);
/// Runs the program in front of its own process group, with what the node writes as its standard input. When the node's
/// end closes, which it does however the node ends, the program may end by itself; what is left of the group is killed,
/// as it is when the program ends first.
const KEEPER: &str = r#"(cat; exec >&-; sleep 2; kill -KILL 0) | ("$@"; kill -KILL 0)"#;

/// How a client introduces itself.
type Client = RunningService<RoleClient, ClientConfig>;

/// One server; it is connected to when it is first needed.
struct Server {
    spec: ToolServerSpec,
    folder: PathBuf,
    secret: Option<String>,
    now: Mutex<Option<Connection>>,
}

struct Connection {
    client: Arc<Client>,
    program: Option<Program>,
}

/// A started program.
struct Program {
    keeper: Child,
    group: Pid,
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that the group is gone.
        let _ = killpg(self.group, Signal::SIGKILL);
    }
}

/// A server that an agent file names; relative paths start at `folder`.
#[must_use]
pub fn server(spec: &ToolServerSpec, folder: &Path, secret: Option<String>) -> Arc<dyn ToolServer> {
    Arc::new(Server { spec: spec.clone(), folder: folder.to_owned(), secret, now: Mutex::new(None) })
}

fn introduction() -> ClientConfig {
    let mut info = ClientConfig::default();
    "althing".clone_into(&mut info.client_info.name);
    env!("CARGO_PKG_VERSION").clone_into(&mut info.client_info.version);
    info
}

impl Server {
    /// The connection that stands, or a new one.
    async fn client(&self) -> Result<Arc<Client>, Fault> {
        let mut now = self.now.lock().await;
        if let Some(connection) = now.as_ref().filter(|connection| !connection.client.is_transport_closed()) {
            return Ok(connection.client.clone());
        }
        // What is left of the one before ends first.
        *now = None;
        let connecting = timeout(CONNECT, self.connect());
        let connection = connecting.await.map_err(|_| Fault::Silent(CONNECT))??;
        let client = connection.client.clone();
        *now = Some(connection);
        Ok(client)
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        let failed = |error: &dyn std::fmt::Display| Fault::Unreachable(error.to_string());
        match &self.spec {
            ToolServerSpec::Command { command, cwd, env } => {
                let folder = cwd.as_ref().map_or_else(|| self.folder.clone(), |cwd| self.folder.join(cwd));
                let mut keeper = Command::new("/bin/sh")
                    .args(["-c", KEEPER, "althing-tools"])
                    .args(command)
                    .current_dir(folder)
                    .envs(env)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .process_group(0)
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(|error| failed(&error))?;
                let group = keeper.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
                let (Some(group), Some(read), Some(write)) = (group, keeper.stdout.take(), keeper.stdin.take()) else {
                    return Err(Fault::Unreachable("its program has no input or output".to_owned()));
                };
                let program = Program { keeper, group };
                let transport =
                    AsyncRwTransport::<RoleClient, _, _>::new(read, write).with_max_line_length(MESSAGE_BYTES_MAX);
                let client = rmcp::serve_client(introduction(), transport).await.map_err(|error| failed(&error))?;
                Ok(Connection { client: Arc::new(client), program: Some(program) })
            }
            ToolServerSpec::Url { url, .. } => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MESSAGE_BYTES_MAX)
                    .reinit_on_expired_session(true);
                if let Some(secret) = &self.secret {
                    config = config.auth_header(secret.trim());
                }
                let http = reqwest::Client::builder()
                    .redirect(reqwest::redirect::Policy::none())
                    .connect_timeout(Duration::from_secs(5))
                    .build()
                    .map_err(|error| failed(&error))?;
                let transport = StreamableHttpClientTransport::with_client(http, config);
                let client = rmcp::serve_client(introduction(), transport).await.map_err(|error| failed(&error))?;
                Ok(Connection { client: Arc::new(client), program: None })
            }
        }
    }

    async fn list(&self) -> Result<Vec<Definition>, Fault> {
        let client = self.client().await?;
        let tools = timeout(LIST, pages(&client)).await.map_err(|_| Fault::Silent(LIST))??;
        let define = |tool: &rmcp::model::Tool| Definition {
            name: tool.name.to_string(),
            description: tool.description.as_deref().unwrap_or_default().to_owned(),
            input_schema: Value::Object(tool.input_schema.as_ref().clone()),
        };
        Ok(tools.iter().take(TOOLS_MAX).map(define).collect())
    }

    async fn invoke(&self, tool: &str, arguments: Value) -> Result<Value, Fault> {
        let client = self.client().await?;
        let mut params = CallToolRequestParams::new(tool.to_owned());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        let answered = client.call_tool(params).await.map_err(|error| Fault::Failed(error.to_string()))?;
        serde_json::to_value(&answered).map_err(|error| Fault::Failed(error.to_string())).map(|mut value| {
            if value["isError"].is_null() {
                value["isError"] = json!(false);
            }
            value
        })
    }
}

/// Page after page, until there are enough.
async fn pages(client: &Client) -> Result<Vec<rmcp::model::Tool>, Fault> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let page = client.list_tools(Some(params)).await.map_err(|error| Fault::Failed(error.to_string()))?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= TOOLS_MAX {
            break;
        }
    }
    Ok(tools)
}

impl ToolServer for Server {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(self.list())
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(self.invoke(tool, arguments))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(Connection { client, program }) = self.now.lock().await.take() else { return };
            drop(client);
            if let Some(mut program) = program {
                // Its input has ended, which is how MCP asks; what is left after that is killed.
                let _ = timeout(GRACE, program.keeper.wait()).await;
            }
        })
    }
}
