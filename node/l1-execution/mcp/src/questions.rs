//! What servers ask their client's user while a call runs (elicitation). A question goes to whoever made the call. Nobody answers
//! for a user: where nobody can be asked, the server is told that the question was cancelled, never that somebody declined.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, FormElicitationCapability, ProtocolVersion, RequestId,
};
use rmcp::service::{InboundStreamOrigin, RequestContext, RoleClient};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

/// Questions of one call that wait.
const QUESTIONS_MAX: usize = 8;
/// The name of the question in a result that asks for input.
const NAME: &str = "elicitation";

/// The calls that run on a connection, by the ids of their requests.
#[derive(Debug, Default)]
pub struct Questions {
    calls: Mutex<BTreeMap<String, Option<mpsc::Sender<Question>>>>,
    /// Held while a request is sent: its id is known only then, and the server may ask at once.
    sending: tokio::sync::Mutex<()>,
}

/// A call that may be asked, until this is dropped.
#[derive(Debug)]
pub struct Place {
    questions: Arc<Questions>,
    id: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.questions.calls().remove(&self.id);
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
        let request = json!({ "method": "elicitation/create", "params": self.params });
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

impl Questions {
    /// Sends the request of a call whose caller can be asked (`may_ask`), or cannot; gives what `send` gives, and where the
    /// questions arrive.
    ///
    /// # Errors
    /// Those of `send`, which gives the request's id too.
    pub async fn during<T, E>(
        self: &Arc<Questions>,
        may_ask: bool,
        send: impl Future<Output = Result<(RequestId, T), E>>,
    ) -> Result<(T, Place, mpsc::Receiver<Question>), E> {
        let (sender, receiver) = mpsc::channel(QUESTIONS_MAX);
        let _sending = self.sending.lock().await;
        let (id, sent) = send.await?;
        let id = id.to_string();
        self.calls().insert(id.clone(), may_ask.then_some(sender));
        Ok((sent, Place { questions: self.clone(), id }, receiver))
    }

    /// Asks whoever made the call to which a question belongs: the one on whose stream it came, else the only one that runs.
    async fn ask(&self, params: ElicitRequestParams, origin: Option<&InboundStreamOrigin>) -> ElicitResult {
        let cancelled = || ElicitResult::new(ElicitationAction::Cancel);
        let asked = {
            let _sending = self.sending.lock().await;
            let calls = self.calls();
            match origin {
                Some(InboundStreamOrigin::OutboundRequest(id)) => calls.get(&id.to_string()).cloned().flatten(),
                _ if calls.len() == 1 => calls.values().next().cloned().flatten(),
                _ => None,
            }
        };
        let (answer, answered) = oneshot::channel();
        let question = Question { params: serde_json::to_value(&params).unwrap_or_default(), answer };
        let Some(asked) = asked else {
            tracing::info!("a server of tools asks for input where nobody can be asked: the question is cancelled");
            return cancelled();
        };
        if asked.send(question).await.is_err() {
            return cancelled();
        }
        answered.await.unwrap_or_else(|_| cancelled())
    }

    fn calls(&self) -> MutexGuard<'_, BTreeMap<String, Option<mpsc::Sender<Question>>>> {
        self.calls.lock().expect("no holder of the calls panics")
    }
}

/// What a client can do whose user can be asked, or cannot.
pub fn capabilities(may_ask: bool) -> ClientCapabilities {
    let mut all = ClientCapabilities::default();
    if may_ask {
        all.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::default()));
    }
    all
}

/// What answers a server's requests.
pub struct Handler {
    config: ClientConfig,
    questions: Arc<Questions>,
}

impl Handler {
    pub fn new(questions: Arc<Questions>) -> Handler {
        let mut config = ClientConfig::default();
        "althing".clone_into(&mut config.client_info.name);
        env!("CARGO_PKG_VERSION").clone_into(&mut config.client_info.version);
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        // Of a session: it has calls with somebody to ask, and others.
        config.capabilities = capabilities(true);
        Handler { config, questions }
    }
}

