//! What servers ask their client's user while a call runs (elicitation). A question goes to whoever made the call, and to nobody
//! who may have made another one. Nobody answers for a user: where nobody can be asked, the server is told that the question was
//! cancelled, never that somebody declined.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use althing_execution::tools::Fault;
use rmcp::model::{
    CustomResult, ElicitResult, ElicitationAction, GetExtensions as _, GetMeta as _, JsonRpcMessage, RequestId,
    ServerRequest, ServerResult,
};
use rmcp::service::{InboundStreamOrigin, RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::{Map, Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::machine::answer;
use crate::machine::origins::{Origins, Source};
use crate::machine::question::{AS_WRITTEN, ELICITATION};

/// Questions of one call that wait.
pub const QUESTIONS_MAX: usize = 8;
/// The name of the question in a result that asks for input.
const NAME: &str = "elicitation";
const QUESTION_BYTES_MAX: usize = 64 << 10;
/// By what a message of a task names it (MCP 2025-11-25).
const TASK: &str = "io.modelcontextprotocol/related-task";
/// Calls at one time whose callers can be asked, as long as their server asked nothing yet.
const AT_ONCE: u32 = 4_096;
/// How long such a call waits for those before it, once its server asks: less than clients wait by default.
const TURN: Duration = Duration::from_secs(50);
/// How long an answer to a call that was given up may be outstanding: as long as a call may be silent.
const OWED: Duration = Duration::from_secs(120);

/// For which request a question is. Never on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker(String);

/// The calls that run on a connection.
#[derive(Debug)]
pub struct Questions {
    calls: Mutex<Calls>,
    /// Held while a request is sent: its id is known only then, and the server may ask at once.
    sending: tokio::sync::Mutex<()>,
    /// Whether the server asks without saying whom.
    asks: Arc<AtomicBool>,
    turns: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Calls {
    origins: Origins,
    /// Where those are asked who wait for the requests of these ids.
    callers: BTreeMap<String, Option<mpsc::Sender<Question>>>,
    /// Since when an answer is outstanding that nobody waits for.
    owed_since: Option<Instant>,
}

/// A request whose caller waits, until this is dropped.
#[derive(Debug)]
pub struct Place {
    questions: Arc<Questions>,
    id: String,
}

impl Place {
    /// The task is over by which the server answered it.
    pub fn task_ended(&self) {
        self.questions.calls().answered(&self.id, None);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.questions.calls().left(&self.id);
    }
}

/// A question to the user of whoever made a call.
#[derive(Debug)]
pub struct Question {
    params: Value,
    answer: oneshot::Sender<ElicitResult>,
}

impl Question {
    /// The result with which its caller is asked, as the version without sessions has it.
    pub fn required(&self, state: &str) -> Value {
        let request = json!({ "method": ELICITATION, "params": self.params });
        json!({ "resultType": "input_required", "inputRequests": { NAME: request }, "requestState": state })
    }

    /// Answers it with what the user said. Anything that is no answer cancels it, as dropping it does.
    pub fn answer(self, responses: Option<Map<String, Value>>) {
        let said = responses.and_then(|mut all| all.remove(NAME));
        if let Some(said) = said.and_then(|said| serde_json::from_value(said).ok()) {
            // The server may be gone.
            let _ = self.answer.send(said);
        }
    }
}

/// What a server is told whose question nobody answers.
pub fn cancelled() -> ElicitResult {
    ElicitResult::new(ElicitationAction::Cancel)
}

impl Calls {
    fn answered(&mut self, id: &str, task: Option<&str>) {
        self.origins.answered(id, task);
        if !self.origins.owes() {
            self.owed_since = None;
        }
    }

    fn left(&mut self, id: &str) {
        self.callers.remove(id);
        self.origins.left(id);
        if self.origins.owes() && self.owed_since.is_none() {
            self.owed_since = Some(Instant::now());
        }
    }
}

impl Questions {
    /// Of a new connection to a server of which is known in `asks` whether it asks without saying whom.
    pub fn new(asks: Arc<AtomicBool>) -> Questions {
        let turns = usize::try_from(AT_ONCE).unwrap_or(Semaphore::MAX_PERMITS);
        Questions {
            calls: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
            asks,
            turns: Arc::new(Semaphore::new(turns)),
        }
    }

    /// Lets a call begin whose caller can be asked, once its questions cannot be mistaken for those of another such call: a server
    /// that asks without saying whom works on one of them at a time. Dropping what is given lets the next begin.
    ///
    /// # Errors
    /// Others take longer than a caller waits.
    pub async fn turn(&self) -> Result<OwnedSemaphorePermit, Fault> {
        let all = if self.asks.load(Ordering::SeqCst) { AT_ONCE } else { 1 };
        let turn = timeout(TURN, self.turns.clone().acquire_many_owned(all)).await;
        turn.ok().and_then(Result::ok).ok_or_else(|| {
            let why = "it asks one caller at a time, and others are before you; call it again later";
            Fault::Busy(why.to_owned())
        })
    }

    /// Whether it let a call begin by that turn.
    pub fn gave(&self, turn: &OwnedSemaphorePermit) -> bool {
        Arc::ptr_eq(turn.semaphore(), &self.turns)
    }

    /// Sends the request of a call, whose `caller` can be asked there, or cannot; gives what `send` gives.
    ///
    /// # Errors
    /// Those of `send`, which gives the request's id too.
    pub async fn during<T, E>(
        self: &Arc<Questions>,
        caller: Option<mpsc::Sender<Question>>,
        send: impl Future<Output = Result<(RequestId, T), E>>,
    ) -> Result<(T, Place), E> {
        let _sending = self.sending.lock().await;
        let (id, sent) = send.await?;
        let id = id.to_string();
        self.calls().callers.insert(id.clone(), caller);
        Ok((sent, Place { questions: self.clone(), id }))
    }

    /// Notes what is sent, before the server can answer it.
    pub fn sends(&self, message: &TxJsonRpcMessage<RoleClient>) {
        if let JsonRpcMessage::Request(request) = message
            && request.request.method() == "tools/call"
        {
            self.calls().origins.sent(&request.id.to_string());
        }
    }

    /// Notes what was received, in the order in which it came, and to whom a question goes: later, others may have called.
    pub fn received(&self, message: &mut RxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Response(response) => {
                let (id, mut calls) = (response.id.to_string(), self.calls());
                if calls.origins.knows(&id) {
                    calls.answered(&id, task(&response.result).as_deref());
                }
            }
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.calls().answered(&id.to_string(), None);
                }
            }
            JsonRpcMessage::Request(request) => {
                // Without its caller it is shown to nobody.
                if matches!(&request.request, ServerRequest::CustomRequest(custom) if custom.method == AS_WRITTEN)
                    && let Some(asker) = self.asker(&request.request)
                {
                    request.request.extensions_mut().insert(asker);
                }
            }
            JsonRpcMessage::Notification(_) => {}
        }
    }

    fn asker(&self, question: &ServerRequest) -> Option<Asker> {
        let stream = match question.extensions().get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.to_string()),
            Some(InboundStreamOrigin::Unassociated) | None => None,
        };
        let task = question.get_meta().get(TASK).map(|task| task["taskId"].as_str().unwrap_or_default().to_owned());
        let calls = self.calls();
        let source = match (&stream, &task) {
            (Some(id), None) => Source::Stream(id),
            (Some(id), Some(_)) if calls.origins.knows(id) => Source::Stream(id),
            (_, Some(task)) => Source::Task(task),
            (None, None) => {
                self.asks.store(true, Ordering::SeqCst);
                Source::Unsaid
            }
        };
        calls.origins.asker(source).map(|id| Asker(id.to_owned()))
    }

    /// Asks whoever waits for a request what these parameters say.
    pub async fn ask(&self, params: Value, asker: &Asker) -> ElicitResult {
        let caller = {
            // The request may be on its way still.
            let _sending = self.sending.lock().await;
            self.calls().callers.get(&asker.0).cloned().flatten()
        };
        let (answer, answered) = oneshot::channel();
        let is_short = params.to_string().len() <= QUESTION_BYTES_MAX;
        let asked = caller.filter(|_| is_short).map(|caller| caller.try_send(Question { params, answer }));
        if !matches!(asked, Some(Ok(()))) {
            tracing::info!("a server of tools asks for input where nobody can be asked: the question is cancelled");
            return cancelled();
        }
        answered.await.unwrap_or_else(|_| cancelled())
    }

    /// Whether nobody is asked here for long: the server owes an answer to a call that was given up, and what it asks may be about
    /// that.
    pub fn is_stuck(&self) -> bool {
        let owed_since = self.calls().owed_since;
        self.asks.load(Ordering::SeqCst) && owed_since.is_some_and(|since| since.elapsed() >= OWED)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().expect("no holder of the calls panics")
    }
}

/// The task with which a call is answered.
fn task(result: &ServerResult) -> Option<String> {
    let begun = match result {
        ServerResult::CallToolResult(_) => None,
        ServerResult::CustomResult(CustomResult(result)) => answer::begun(result),
        result => answer::begun(&serde_json::to_value(result).unwrap_or_default()),
    };
    begun.map(|task| task.id)
}

#[cfg(test)]
mod tests;
