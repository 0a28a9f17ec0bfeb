//! Tool servers that speak MCP, over standard input and output or over HTTP; and the system calls of agents' programs, served
//! to them as such a server.
//!
//! **Inputs**: the address of a server, and calls. **Outputs**: its tools, and their results.
//!
//! **Invariants**: a started program ends with the node, with its children; a broken connection is replaced by the next
//! listing, never by a call; a change notification is handled before an answer that follows it ([`watched`]); everything is
//! bounded in time and size.
//!
//! **Never knows**: who calls, and whether it may.

mod health;
mod program;
mod relayed;
mod serving;
mod watched;

pub use serving::serve;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use althing_execution::http::{client_to, elsewhere};
use althing_execution::lease::META;
use althing_execution::process::{Asker, EgressRules, ProcessConfig, Work, refusals};
use althing_execution::relayed::Relayed;
use althing_execution::secrets::ServerSecrets;
use althing_execution::tools::{Definition, Fault, ToolServer};
use althing_execution::{AgentState, Containment, Refusals, ServerOf};
use althing_td::ToolServerSpec;
use futures::future::BoxFuture;
use health::Health;
use opentelemetry::trace::TraceContextExt as _;
use program::{Program, ServerOwner};
use relayed::Told;
use rmcp::model::{
    CallToolRequestParams, ClientConfig, ClientRequest, ElicitationCapability, FormElicitationCapability,
    ListToolsRequest, PaginatedRequestParams, ProtocolVersion, RequestMetaObject, ServerResult,
};
use rmcp::service::{RoleClient, RunningService};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpClientTransportConfig};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _};
use serde_json::{Value, json};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use watched::Watched;

/// How long a server may take to initialise.
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

/// The MCP client.
type Client = RunningService<RoleClient, ClientConfig>;

/// One server; connected on first use.
struct Server {
    spec: ToolServerSpec,
    whose: ServerOwner,
    folder: PathBuf,
    secret: Option<String>,
    config: ProcessConfig,
    rules: EgressRules,
    /// Whose program asks hosts, with what it was refused.
    asker: Asker,
    connection: Mutex<Option<Connection>>,
    /// How its program is contained, or was when it ran last, and what it was refused.
    containment: std::sync::Mutex<Option<Containment>>,
    /// Incremented whenever its tools may have changed: with each connection and each notification.
    epoch: Arc<AtomicU64>,
    told: Told,
    health: Health,
}

struct Connection {
    client: Arc<Client>,
    program: Option<Program>,
}

/// The tool server of an agent file. Programs are kept as `config` says.
#[must_use]
pub fn server(
    of: ServerOf<'_>,
    spec: &ToolServerSpec,
    secrets: ServerSecrets,
    config: &ProcessConfig,
) -> Arc<dyn ToolServer> {
    let (rules, refusals) = match spec {
        ToolServerSpec::Command { sandbox, env, .. } => {
            (EgressRules::of(sandbox, secrets.asked), refusals(&config.guarded, env))
        }
        _ => (EgressRules::default(), Refusals::default()),
    };
    Arc::new(Server {
        spec: spec.clone(),
        whose: ServerOwner::of(of),
        folder: of.folder.to_owned(),
        secret: secrets.bearer,
        config: config.clone(),
        rules,
        asker: Asker { agent: of.agent.to_owned(), work: Work::default(), refusals },
        connection: Mutex::new(None),
        containment: std::sync::Mutex::new(None),
        epoch: Arc::default(),
        told: relayed::told(),
        health: Health::new(spec),
    })
}

fn client_config() -> ClientConfig {
    let mut info = ClientConfig::default();
    "althing".clone_into(&mut info.client_info.name);
    env!("CARGO_PKG_VERSION").clone_into(&mut info.client_info.version);
    // Whoever has a call relayed may answer; in all other calls the client's handler declines.
    info.capabilities.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::default()));
    info
}

/// Whether the other end closed the connection, by what the library says of it: while reading, or while writing.
fn was_closed(fault: &Fault) -> bool {
    let why = fault.to_string();
    ["connection closed", "Send message error"].iter().any(|said| why.contains(said))
}

