//! A Thing as a server of tools: reads its description again and again, and asks it over HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_fetch::header::{HeaderMap, HeaderName, HeaderValue};
use althing_fetch::{FetchError, Given, Limits, Method, Reply, Request};
use futures::future::BoxFuture;
use reqwest::Url;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::look::{LookError, Web, content_type, description};
use super::machine::answer;
use super::machine::plan::{Call, Plan, Terms, plan};
use super::machine::request::{self, request};
use althing_execution::definition::Definition;
use althing_execution::tools::{Fault, ToolServer};
use althing_execution::{AgentState, steps};

/// Between two looks at the description of a Thing that answers.
const CHECK: Duration = Duration::from_secs(30);
/// Before one that did not answer is asked again, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// Of one answer: below what a result may have, also as base64.
const ANSWER: Limits = Limits { bytes: 640 << 10, time: Duration::from_secs(110) };
/// The header by which a server of HTTP knows a request that it was sent before (draft-ietf-httpapi-idempotency-key-header).
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// What a caller learns; the address is for the operator.
const DOWN: &str = "the Thing does not answer, and `ps` on its node says more";
const CHANGED: &str =
    "the Thing shows another description than the one that was adopted, and `ps` on its node says more";

/// A Thing whose affordances are tools.
pub struct ThingServer {
    thing: Arc<Thing>,
    watching: Mutex<Option<JoinHandle<()>>>,
}

struct Thing {
    agent: String,
    web: Web,
    url: Url,
    secret: Option<String>,
    terms: Terms,
    /// The digest that was agreed to; else that of the first description that was read.
    agreed: Option<String>,
    now: Mutex<Now>,
}

struct Now {
    state: AgentState,
    /// What may be called: also where the Thing did not answer the last time, since it may answer now.
    known: Option<Arc<Known>>,
    /// The digest of the first description.
    first: Option<String>,
}

/// A description that was read.
struct Known {
    tools: Vec<Definition>,
    calls: BTreeMap<String, Call>,
}

impl ThingServer {
    /// The Thing whose description is at `url`, for an agent. `agreed` is the digest of the description that the owner agreed to.
    #[must_use]
    pub fn new(
        agent: &str,
        web: Web,
        url: Url,
        secret: Option<String>,
        terms: Terms,
        agreed: Option<String>,
    ) -> ThingServer {
        let now = Mutex::new(Now { state: AgentState::Starting, known: None, first: None });
        let thing = Thing { agent: agent.to_owned(), web, url, secret, terms, agreed, now };
        ThingServer { thing: Arc::new(thing), watching: Mutex::default() }
    }

    /// Looks now if it never did, and from then on again and again.
    async fn known(&self) -> Result<Arc<Known>, Fault> {
        if self.thing.now().state == AgentState::Starting {
            self.thing.look().await;
            let mut watching = self.watching.lock().expect("no holder of the watch panics");
            watching.get_or_insert_with(|| tokio::spawn(watch(self.thing.clone())));
        }
        let now = self.thing.now();
        let why = if matches!(now.state, AgentState::Suspended { .. }) { CHANGED } else { DOWN };
        now.known.clone().ok_or_else(|| Fault::Failed(why.to_owned()))
    }
}

impl Drop for ThingServer {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.lock().expect("no holder of the watch panics").take() {
            watching.abort();
        }
    }
}

impl ToolServer for ThingServer {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(self.known().await?.tools.clone()) })
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let known = self.known().await?;
            let call = known.calls.get(tool).ok_or_else(|| Fault::Failed(format!("there is no tool {tool:?}")))?;
            match request(call, &arguments, self.thing.secret.as_deref()) {
                Ok(mut request) => {
                    let key = steps::current_key_text();
                    request.headers.extend(key.map(|key| (IDEMPOTENCY_KEY.to_owned(), key)));
                    self.thing.ask(call, request).await
                }
                Err(why) => Ok(answer::failed(&why)),
            }
        })
    }

    fn state(&self) -> AgentState {
        self.thing.now().state.clone()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        let watching = self.watching.lock().expect("no holder of the watch panics").take();
        Box::pin(async move {
            if let Some(watching) = watching {
                watching.abort();
            }
        })
    }
}