impl ClientHandler for Handler {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if !matches!(request, ElicitRequestParams::FormElicitationParams { .. }) {
            return Err(ErrorData::invalid_params("this client asks by forms only, as it declared", None));
        }
        let origin = context.extensions.get::<InboundStreamOrigin>();
        tokio::select! {
            answered = self.questions.ask(request, origin) => Ok(answered),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> ElicitRequestParams {
        let params =
            json!({ "mode": "form", "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } });
        serde_json::from_value(params).expect("a question")
    }

    async fn call(questions: &Arc<Questions>, id: i64, may_ask: bool) -> (Place, mpsc::Receiver<Question>) {
        let sent = async { Ok::<_, ()>((RequestId::Number(id), ())) };
        let ((), place, asked) = questions.during(may_ask, sent).await.expect("it is sent");
        (place, asked)
    }

    fn of(id: i64) -> InboundStreamOrigin {
        InboundStreamOrigin::OutboundRequest(RequestId::Number(id))
    }

    /// Answers what arrives there.
    async fn answering(mut asked: mpsc::Receiver<Question>, answer: Value) {
        while let Some(question) = asked.recv().await {
            question.answer(Map::from_iter([(NAME.to_owned(), answer.clone())]).into());
        }
    }

    #[tokio::test]
    async fn a_question_goes_to_whoever_made_the_call() {
        let questions = Arc::new(Questions::default());
        let accept = json!({ "action": "accept", "content": { "name": "Ada" } });
        let (one, asked_one) = call(&questions, 1, true).await;
        tokio::spawn(answering(asked_one, accept.clone()));
        let only = questions.ask(asked(), None).await;
        assert_eq!(serde_json::to_value(&only).expect("JSON"), accept);

        // Of several only the one on whose stream it came: what is a user's is shown to no other.
        let (two, asked_two) = call(&questions, 2, true).await;
        tokio::spawn(answering(asked_two, json!({ "action": "decline" })));
        assert_eq!(questions.ask(asked(), Some(&of(2))).await.action, ElicitationAction::Decline);
        assert_eq!(questions.ask(asked(), Some(&of(1))).await.action, ElicitationAction::Accept);
        assert_eq!(questions.ask(asked(), None).await.action, ElicitationAction::Cancel);
        assert_eq!(questions.ask(asked(), Some(&of(3))).await.action, ElicitationAction::Cancel);
        drop(two);
        assert_eq!(questions.ask(asked(), None).await.action, ElicitationAction::Accept);
        drop(one);
        assert_eq!(questions.ask(asked(), None).await.action, ElicitationAction::Cancel);
    }

    #[tokio::test]
    async fn nobody_declines_for_a_user_who_cannot_be_asked_or_says_nothing() {
        let questions = Arc::new(Questions::default());
        let (_place, none) = call(&questions, 1, false).await;
        assert_eq!(questions.ask(asked(), Some(&of(1))).await.action, ElicitationAction::Cancel);
        drop(none);
        for nothing in [json!({}), json!({ "action": "maybe" }), json!(null)] {
            let (_place, asked_here) = call(&questions, 2, true).await;
            tokio::spawn(answering(asked_here, nothing.clone()));
            assert_eq!(questions.ask(asked(), Some(&of(2))).await.action, ElicitationAction::Cancel, "{nothing}");
        }
    }

    #[test]
    fn a_question_is_told_as_a_result_that_asks_for_input() {
        let (answer, _answered) = oneshot::channel();
        let question = Question { params: serde_json::to_value(asked()).expect("JSON"), answer };
        let required = question.required("state");
        let read: rmcp::model::InputRequiredResult = serde_json::from_value(required.clone()).expect("MCP");
        assert_eq!(read.request_state.as_deref(), Some("state"));
        assert_eq!(required["inputRequests"][NAME]["params"]["message"], "Name?");
    }
}
