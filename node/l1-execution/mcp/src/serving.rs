//! The system calls of an agent's program, served on its socket as an MCP server (streamable HTTP): any MCP client that can
//! open a Unix socket makes them.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use althing_execution::journal::CHECKPOINT_ARGUMENTS_BYTES_MAX;
use althing_execution::process::{ProgramCalls, TURN_HEADER};
use althing_execution::tools::Definition;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ResultType, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections of one program.
const CONNECTIONS_MAX: usize = 64;
/// Bytes of a request: the longest arguments of a system call, and the envelope.
const REQUEST_BYTES_MAX: usize = CHECKPOINT_ARGUMENTS_BYTES_MAX + (64 << 10);
/// How long the headers of a request may take, and how long a connection may be idle before them.
const HEADERS: Duration = Duration::from_secs(10);
/// After this long a connection takes no further request; after twice this long it is closed, whatever runs on it.
const AGE: Duration = Duration::from_secs(600);
/// After an error of the system, such as no free descriptors.
const RETRY: Duration = Duration::from_millis(200);
const INSTRUCTIONS: &str = "The system calls that this agent's contract permits. They are made for the turn that the header \
Althing-Turn names, as it came with its message.";

/// Serves the system calls of a program on this socket, until it is dropped.
pub fn serve(listener: UnixListener, calls: Arc<ProgramCalls>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let listener = listener.set_nonblocking(true).and_then(|()| tokio::net::UnixListener::from_std(listener));
        match listener {
            Ok(listener) => accept(listener, calls).await,
            Err(error) => tracing::warn!(%error, "an agent's program can make no system calls"),
        }
    })
}

async fn accept(listener: tokio::net::UnixListener, calls: Arc<ProgramCalls>) {
    // The socket is in a folder that no other account can enter, and no page of a browser reaches it.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .disable_allowed_origins()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(REQUEST_BYTES_MAX);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(Handler(calls.clone())), sessions, config);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // They end when this is dropped.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of an agent's program is not accepted");
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(async move {
            // hyper's header timeout also ends connections on which no further request comes.
            let mut builder = Builder::new(TokioExecutor::new()).http1_only();
            builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            tokio::pin!(connection);
            let served = tokio::select! {
                served = connection.as_mut() => served,
                () = tokio::time::sleep(AGE) => {
                    connection.as_mut().graceful_shutdown();
                    tokio::time::timeout(AGE, connection).await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = served {
                tracing::debug!(%error, "a connection of an agent's program ended");
            }
            drop(place);
        });
    }
}

struct Handler(Arc<ProgramCalls>);

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let implementation = Implementation::new("althing", env!("CARGO_PKG_VERSION")).with_title("Althing");
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = self.0.listed().await;
        let listed = listed.map_err(|refused| ErrorData::internal_error(refused.to_string(), None))?;
        Ok(ListToolsResult::with_all_items(
            listed.iter().filter_map(|(name, definition)| tool(name, definition)).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let parts = context.extensions.get::<http::request::Parts>();
        let turn = parts.and_then(|parts| parts.headers.get(TURN_HEADER)).map(|turn| turn.to_str().unwrap_or_default());
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let failure = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]);
        Ok(match self.0.call(turn, &request.name, &arguments).await {
            Ok(Ok(result)) => complete(result)
                .unwrap_or_else(|error| failure(format!("the tool answered with no result of MCP: {error}"))),
            Ok(Err(error)) => failure(error.to_string()),
            Err(refused) => failure(refused.to_string()),
        }
        .into())
    }
}

/// A result, marked as complete, as MCP wants it since 2026-07-28; the SDK takes the mark out for older clients.
fn complete(result: Value) -> Result<CallToolResult, serde_json::Error> {
    let mut result: CallToolResult = serde_json::from_value(result)?;
    result.result_type = Some(ResultType::COMPLETE);
    Ok(result)
}

/// A tool as its server describes it, under the name that models see.
fn tool(name: &str, definition: &Definition) -> Option<Tool> {
    let mut whole = definition.whole();
    whole["name"] = name.into();
    serde_json::from_value(whole).ok()
}