impl Server {
    /// The current connection or a new one, and whether it existed already.
    async fn client(&self) -> Result<(Arc<Client>, bool), Fault> {
        let mut now = self.connection.lock().await;
        if let Some(connection) = now.as_ref().filter(|connection| !connection.client.is_transport_closed()) {
            return Ok((connection.client.clone(), true));
        }
        // The previous program ends first.
        *now = None;
        self.epoch.fetch_add(1, Ordering::SeqCst);
        let connecting = timeout(CONNECT, self.connect());
        let connection = connecting.await.map_err(|_| Fault::Silent(CONNECT))??;
        let client = connection.client.clone();
        *now = Some(connection);
        Ok((client, false))
    }

    async fn connect(&self) -> Result<Connection, Fault> {
        match &self.spec {
            ToolServerSpec::Command { .. } => {
                let (mut program, read, write) = self.begun().await?;
                program.started().await?;
                *self.contained() = program.containment();
                let transport =
                    AsyncRwTransport::<RoleClient, _, _>::new(read, write).with_max_line_length(MESSAGE_BYTES_MAX);
                match self.initialise(transport).await {
                    Ok(client) => Ok(Connection { client, program: Some(program) }),
                    Err(fault) if was_closed(&fault) => Err(program.ended().await.unwrap_or(fault)),
                    Err(fault) => Err(fault),
                }
            }
            ToolServerSpec::Thing { .. } => Err(Fault::Unreachable("a Thing does not speak MCP".to_owned())),
            ToolServerSpec::Url { url, leads_to, .. } => {
                if self.secret.is_some() && !althing_td::keeps_bearer(url) {
                    let why = format!("its secret would be sent in the clear. {}", althing_td::BEARER_FIX);
                    return Err(Fault::Unreachable(why));
                }
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str())
                    .max_sse_event_size(MESSAGE_BYTES_MAX)
                    // A new session may have other tools: they must be listed first.
                    .reinit_on_expired_session(false);
                if let Some(secret) = &self.secret {
                    config = config.auth_header(secret.trim());
                }
                if let Some(why) = elsewhere(url, leads_to).await {
                    return Err(Fault::Unreachable(why));
                }
                let http = client_to(url, leads_to, TCP_CONNECT).map_err(Fault::Unreachable)?;
                let transport = StreamableHttpClientTransport::with_client(http, config);
                let client = self.initialise(transport).await?;
                Ok(Connection { client, program: None })
            }
        }
    }

    /// Starts its program where nobody else waits: the machine's files are looked at, and the keeper reads its job.
    async fn begun(&self) -> Result<(Program, Receiver, Sender), Fault> {
        let (whose, spec, folder) = (self.whose.clone(), self.spec.clone(), self.folder.clone());
        let (config, rules, asker) = (self.config.clone(), self.rules.clone(), self.asker.clone());
        let starting = spawn_blocking(move || Program::start(&whose, &spec, &folder, &config, (&rules, &asker)));
        let broken = |_| Fault::Unreachable("the node broke off while it was started".to_owned());
        starting.await.map_err(broken)?
    }

    fn contained(&self) -> std::sync::MutexGuard<'_, Option<Containment>> {
        self.containment.lock().expect("no holder of how it is contained panics")
    }

    async fn initialise<T>(&self, transport: T) -> Result<Arc<Client>, Fault>
    where
        T: rmcp::transport::Transport<RoleClient> + 'static,
    {
        let watched = Watched::new(transport, self.epoch.clone(), self.told.clone());
        // A server of the newest version has no sessions; one of an earlier version says so, or nothing.
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let client = client_config().serve_with_lifecycle(watched, lifecycle).await;
        client.map(Arc::new).map_err(|error| Fault::Unreachable(error.to_string()))
    }

    /// The tools, and the epoch of the listing.
    async fn list(&self) -> Result<(Vec<Definition>, u64), Fault> {
        self.health.noted(Box::pin(self.list_now())).await
    }

    async fn list_now(&self) -> Result<(Vec<Definition>, u64), Fault> {
        let (client, existed) = self.client().await?;
        match self.list_on(&client).await {
            // The connection or session may have ended silently: reconnect once.
            Err(Fault::Failed(_)) if existed => {
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

    /// Drops a failed connection, unless it was replaced already.
    async fn give_up(&self, client: &Arc<Client>) {
        let mut now = self.connection.lock().await;
        if now.as_ref().is_some_and(|current| Arc::ptr_eq(&current.client, client)) {
            *now = None;
        }
    }

    /// The connection of the listing in `epoch`, if nothing changed since.
    async fn listed_on(&self, epoch: u64) -> Result<Arc<Client>, Fault> {
        let now = self.connection.lock().await;
        let current = now.as_ref().filter(|connection| !connection.client.is_transport_closed());
        match current {
            Some(connection) if self.epoch.load(Ordering::SeqCst) == epoch => Ok(connection.client.clone()),
            _ => Err(Fault::Stale),
        }
    }

    async fn invoke(&self, tool: &str, arguments: Value, epoch: u64) -> Result<Value, Fault> {
        let client = self.listed_on(epoch).await?;
        let _working = self.asker.work.begin();
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.meta = told(trace_context(), althing_execution::current_lease().map(|lease| lease.told()));
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        let failed = |error: &dyn std::fmt::Display| Fault::Failed(error.to_string());
        if let Some(relayed) = Relayed::current() {
            return relayed::call(&client, &self.told, params, relayed).await;
        }
        let answered = client.call_tool(params).await.map_err(|error| failed(&error))?;
        serde_json::to_value(&answered).map_err(|error| failed(&error)).map(|mut value| {
            if value["isError"].is_null() {
                value["isError"] = json!(false);
            }
            value
        })
    }
}

/// The trace of the call, as MCP passes it on (SEP-414): `traceparent` and `tracestate` in `_meta`.
fn trace_context() -> Option<RequestMetaObject> {
    let context = tracing::Span::current().context();
    let span = context.span();
    let at = span.span_context();
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(format!("00-{}-{}-{:02x}", at.trace_id(), at.span_id(), at.trace_flags().to_u8()));
    let state = at.trace_state().header();
    if !state.is_empty() {
        meta.set_tracestate(state);
    }
    at.is_valid().then_some(meta)
}

/// What a server is told of a call: its trace, and the group's task that it is made for.
fn told(trace: Option<RequestMetaObject>, task: Option<Value>) -> Option<RequestMetaObject> {
    let Some(task) = task else { return trace };
    let mut told = trace.unwrap_or_default();
    told.insert(META.to_owned(), task);
    Some(told)
}

/// Lists all pages, up to the limits. Not through the client's `list_tools`, which may answer from a cache as long as the
/// server wants.
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

    fn version(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move { self.invoke(tool, arguments, self.epoch.load(Ordering::SeqCst)).await })
    }

    fn call_listed<'a>(&'a self, tool: &'a str, arguments: Value, epoch: u64) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(self.invoke(tool, arguments, epoch))
    }

    fn state(&self) -> AgentState {
        self.health.state()
    }

    fn containment(&self) -> Option<Containment> {
        self.contained().clone().map(|containment| containment.with(&self.asker.refusals))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(Connection { client, program }) = self.connection.lock().await.take() else { return };
            drop(client);
            if let Some(mut program) = program {
                // Closing its input asks it to end (MCP); dropping the program kills the rest.
                let _ = timeout(GRACE, program.wait()).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestMetaObject;
    use serde_json::json;

    use super::{META, told};

    #[test]
    fn a_server_is_told_the_trace_and_the_task_of_a_group() {
        let mut trace = RequestMetaObject::new();
        trace.set_traceparent("00-1-2-01".to_owned());
        let task = json!({ "group": "g", "token": 3 });
        let both = told(Some(trace.clone()), Some(task.clone())).map(|told| json!(told));
        assert_eq!(both, Some(json!({ "traceparent": "00-1-2-01", META: task })));
        assert_eq!(told(None, Some(task.clone())).map(|told| json!(told)), Some(json!({ META: task })));
        assert_eq!(told(Some(trace.clone()), None), Some(trace));
        assert_eq!(told(None, None), None);
    }
}
