//! To whom questions go, and what a server is told whose question goes to nobody.

use rmcp::model::{CallToolRequest, CallToolRequestParams, ClientRequest};

use crate::machine::question;

use super::*;

fn asked() -> Value {
    json!({ "mode": "form", "message": "Name?", "requestedSchema": { "type": "object", "properties": {} } })
}

/// A question as it is received, on the stream of a request or on none.
fn message(stream: Option<i64>) -> RxJsonRpcMessage<RoleClient> {
    let mut message = json!({ "jsonrpc": "2.0", "id": 9, "method": ELICITATION, "params": asked() });
    question::kept(&mut message);
    let mut message: RxJsonRpcMessage<RoleClient> = serde_json::from_value(message).expect("a message");
    if let (JsonRpcMessage::Request(request), Some(id)) = (&mut message, stream) {
        request.request.extensions_mut().insert(InboundStreamOrigin::OutboundRequest(RequestId::Number(id)));
    }
    message
}

fn new() -> Arc<Questions> {
    Arc::new(Questions::new(Arc::default()))
}

async fn call(questions: &Arc<Questions>, id: i64, may_ask: bool) -> (Place, mpsc::Receiver<Question>) {
    let (caller, asked) = mpsc::channel(QUESTIONS_MAX);
    let sent = async {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(CallToolRequestParams::new("work")));
        questions.sends(&JsonRpcMessage::request(request, RequestId::Number(id)));
        Ok::<_, ()>((RequestId::Number(id), ()))
    };
    let ((), place) = questions.during(may_ask.then_some(caller), sent).await.expect("it is sent");
    (place, asked)
}

/// The server answers a call.
fn answer(questions: &Questions, id: i64, result: Value) {
    let answer = ServerResult::CustomResult(CustomResult(result));
    questions.received(&mut JsonRpcMessage::response(answer, RequestId::Number(id)));
}

/// What the server is told that asks.
async fn told(questions: &Questions, stream: Option<i64>) -> ElicitationAction {
    let mut message = message(stream);
    questions.received(&mut message);
    let JsonRpcMessage::Request(request) = message else { panic!("it is no request") };
    match request.request.extensions().get::<Asker>() {
        Some(asker) => questions.ask(asked(), asker).await.action,
        None => ElicitationAction::Cancel,
    }
}

/// Answers what arrives there.
async fn answering(mut asked: mpsc::Receiver<Question>, answer: Value) {
    while let Some(question) = asked.recv().await {
        question.answer(Map::from_iter([(NAME.to_owned(), answer.clone())]).into());
    }
}

#[tokio::test]
async fn a_question_goes_to_whoever_made_the_call() {
    let questions = new();
    let accept = json!({ "action": "accept", "content": { "name": "Ada" } });
    let (one, asked_one) = call(&questions, 1, true).await;
    tokio::spawn(answering(asked_one, accept));
    assert_eq!(told(&questions, None).await, ElicitationAction::Accept);

    // Of several only the one on whose stream it came: what is a user's is shown to no other.
    let (two, asked_two) = call(&questions, 2, true).await;
    tokio::spawn(answering(asked_two, json!({ "action": "decline" })));
    assert_eq!(told(&questions, Some(2)).await, ElicitationAction::Decline);
    assert_eq!(told(&questions, Some(1)).await, ElicitationAction::Accept);
    assert_eq!(told(&questions, None).await, ElicitationAction::Cancel);
    assert_eq!(told(&questions, Some(3)).await, ElicitationAction::Cancel);
    // Who hung up may be meant until the server answered that call.
    drop(two);
    assert_eq!(told(&questions, None).await, ElicitationAction::Cancel);
    answer(&questions, 2, json!({ "content": [] }));
    assert_eq!(told(&questions, None).await, ElicitationAction::Accept);
    drop(one);
    assert_eq!(told(&questions, None).await, ElicitationAction::Cancel);
    assert_eq!(told(&questions, Some(1)).await, ElicitationAction::Cancel);
}

