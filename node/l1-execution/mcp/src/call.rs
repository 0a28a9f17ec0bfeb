//! One call of a tool on a server: how far it is, what its server asks meanwhile, and its answer, however that comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use althing_execution::relayed::{Progress, alive};
use althing_execution::tools::Fault;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientRequest, CustomRequest, ErrorCode,
    GetTaskParams, GetTaskRequest, RequestId, RequestMetaObject, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep};

use crate::exchange::Exchange;
use crate::handler::capabilities;
use crate::machine::answer::{self, Answer, McpTask};
use crate::machine::line::{TOO_LONG, is_own};
use crate::news::Ear;
use crate::questions::{Place, QUESTIONS_MAX, Question, Questions};
use crate::requests::why;

/// How long a server is to keep the result of a task, milliseconds: as long as a call may take.
const TASK_TTL_MS: u64 = 3_600_000;

/// The longest pause between questions about a task that led to nothing, and how long these may be asked: a call without a sign
/// of life has 120 s.
const MISSED_PAUSE_MAX: Duration = Duration::from_secs(10);
const MISSED_MAX: Duration = Duration::from_secs(110);

/// What happened to a call.
pub enum Step {
    /// Its answer.
    Done(Result<Value, Fault>),
    /// Its server asks its caller's user.
    Asks(Question),
}

/// A call that runs. Dropping it gives it up at the server too.
pub struct Call {
    answer: BoxFuture<'static, Result<Value, Fault>>,
    news: Ear,
    questions: mpsc::Receiver<Question>,
    turn: Option<OwnedSemaphorePermit>,
    _running: RunningCall,
}

/// What a call is made on, and for whom.
pub struct Line<'a> {
    pub peer: &'a Peer<RoleClient>,
    pub exchange: &'a Exchange,
    pub whose: &'a Arc<[String]>,
    pub running: RunningCall,
    /// Where its caller can be asked.
    pub turn: Option<OwnedSemaphorePermit>,
}

impl Call {
    /// Sends the call. `is_relayed`: whether an error of the server and what it asks for are results.
    pub async fn begin(line: Line<'_>, params: CallToolRequestParams, is_relayed: bool) -> Result<Call, Fault> {
        let Line { peer, exchange, whose, running, turn } = line;
        let (peer, may_ask) = (peer.clone(), turn.is_some());
        let has_session = peer.peer_info().is_none_or(|info| info.protocol_version.has_initialize());
        let mut options = PeerRequestOptions::no_options();
        if !has_session {
            // There each request says what its client can do.
            let mut meta = RequestMetaObject::new();
            meta.set_client_capabilities(capabilities(may_ask));
            options = options.with_meta(meta);
        }
        let as_task = has_session.then(|| serde_json::to_value(&params).ok()).flatten();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let news = exchange.news.listen(whose);
        let (asker, questions) = mpsc::channel(QUESTIONS_MAX);
        let asker = may_ask.then_some(asker);
        let sent = sent(&exchange.questions, asker.clone(), &peer, request, options).await;
        let (sent, mut place) = sent.map_err(failed)?;
        news.settle(&sent.progress_token);
        let mut unanswered = Unanswered { peer: peer.clone(), what: Some(GivenUp::Request(sent.id.clone())) };
        let all = exchange.questions.clone();
        let answer = Box::pin(async move {
            let answered = sent.await_response().await;
            unanswered.what = None;
            let answered = match answered {
                // Nothing was done: such a tool is only called as a task.
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => match as_task {
                    Some(params) => called_as_task(&peer, params, error, (&all, asker, &mut place)).await,
                    None => Err(ServiceError::McpError(error)),
                },
                answered => answered,
            };
            read(answered, is_relayed, unanswered, &place).await
        });
        Ok(Call { answer, news, questions, turn, _running: running })
    }

    /// Whether it keeps others from their turns.
    pub fn has_turn_of(&self, questions: &Questions) -> bool {
        self.turn.as_ref().is_some_and(|turn| questions.gave(turn))
    }

    /// The next that happens; progress is told until then, all of it before the answer.
    pub async fn next(&mut self, progress: &Progress) -> Step {
        loop {
            tokio::select! {
                biased;
                Some(told) = self.news.next() => {
                    alive();
                    progress.tell(told).await;
                }
                Some(question) = self.questions.recv() => return Step::Asks(question),
                answered = &mut self.answer => return Step::Done(answered),
            }
        }
    }
}

