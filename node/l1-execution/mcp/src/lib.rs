//! Tool servers that speak MCP, over standard input and output or over HTTP; and the system calls of agents' programs, served
//! to them as such a server.
//!
//! **Inputs**: the address of a server, and calls. **Outputs**: its tools, and their results.
//!
//! **Invariants**: a started program ends with the node, with its children; a broken connection is replaced by the next
//! listing, never by a call; a change notification is handled before an answer that follows it ([`watched`]); no listing that is
//! late ends a server on which a call runs; nobody answers for a user, and a question reaches nobody but whoever made the call to
//! which it belongs ([`questions`]); everything is bounded in time and size.
//!
//! **Never knows**: who calls, and whether it may.

mod answer_stream;
mod bodies;
mod call;
mod connection;
mod exchange;
mod greetings;
mod handler;
mod health;
mod lines;
mod machine;
mod news;
mod parking;
mod posting;
mod program;
mod questions;
mod requests;
mod serving;
mod session;
mod watched;

pub use serving::serve;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_execution::lease::META;
use althing_execution::process::{EgressRules, ProcessConfig, refusals};
use althing_execution::relayed::Relayed;
use althing_execution::secrets::ServerSecrets;
use althing_execution::tools::{Definition, Fault, ToolServer};
use althing_execution::{AgentState, Containment, Level, Refusals, ServerOf, current_principals, steps};
use althing_td::ToolServerSpec;
use call::{Call, Line, Running, Step, failed, written};
use connection::{Client, Connection, Speech, Target};
use exchange::Exchange;
use futures::future::BoxFuture;
use health::Health;
use machine::listing::{Listing, Next};
use opentelemetry::trace::TraceContextExt as _;
use parking::{Caller, OTHERS, Parking};
use questions::Questions;
use rmcp::model::{CallToolRequestParams, ClientRequest, ListToolsRequest, PaginatedRequestParams, RequestMetaObject};
use serde_json::{Value, json};
use tokio::sync::{Mutex, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// How long a server may take to initialise.
const CONNECT: Duration = Duration::from_secs(30);
/// How long it may take for a page of the list of its tools, unless it works on a call.
const LIST: Duration = Duration::from_secs(10);
/// Between two looks at what keeps a call from its turn.
const LOOK: Duration = Duration::from_secs(1);
/// How long a program may take to end.
const GRACE: Duration = Duration::from_secs(3);

/// Tools that are listed, and the names of those that were left out, each with why.
type Listed = (Vec<Definition>, Vec<(String, String)>);

/// One server; connected on first use.
struct Server {
    target: Target,
    connection: Mutex<Option<Connection>>,
    /// Beside a connection without sessions: for callers who can be asked only in one.
    session: Mutex<Option<Connection>>,
    /// When it had no session in which anybody can be asked.
    sessionless: std::sync::Mutex<Option<Instant>>,
    running: Arc<Running>,
    parking: Arc<Parking>,
    /// The last listing, and what was left out of it.
    listed: std::sync::Mutex<Listed>,
    health: Health,
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
        ToolServerSpec::Command { command, sandbox, env, .. } => {
            (EgressRules::of(sandbox, secrets.asked), refusals(&config.guarded, command, env))
        }
        _ => (EgressRules::default(), Refusals::default()),
    };
    Arc::new(Server::new(Target::new(of, spec, secrets.bearer, config, (rules, refusals))))
}

impl Server {
    fn new(target: Target) -> Server {
        let running = Arc::<Running>::default();
        Server {
            health: Health::new(&target.spec, running.clone()),
            target,
            connection: Mutex::new(None),
            session: Mutex::new(None),
            sessionless: std::sync::Mutex::new(None),
            running,
            parking: Arc::default(),
            listed: std::sync::Mutex::default(),
        }
    }

    /// The current connection or a new one, and whether it existed already.
    async fn client(&self) -> Result<(Arc<Client>, bool), Fault> {
        let mut now = self.connection.lock().await;
        if let Some(connection) = now.as_ref().filter(|connection| self.is_usable(connection, 0)) {
            return Ok((connection.client.clone(), true));
        }
        // The previous program ends first.
        *now = None;
        self.target.epoch.fetch_add(1, Ordering::SeqCst);
        *self.sessionless() = None;
        let connecting = timeout(CONNECT, self.target.connect(Speech::Newest));
        let connection = connecting.await.map_err(|_| Fault::Silent(CONNECT))??;
        let client = connection.client.clone();
        *now = Some(connection);
        Ok((client, false))
    }