impl Thing {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder of what was seen panics")
    }

    /// Reads the description; whether there was one.
    async fn look(&self) -> bool {
        let read = description(&self.web, &self.url, self.secret.as_deref()).await;
        let is_there = read.is_ok();
        let read = read.map(|td| plan(&td, &self.url, &self.terms));
        let mut now = self.now();
        let before = std::mem::discriminant(&now.state);
        self.judge(read, &mut now);
        if before != std::mem::discriminant(&now.state) {
            self.report(&now.state);
        }
        is_there
    }

    fn judge(&self, read: Result<Plan, LookError>, now: &mut Now) {
        let plan = match read {
            Ok(plan) => plan,
            Err(error) => {
                now.state = AgentState::Unreachable { why: format!("{}: {error}", self.url) };
                return;
            }
        };
        let agreed = self.agreed.as_ref().or(now.first.as_ref());
        if agreed.is_some_and(|agreed| *agreed != plan.digest) {
            now.state = AgentState::Suspended { why: self.changed(&plan) };
            now.known = None;
            return;
        }
        now.state = AgentState::Ready;
        now.first.get_or_insert(plan.digest);
        let tools: Vec<Definition> = plan.tools.iter().map(|one| one.definition.clone()).collect();
        let calls = plan.tools.into_iter().map(|one| (one.definition.name, one.call)).collect();
        now.known = Some(Arc::new(Known { tools, calls }));
    }

    fn changed(&self, plan: &Plan) -> String {
        let title: String = plan.title.chars().take(64).collect();
        format!(
            "{} shows another Thing Description than the one that was adopted ({title:?}). Look at the change, and accept it: \
             `althing adopt --accept {}`",
            self.url, self.agent
        )
    }

    fn report(&self, state: &AgentState) {
        let (agent, url) = (&self.agent, self.url.as_str());
        match state {
            AgentState::Suspended { why } => tracing::warn!(agent, url, why, "an adopted Thing is suspended"),
            AgentState::Unreachable { why } => tracing::warn!(agent, url, why, "a Thing does not answer"),
            _ => tracing::info!(agent, url, "a Thing answers"),
        }
    }

    /// Sends a request, and tells what the answer means.
    async fn ask(&self, call: &Call, request: request::Request) -> Result<Value, Fault> {
        let down = |detail: &dyn std::fmt::Display| {
            tracing::warn!(agent = self.agent, url = %self.url, %detail, "a Thing could not be asked");
            Fault::Failed(DOWN.to_owned())
        };
        let wait_s = request.wait_s;
        let limits = Limits { time: wait_s.map_or(ANSWER.time, Duration::from_secs), ..ANSWER };
        let (request, is_sse) = (sent(request).map_err(|why| down(&why))?, call.form.is_sse);
        let events = answer::Events::default();
        let enough = move |body: &[u8]| is_sse && events.first(body).is_some();
        let fetch = self.web.fetch().map_err(|error| down(&error))?;
        // Its origin is that of the owner's address, or one that the owner named; whoever has the name may let it lead elsewhere by
        // now, where it is not followed.
        let asked = fetch.ask(Given::Operator, request, limits, enough).await;
        match (asked, wait_s) {
            (Ok(Reply { status: 200..=299, body, .. }), Some(_)) if is_sse => match answer::first_event(&body) {
                Some(event) => Ok(answer::result(200, "", event.as_bytes())),
                None => Ok(answer::failed("the Thing ended its events")),
            },
            (Ok(reply), _) => Ok(answer::result(reply.status, content_type(&reply), &reply.body)),
            (Err(FetchError::TooLate(_)), Some(seconds)) => {
                Ok(answer::failed(&format!("no event came within {seconds} s")))
            }
            (Err(FetchError::TooLong(most)), _) => {
                Ok(answer::failed(&format!("its answer has more than {most} bytes")))
            }
            (Err(error), _) => Err(down(&error)),
        }
    }
}

/// The request of the guarded fetch.
fn sent(request: request::Request) -> Result<Request, String> {
    let method = Method::from_bytes(request.method.as_bytes()).map_err(|error| error.to_string())?;
    let mut headers = HeaderMap::new();
    for (all, is_secret) in [(request.headers, false), (request.secret, true)] {
        for (name, value) in all {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            // The error quotes nothing: the value may be the secret.
            let mut value = HeaderValue::from_str(&value).map_err(|_| format!("{name} holds what no header may"))?;
            value.set_sensitive(is_secret);
            headers.insert(name, value);
        }
    }
    Ok(Request { method, url: request.url, headers, body: request.body })
}

async fn watch(thing: Arc<Thing>) {
    let mut pause = RETRY.0;
    let is_there = !matches!(thing.now().state, AgentState::Unreachable { .. });
    sleep(if is_there { CHECK } else { pause }).await;
    loop {
        let is_there = thing.look().await;
        sleep(if is_there { CHECK } else { pause }).await;
        pause = if is_there { RETRY.0 } else { (pause * 2).min(RETRY.1) };
    }
}