/// Why a request failed, in words: those of the server, which are told as such, or those of the node.
pub fn failed(error: ServiceError) -> Fault {
    let said = match error {
        ServiceError::McpError(error) if is_own(error.code) => error.message.into_owned(),
        ServiceError::McpError(error) => format!("it answered with the error {}: {}", error.code.0, error.message),
        ServiceError::TransportClosed => "its connection was closed before it answered".to_owned(),
        ServiceError::TransportSend(error) => format!("the request did not reach it: {}", why(error.error.as_ref())),
        ServiceError::Cancelled { .. } => "it gave the request up".to_owned(),
        _ => "it answered with something else than what it was asked for".to_owned(),
    };
    Fault::Failed(said)
}

/// What a request is answered with, as it stands.
pub fn written(result: &ServerResult) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

/// Sends a request that calls a tool, of which is asked at `asker`.
async fn sent(
    questions: &Arc<Questions>,
    asker: Option<mpsc::Sender<Question>>,
    peer: &Peer<RoleClient>,
    request: ClientRequest,
    options: PeerRequestOptions,
) -> Result<(RequestHandle<RoleClient>, Place), ServiceError> {
    let send = async {
        let sent = peer.send_request_with_option(request, options).await?;
        Ok::<_, ServiceError>((sent.id.clone(), sent))
    };
    questions.during(asker, send).await
}

/// Calls a tool again, as a task; its place is that of the task's request then.
async fn called_as_task(
    peer: &Peer<RoleClient>,
    mut params: Value,
    refused: rmcp::ErrorData,
    (questions, asker, place): (&Arc<Questions>, Option<mpsc::Sender<Question>>, &mut Place),
) -> Result<ServerResult, ServiceError> {
    if let Some(params) = params.as_object_mut() {
        // The library writes its own.
        params.remove("_meta");
        params.insert("task".to_owned(), json!({ "ttl": TASK_TTL_MS }));
    }
    let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)));
    let (sent, at) = sent(questions, asker, peer, request, PeerRequestOptions::no_options()).await?;
    *place = at;
    match sent.await_response().await {
        // There is no such tool, or nothing of the kind.
        Err(ServiceError::McpError(_)) => Err(ServiceError::McpError(refused)),
        answered => answered,
    }
}

/// Reads the answer to a call; follows a task.
async fn read(
    answered: Result<ServerResult, ServiceError>,
    is_relayed: bool,
    mut unanswered: Unanswered,
    place: &Place,
) -> Result<Value, Fault> {
    let answered = match answered {
        Ok(answered) => answered,
        // The caller gets it as it stands.
        Err(ServiceError::McpError(error)) if is_relayed && !is_own(error.code) => {
            return Ok(json!({ "error": error }));
        }
        Err(error) => return Err(failed(error)),
    };
    match answer::read(&written(&answered)) {
        Answer::Result(result) => Ok(result),
        Answer::Asks(asked) if is_relayed => Ok(asked),
        Answer::Asks(_) => Err(Fault::Failed("it asks for input, and nobody can be asked here".to_owned())),
        Answer::Task(task) => {
            let peer = unanswered.peer.clone();
            unanswered.what = Some(GivenUp::Task(task.id.clone()));
            let done = follow(&peer, &task, place).await;
            // What was not followed to its end goes on there.
            unanswered.what = None;
            done
        }
        Answer::Unreadable(why) => Err(Fault::Failed(why.to_owned())),
    }
}

/// Why a question about a task led to nothing.
enum Miss {
    /// The same question may be answered later.
    Now(String),
    /// It never will be.
    Ever(String),
}

fn miss(error: ServiceError) -> Miss {
    let is_final = match &error {
        ServiceError::McpError(error) => error.code == TOO_LONG || answer::is_final(error.code.0),
        ServiceError::TransportClosed => true,
        _ => false,
    };
    let said = failed(error).to_string();
    if is_final { Miss::Ever(said) } else { Miss::Now(said) }
}

/// What a task came to.
enum Look {
    Works(Duration),
    Done(Value),
    Failed(String),
}