#[tokio::test]
async fn nobody_declines_for_a_user_who_cannot_be_asked_or_says_nothing() {
    let questions = new();
    let (_place, none) = call(&questions, 1, false).await;
    assert_eq!(told(&questions, Some(1)).await, ElicitationAction::Cancel);
    drop(none);
    for (id, nothing) in (2..).zip([json!({}), json!({ "action": "maybe" }), json!(null)]) {
        let (_place, asked_here) = call(&questions, id, true).await;
        tokio::spawn(answering(asked_here, nothing.clone()));
        assert_eq!(told(&questions, Some(id)).await, ElicitationAction::Cancel, "{nothing}");
    }
}

#[tokio::test]
async fn what_a_task_asks_goes_to_whoever_waits_for_the_task() {
    let questions = new();
    let (one, asked_one) = call(&questions, 1, true).await;
    tokio::spawn(answering(asked_one, json!({ "action": "decline" })));
    let (_two, asked_two) = call(&questions, 2, true).await;
    tokio::spawn(answering(asked_two, json!({ "action": "accept" })));
    answer(&questions, 1, json!({ "task": { "taskId": "t", "status": "working" } }));
    assert_eq!(told(&questions, None).await, ElicitationAction::Cancel, "the task goes on, and may ask");
    let mut named = message(None);
    if let JsonRpcMessage::Request(request) = &mut named {
        request.request.get_meta_mut().insert(TASK.to_owned(), json!({ "taskId": "t" }));
    }
    questions.received(&mut named);
    let JsonRpcMessage::Request(named) = named else { panic!("it is no request") };
    assert_eq!(named.request.extensions().get::<Asker>(), Some(&Asker("1".to_owned())));
    one.task_ended();
    assert_eq!(told(&questions, None).await, ElicitationAction::Accept);
}

#[tokio::test(start_paused = true)]
async fn calls_that_may_be_asked_run_one_at_a_time_once_the_server_asked() {
    let questions = new();
    let together = (questions.turn().await.is_ok(), questions.turn().await.is_ok());
    assert_eq!(together, (true, true), "the server asked nothing yet");
    let before = questions.turn().await.expect("it begins");
    assert_eq!(told(&questions, None).await, ElicitationAction::Cancel, "of no call");
    let (next, ()) = tokio::join!(questions.turn(), async { drop(before) });
    let next = next.expect("it begins when the one before is over");
    assert!(matches!(questions.turn().await, Err(Fault::Busy(why)) if why.contains("one caller at a time")));
    drop(next);
    assert!(questions.turn().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_and_owes_an_answer_for_long_is_stuck() {
    let questions = new();
    let (place, _asked) = call(&questions, 1, true).await;
    drop(place);
    tokio::time::sleep(OWED).await;
    assert!(!questions.is_stuck(), "it asked nothing");
    assert_eq!(told(&questions, None).await, ElicitationAction::Cancel);
    assert!(questions.is_stuck());
    answer(&questions, 1, json!({ "content": [] }));
    assert!(!questions.is_stuck());
}

#[tokio::test]
async fn questions_are_bounded() {
    let questions = new();
    let (_place, asked_here) = call(&questions, 1, true).await;
    let mut long = message(Some(1));
    questions.received(&mut long);
    let JsonRpcMessage::Request(long) = long else { panic!("it is no request") };
    let asker = long.request.extensions().get::<Asker>().expect("it is known").clone();
    let mut params = asked();
    params["message"] = json!("a".repeat(QUESTION_BYTES_MAX));
    assert_eq!(questions.ask(params, &asker).await.action, ElicitationAction::Cancel, "it is too long");
    let many = futures::future::join_all((0..=QUESTIONS_MAX).map(|_| questions.ask(asked(), &asker)));
    let answers = async {
        tokio::task::yield_now().await;
        answering(asked_here, json!({ "action": "accept" })).await;
    };
    let told = tokio::select! { told = many => told, () = answers => panic!("the call runs") };
    let accepted = told.iter().filter(|told| told.action == ElicitationAction::Accept).count();
    assert_eq!(accepted, QUESTIONS_MAX);
}

#[test]
fn a_question_is_told_as_a_result_that_asks_for_input() {
    let (answer, _answered) = oneshot::channel();
    let question = Question { params: asked(), answer };
    let required = question.required("state");
    let read: rmcp::model::InputRequiredResult = serde_json::from_value(required.clone()).expect("MCP");
    assert_eq!(read.request_state.as_deref(), Some("state"));
    assert_eq!(required["inputRequests"][NAME]["params"]["message"], "Name?");
}