    /// Whether a connection stays: it is open, and if nobody can be asked on it, calls beside `own` would end with it.
    fn is_usable(&self, connection: &Connection, own: usize) -> bool {
        connection.is_open() && (!connection.exchange.questions.is_stuck() || self.running.count() > own)
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
        let epoch = self.target.epoch.load(Ordering::SeqCst);
        match self.pages(client).await {
            Ok(listing) => {
                let (tools, left_out) = listing.done();
                *self.listed() = (tools.clone(), left_out);
                Ok((tools, epoch))
            }
            Err(fault) => {
                self.give_up(client).await;
                Err(fault)
            }
        }
    }

    /// Lists all pages, up to the limits. What fails after the first ends the list, with a note.
    async fn pages(&self, client: &Client) -> Result<Listing, Fault> {
        let (mut listing, mut cursor) = (Listing::default(), None);
        loop {
            let page = self.page(client, cursor).await;
            let taken = page.and_then(|page| listing.take(&page).map_err(|why| Fault::Failed(why.to_owned())));
            match taken {
                Ok(Next::Page(next)) => cursor = Some(next),
                Ok(Next::End) => return Ok(listing),
                Err(fault) if listing.broke_off(&fault.to_string()) => return Ok(listing),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// A page of the list. Not through the client's `list_tools`, which may answer from a cache as long as the server wants.
    async fn page(&self, client: &Client, cursor: Option<String>) -> Result<Value, Fault> {
        let mut params = PaginatedRequestParams::default();
        params.cursor = cursor;
        let request = ClientRequest::ListToolsRequest(ListToolsRequest {
            method: Default::default(),
            params: Some(params),
            extensions: Default::default(),
        });
        let page = self.answered(client.send_request(request)).await?.map_err(failed)?;
        Ok(written(&page))
    }

    /// Waits for an answer that does not depend on calls, unless the server works on one: it may come after that.
    async fn answered<T>(&self, answer: impl Future<Output = T>) -> Result<T, Fault> {
        tokio::pin!(answer);
        loop {
            match timeout(LIST, &mut answer).await {
                Ok(answered) => return Ok(answered),
                Err(_) if self.running.is_busy(LIST) => {}
                Err(_) => return Err(Fault::Silent(LIST)),
            }
        }
    }

    /// Drops a failed connection, unless it was replaced already, or a call runs on it.
    async fn give_up(&self, client: &Arc<Client>) {
        let mut now = self.connection.lock().await;
        let is_dead = client.is_transport_closed() || !self.running.is_busy(Duration::ZERO);
        if is_dead && now.as_ref().is_some_and(|current| Arc::ptr_eq(&current.client, client)) {
            *now = None;
        }
    }

    /// The connection of the listing in `epoch`, if nothing changed since.
    async fn listed_on(&self, epoch: u64) -> Result<(Arc<Client>, Exchange), Fault> {
        let now = self.connection.lock().await;
        match now.as_ref().filter(|connection| connection.is_open()) {
            Some(connection) if self.target.epoch.load(Ordering::SeqCst) == epoch => {
                Ok((connection.client.clone(), connection.exchange.clone()))
            }
            _ => Err(Fault::Stale),
        }
    }

    fn listed(&self) -> std::sync::MutexGuard<'_, Listed> {
        self.listed.lock().expect("no holder of a listing panics")
    }

    async fn invoke(&self, tool: &str, arguments: Value, epoch: u64) -> Result<Value, Fault> {
        let _working = self.target.asker.work.begin();
        let relayed = Relayed::current();
        let caller = Caller { principals: current_principals(), tool: tool.to_owned(), arguments: arguments.clone() };
        let state = relayed.as_ref().and_then(|relayed| relayed.request_state.clone());
        if let Some(state) = state.filter(|state| Parking::is_own(state)) {
            let over = || {
                let why = "the call that asked waits no more, since it had no answer for long, or others waited for the server, which \
                           asks one caller at a time: call the tool again";
                Fault::Failed(why.to_owned())
            };
            let (call, question) = self.parking.take(&state, &caller).ok_or_else(over)?;
            question.answer(relayed.as_ref().and_then(|relayed| relayed.input_responses.clone()));
            return self.go_on(call, caller, relayed).await;
        }
        let running = self.running.begin();
        let (mut client, mut exchange) = self.listed_on(epoch).await?;
        if let Some(relayed) = &relayed
            && let Some(session) = Box::pin(self.session(tool, relayed, &client)).await
        {
            (client, exchange) = session;
        }
        let may_ask = relayed.as_ref().is_some_and(|relayed| relayed.may_be_asked);
        let turn = if may_ask { Some(self.turn(&exchange.questions).await?) } else { None };
        // Its tools may have changed while others had their turns.
        if self.target.epoch.load(Ordering::SeqCst) != epoch {
            return Err(Fault::Stale);
        }
        let mut params = CallToolRequestParams::new(tool.to_owned());
        let task = althing_execution::current_lease().map(|lease| (META, lease.to_json()));
        let call = steps::current_key_text().map(|key| (steps::META, json!({ "idempotencyKey": key })));
        params.meta = request_meta(trace_context(), [task, call]);
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments);
        }
        if let Some(relayed) = &relayed {
            let responses = relayed.input_responses.clone();
            params.input_responses = responses.map(|responses| responses.into_iter().collect());
            params.request_state.clone_from(&relayed.request_state);
        }
        let line = Line { peer: &client, exchange: &exchange, whose: &caller.principals, running, turn };
        let call = Call::begin(line, params, relayed.is_some()).await?;
        self.go_on(call, caller, relayed).await
    }

