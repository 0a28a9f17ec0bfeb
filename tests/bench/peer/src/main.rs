//! The peer of the benchmark `faces`: the official Rust server of A2A with two echo agents, one whose answers are tasks and
//! one whose answers are messages. It keeps tasks in memory. A workspace of its own, for its dependencies would turn on
//! features of the product's.

use std::sync::Arc;

use a2a::{
    A2AError, AgentCapabilities, AgentCard, Artifact, Message, Part, Role, StreamResponse, Task, TaskState, TaskStatus,
};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore, StaticAgentCard};
use futures::StreamExt as _;
use futures::stream::BoxStream;

/// As the node's own program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

struct Echo {
    /// The answer is a task with an artifact; otherwise a message.
    task: bool,
}

impl AgentExecutor for Echo {
    fn execute(&self, context: ExecutorContext) -> Events {
        let text = context.message.as_ref().and_then(Message::text).unwrap_or_default().to_owned();
        let answer = if self.task {
            let artifact = Artifact {
                artifact_id: "echo".to_owned(),
                name: None,
                description: None,
                parts: vec![Part::text(text)],
                metadata: None,
                extensions: None,
            };
            StreamResponse::Task(Task {
                id: context.task_id,
                context_id: context.context_id,
                status: TaskStatus { state: TaskState::Completed, message: None, timestamp: None },
                artifacts: Some(vec![artifact]),
                history: context.message.map(|message| vec![message]),
                metadata: None,
            })
        } else {
            StreamResponse::Message(Message::new(Role::Agent, vec![Part::text(text)]))
        };
        futures::stream::iter([Ok(answer)]).boxed()
    }

    fn cancel(&self, context: ExecutorContext) -> Events {
        futures::stream::iter([Err(A2AError::task_not_cancelable(&context.task_id))]).boxed()
    }
}

fn agent(address: &str, task: bool) -> axum::Router {
    let card: AgentCard = serde_json::from_value(serde_json::json!({
        "name": "peer", "description": "Says it again.", "version": "1.0.0",
        "supportedInterfaces": [{ "url": address, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        "capabilities": { "streaming": true }, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "echo.say", "name": "Say", "description": "Repeats.", "tags": [] }],
    }))
    .expect("a card");
    let capabilities = AgentCapabilities { streaming: Some(true), ..AgentCapabilities::default() };
    let handler = DefaultRequestHandler::new(Echo { task }, InMemoryTaskStore::new()).with_capabilities(capabilities);
    a2a_server::jsonrpc::jsonrpc_router(Arc::new(handler))
        .merge(a2a_server::agent_card::agent_card_router(Arc::new(StaticAgentCard::new(card))))
}

/// Serves `/task` and `/message` until it is killed.
#[tokio::main]
async fn main() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let routes = axum::Router::new()
        .nest("/task", agent(&format!("{address}/task"), true))
        .nest("/message", agent(&format!("{address}/message"), false));
    println!("- {address}");
    axum::serve(listener, routes).await.expect("it serves");
}