/// Asks once how a task goes, and for its result if it is done.
async fn look(peer: &Peer<RoleClient>, task: &McpTask, place: &Place) -> Result<Look, Miss> {
    let ever = |why: &str| Miss::Ever(why.to_owned());
    let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(task.id.clone())));
    let told = peer.send_request(request).await.map_err(miss)?;
    let told = answer::progress(&written(&told)).map_err(|why| Miss::Now(why.to_owned()))?;
    if matches!(told, answer::Progress::Done(_) | answer::Progress::Ready | answer::Progress::Failed(_)) {
        place.task_ended();
    }
    match told {
        answer::Progress::Works(next) => Ok(Look::Works(next)),
        answer::Progress::Done(result) => result_of(&result).map(Look::Done).map_err(ever),
        answer::Progress::Ready => {
            let params = json!({ "taskId": task.id });
            let request = ClientRequest::CustomRequest(CustomRequest::new("tasks/result", Some(params)));
            let result = peer.send_request(request).await.map_err(miss)?;
            result_of(&written(&result)).map(Look::Done).map_err(ever)
        }
        answer::Progress::Failed(why) => Ok(Look::Failed(why)),
        answer::Progress::Asks => Err(ever("that asks for input, which is not passed on for tasks")),
    }
}

/// Asks how a task goes, as often as its server wants, until it is over. Each answer is a sign of life. A question that fails is
/// asked again with longer pauses.
async fn follow(peer: &Peer<RoleClient>, task: &McpTask, place: &Place) -> Result<Value, Fault> {
    let lost =
        |why: &str| Fault::Failed(format!("it answers by the task {:?}, and {why}; the work goes on there", task.id));
    let (mut pause, mut heard) = (task.poll, Instant::now());
    loop {
        sleep(pause).await;
        match look(peer, task, place).await {
            Ok(Look::Works(next)) => {
                alive();
                (pause, heard) = (next, Instant::now());
            }
            Ok(Look::Done(result)) => return Ok(result),
            Ok(Look::Failed(why)) => return Err(Fault::Failed(why)),
            Err(Miss::Ever(why)) => return Err(lost(&why)),
            Err(Miss::Now(why)) => {
                pause = (pause * 2).min(MISSED_PAUSE_MAX);
                if heard.elapsed() + pause >= MISSED_MAX {
                    return Err(lost(&format!("tells nothing of it any more: {why}")));
                }
            }
        }
    }
}

fn result_of(result: &Value) -> Result<Value, &'static str> {
    match answer::read(result) {
        Answer::Result(result) => Ok(result),
        Answer::Unreadable(why) => Err(why),
        Answer::Asks(_) | Answer::Task(_) => Err("its result is none of a tool"),
    }
}

/// What a server works on for a call.
enum GivenUp {
    Request(RequestId),
    Task(String),
}

/// Work that is cancelled when its caller gives it up.
struct Unanswered {
    peer: Peer<RoleClient>,
    what: Option<GivenUp>,
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        let (Some(what), Ok(runtime)) = (self.what.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        runtime.spawn(async move {
            // The connection may be gone.
            match what {
                GivenUp::Request(id) => {
                    let why = Some("its caller gave it up".to_owned());
                    let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), why)).await;
                }
                GivenUp::Task(id) => {
                    let params = Some(json!({ "taskId": id }));
                    let request = ClientRequest::CustomRequest(CustomRequest::new("tasks/cancel", params));
                    let _ = peer.send_request(request).await;
                }
            }
        });
    }
}

/// The calls that run on a server.
#[derive(Debug, Default)]
pub struct Running {
    count: AtomicUsize,
    /// When the last one ended.
    ended: std::sync::Mutex<Option<Instant>>,
}

/// A call among them, until this is dropped.
#[derive(Debug)]
pub struct RunningCall(Arc<Running>);

impl Running {
    /// A call begins.
    pub fn begin(self: &Arc<Running>) -> RunningCall {
        self.count.fetch_add(1, Ordering::SeqCst);
        RunningCall(self.clone())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether one runs, or ran a moment ago: a server that does one thing at a time comes to the next only then.
    pub fn is_busy(&self, moment: Duration) -> bool {
        let ended = *self.ended.lock().expect("no holder of a time panics");
        self.count() > 0 || ended.is_some_and(|ended| ended.elapsed() < moment)
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        *self.0.ended.lock().expect("no holder of a time panics") = Some(Instant::now());
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorData;

    use super::*;
    use crate::machine::line::NO_ANSWER;

    #[test]
    fn what_the_node_says_of_an_answer_is_not_told_as_the_words_of_the_server() {
        for (code, told) in
            [(ErrorCode::INTERNAL_ERROR, "it answered with the error -32603: no"), (NO_ANSWER, "no"), (TOO_LONG, "no")]
        {
            let error = ServiceError::McpError(ErrorData::new(code, "no", None));
            assert_eq!(failed(error), Fault::Failed(told.to_owned()));
        }
    }
}
