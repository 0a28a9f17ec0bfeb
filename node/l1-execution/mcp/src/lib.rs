//! Tool servers that speak MCP, over standard input and output or over HTTP.
//!
//! **Inputs**: where a server is, what is called on it. **Outputs**: its tools, and what they answer.
//!
//! **Invariants**: a program that was started ends with the node, and its children with it; a connection that broke is
//! made anew with the next listing, never with a call; what was announced before an answer is heeded before it
//! ([`watched`]); everything is bounded in time and size.
//!
//! **Never knows**: who calls, and whether it may.

mod watched;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_execution::http::client;
use althing_execution::process::environment;
use althing_execution::tools::{Definition, Fault, ToolServer};
use althing_td::ToolServerSpec;
use futures::future::BoxFuture;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult,
};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;
use watched::Watched;

/// How long a server may take until it speaks.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a connection to it may take.
const TCP_CONNECT: Duration = Duration::from_secs(5);
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
    /// Another number whenever its tools may have changed: with each connection, and each time that it says so.
    epoch: Arc<AtomicU64>,
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
    Arc::new(Server {
        spec: spec.clone(),
        folder: folder.to_owned(),
        secret,
        now: Mutex::new(None),
        epoch: Arc::default(),
    })
}

fn introduction() -> ClientConfig {
    let mut info = ClientConfig::default();
    "althing".clone_into(&mut info.client_info.name);
    env!("CARGO_PKG_VERSION").clone_into(&mut info.client_info.version);
    info
}

impl Server {
    /// The connection that stands, or a new one; and whether it stood already.
    async fn client(&self) -> Result<(Arc<Client>, bool), Fault> {
        let mut now = self.now.lock().await;
        if let Some(connection) = now.as_ref().filter(|connection| !connection.client.is_transport_closed()) {
            return Ok((connection.client.clone(), true));
        }
        // What is left of the one before ends first.
        *now = None;
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let connecting = timeout(CONNECT, self.connect());
        let connection = connecting.await.map_err(|_| Fault::Silent(CONNECT))??;
        let client = connection.client.clone();
        *now = Some(connection);
        Ok((client, false))
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
                    .env_clear()
                    .envs(environment())
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
                let client = self.introduce(transport).await?;
                Ok(Connection { client, program: Some(program) })
            }
            ToolServerSpec::Url { url, .. } => {
                if self.secret.is_some() && !althing_td::keeps_bearer(url) {
                    let why = format!("its secret would be sent in the clear. {}", althing_td::BEARER_FIX);
                    return Err(Fault::Unreachable(why));
                }
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MESSAGE_BYTES_MAX)
                    // Whoever begins a session anew may have other tools: they are listed anew first.
                    .reinit_on_expired_session(false);
                if let Some(secret) = &self.secret {
                    config = config.auth_header(secret.trim());
                }
                let http = client(url, TCP_CONNECT).map_err(Fault::Unreachable)?;
                let transport = StreamableHttpClientTransport::with_client(http, config);
                let client = self.introduce(transport).await?;
                Ok(Connection { client, program: None })
            }
        }
    }

    async fn introduce<T>(&self, transport: T) -> Result<Arc<Client>, Fault>
    where
        T: rmcp::transport::Transport<RoleClient> + 'static,
    {
        let watched = Watched::new(transport, self.epoch.clone());
        let client = rmcp::serve_client(introduction(), watched).await;
        client.map(Arc::new).map_err(|error| Fault::Unreachable(error.to_string()))
    }

    /// The tools, and the epoch in which they were asked for.
    async fn list(&self) -> Result<(Vec<Definition>, u64), Fault> {
        let (client, stood) = self.client().await?;
        match self.list_on(&client).await {
            // It may have ended, or its session expired, without a word: once it is made anew.
            Err(Fault::Failed(_)) if stood => {
                let (client, _) = self.client().await?;
                self.list_on(&client).await
            }
            listed => listed,
        }
    }

    async fn list_on(&self, client: &Arc<Client>) -> Result<(Vec<Definition>, u64), Fault> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let tools = match timeout(LIST, pages(client)).await {
            Ok(Ok(tools)) => tools,
            failed => {
                self.give_up(client).await;
                return Err(failed.map_or(Fault::Silent(LIST), |failed| failed.err().unwrap_or(Fault::Stale)));
            }
        };
        let define = |tool: &rmcp::model::Tool| {
            let whole = serde_json::to_value(tool).unwrap_or_default();
            serde_json::from_value(whole).map_err(|error| Fault::Failed(error.to_string()))
        };
        let tools: Result<Vec<Definition>, Fault> = tools.iter().take(TOOLS_MAX).map(define).collect();
        Ok((tools?, epoch))
    }

    /// Ends a connection that does not answer as it must, unless another stands already.
    async fn give_up(&self, client: &Arc<Client>) {
        let mut now = self.now.lock().await;
        if now.as_ref().is_some_and(|standing| Arc::ptr_eq(&standing.client, client)) {
            *now = None;
        }
    }

    /// The connection on which the tools were listed in `epoch`, if nothing has changed since.
    async fn listed_on(&self, epoch: u64) -> Result<Arc<Client>, Fault> {
        let now = self.now.lock().await;
        let standing = now.as_ref().filter(|connection| !connection.client.is_transport_closed());
        match standing {
            Some(connection) if self.epoch.load(Ordering::SeqCst) == epoch => Ok(connection.client.clone()),
            _ => Err(Fault::Stale),
        }
    }

    async fn invoke(&self, tool: &str, arguments: Value, epoch: u64) -> Result<Value, Fault> {
        let client = self.listed_on(epoch).await?;
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

/// Page after page, until there are enough. Not through the client's own `list_tools`, which answers from a cache for as
/// long as the server pleases.
async fn pages(client: &Client) -> Result<Vec<rmcp::model::Tool>, Fault> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let request = ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params: Some(params),
            extensions: Default::default(),
        });
        let page = match client.send_request(request).await.map_err(|error| Fault::Failed(error.to_string()))? {
            ServerResult::ListToolsResult(page) => page,
            _ => return Err(Fault::Failed("it answered something else than a list of tools".to_owned())),
        };
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
        Box::pin(async { Ok(self.list().await?.0) })
    }

    fn listing(&self) -> BoxFuture<'_, Result<(Vec<Definition>, u64), Fault>> {
        Box::pin(self.list())
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move { self.invoke(tool, arguments, self.epoch.load(Ordering::SeqCst)).await })
    }

    fn call_listed<'a>(&'a self, tool: &'a str, arguments: Value, epoch: u64) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(self.invoke(tool, arguments, epoch))
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