    /// Lets a call begin whose caller can be asked; calls that wait for their callers, and keep it from that for long, are given up.
    async fn turn(&self, questions: &Questions) -> Result<OwnedSemaphorePermit, Fault> {
        let (begun, turn) = (Instant::now(), questions.turn());
        tokio::pin!(turn);
        loop {
            match timeout(LOOK, &mut turn).await {
                Ok(turn) => return turn,
                Err(_) if begun.elapsed() >= OTHERS => self.parking.give_up(|call| call.has_turn_of(questions)),
                Err(_) => {}
            }
        }
    }

    /// Follows a call to its end, or until its caller is asked.
    async fn go_on(&self, mut call: Call, caller: Caller, relayed: Option<Relayed>) -> Result<Value, Fault> {
        let Relayed { progress, may_be_asked, .. } = relayed.unwrap_or_default();
        loop {
            match call.next(&progress).await {
                Step::Done(done) => return done,
                // Nobody can be asked any more: dropping the question cancels it.
                Step::Asks(question) if !may_be_asked => drop(question),
                Step::Asks(question) => return self.parking.park(call, question, caller),
            }
        }
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

/// What a server is told of a call: its trace, the group's task that it is made for, and the key that all attempts at it have.
fn request_meta(trace: Option<RequestMetaObject>, members: [Option<(&str, Value)>; 2]) -> Option<RequestMetaObject> {
    let mut told = trace;
    for (name, value) in members.into_iter().flatten() {
        told.get_or_insert_default().insert(name.to_owned(), value);
    }
    told
}

impl ToolServer for Server {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(self.list().await?.0) })
    }

    fn listing(&self) -> BoxFuture<'_, Result<(Vec<Definition>, u64), Fault>> {
        Box::pin(self.list())
    }

    fn left_out(&self) -> Vec<(String, String)> {
        self.listed().1.clone()
    }

    fn is_busy(&self) -> bool {
        self.running.is_busy(LIST)
    }

    fn awaits(&self, state: &str) -> bool {
        self.parking.has(state)
    }

    fn version(&self) -> u64 {
        self.target.epoch.load(Ordering::SeqCst)
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move { self.invoke(tool, arguments, self.version()).await })
    }

    fn call_listed<'a>(&'a self, tool: &'a str, arguments: Value, epoch: u64) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(self.invoke(tool, arguments, epoch))
    }

    fn state(&self) -> AgentState {
        self.health.state()
    }

    fn containment(&self) -> Option<Containment> {
        self.target.contained().clone().map(|containment| containment.with(&self.target.asker.refusals))
    }

    fn level(&self) -> Option<Level> {
        self.target.contained().as_ref().map(|containment| containment.level)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.parking.clear();
            drop(self.session.lock().await.take());
            let Some(connection) = self.connection.lock().await.take() else { return };
            drop(connection.client);
            if let Some(mut program) = connection.program {
                // Closing its input asks it to end (MCP); dropping the program kills the rest.
                let _ = timeout(GRACE, program.wait()).await;
            }
        })
    }
}

#[cfg(test)]
mod scripted;

#[cfg(test)]
mod tests {
    use althing_execution::steps;
    use rmcp::model::RequestMetaObject;
    use serde_json::json;

    use super::{META, request_meta};

    #[test]
    fn a_server_is_told_the_trace_the_task_of_a_group_and_the_key_of_the_call() {
        let mut trace = RequestMetaObject::new();
        trace.set_traceparent("00-1-2-01".to_owned());
        let task = json!({ "group": "g", "token": 3 });
        let key = json!({ "idempotencyKey": "0a" });
        let (of_task, of_call) = (Some((META, task.clone())), Some((steps::META, key.clone())));
        let all = request_meta(Some(trace.clone()), [of_task.clone(), of_call.clone()]).map(|told| json!(told));
        assert_eq!(all, Some(json!({ "traceparent": "00-1-2-01", META: task, "dev.althing/call": key })));
        assert_eq!(request_meta(None, [of_task, None]).map(|told| json!(told)), Some(json!({ META: task })));
        assert_eq!(request_meta(None, [None, of_call]).map(|told| json!(told)), Some(json!({ steps::META: key })));
        assert_eq!(request_meta(Some(trace.clone()), [None, None]), Some(trace));
        assert_eq!(request_meta(None, [None, None]), None);
    }
}
