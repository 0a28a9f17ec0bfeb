//! The official A2A client for Rust against an agent: `althing-e2e-client BASE BINDING…`. The agent says words at the pace
//! that its first word names. It has the same conversation over each binding; any surprise ends it with a panic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a::error_code::{TASK_NOT_CANCELABLE, TASK_NOT_FOUND, UNSUPPORTED_OPERATION};
use a2a::{
    A2AError, AgentCard, CancelTaskRequest, GetExtendedAgentCardRequest, GetTaskRequest, ListTasksRequest, Message,
    Part, Role, SendMessageRequest, SendMessageResponse, StreamResponse, SubscribeToTaskRequest, Task, TaskState,
};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::{A2AClientFactory, BoxStream, Transport};
use a2a_grpc::GrpcTransportFactory;
use futures::StreamExt as _;

type Client = a2a_client::A2AClient<Box<dyn Transport>>;
type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

/// No conversation takes longer.
const PATIENCE: Duration = Duration::from_secs(30);

fn says(text: &str) -> SendMessageRequest {
    let message = Message::new(Role::User, vec![Part::text(text)]);
    SendMessageRequest { message, configuration: None, metadata: None, tenant: None }
}

fn get(id: &str) -> GetTaskRequest {
    GetTaskRequest { id: id.to_owned(), history_length: None, tenant: None }
}

fn cancel(id: &str) -> CancelTaskRequest {
    CancelTaskRequest { id: id.to_owned(), metadata: None, tenant: None }
}

fn subscribe(id: &str) -> SubscribeToTaskRequest {
    SubscribeToTaskRequest { id: id.to_owned(), tenant: None }
}

fn list() -> ListTasksRequest {
    ListTasksRequest {
        context_id: None,
        status: None,
        page_size: None,
        page_token: None,
        history_length: None,
        status_timestamp_after: None,
        include_artifacts: None,
        tenant: None,
    }
}

fn words(parts: &[Part]) -> String {
    parts.iter().filter_map(Part::as_text).collect()
}

fn said(task: &Task) -> String {
    task.artifacts.iter().flatten().map(|artifact| words(&artifact.parts)).collect()
}

/// The state that an event tells.
fn state(event: &StreamResponse) -> Option<&TaskState> {
    match event {
        StreamResponse::Task(task) => Some(&task.status.state),
        StreamResponse::StatusUpdate(update) => Some(&update.status.state),
        _ => None,
    }
}

fn code<T: std::fmt::Debug>(outcome: Result<T, A2AError>) -> i32 {
    outcome.expect_err("it is refused").code
}

async fn send_and_get(client: &Client) -> Task {
    let answered = client.send_message(&says("0.01 one two three")).await.expect("an answer");
    let SendMessageResponse::Task(done) = answered else { panic!("{answered:?}") };
    assert_eq!((&done.status.state, said(&done).as_str()), (&TaskState::Completed, "one two three "));
    assert_eq!(words(&done.status.message.as_ref().expect("a message").parts), "3 words");
    let kept = client.get_task(&get(&done.id)).await.expect("the task");
    assert_eq!((&kept.status.state, said(&kept)), (&TaskState::Completed, said(&done)));
    assert_eq!(code(client.get_task(&get("no-such-task")).await), TASK_NOT_FOUND);
    let mut more = says("0 more");
    more.message.task_id = Some(done.id.clone());
    assert_eq!(code(client.send_message(&more).await), UNSUPPORTED_OPERATION);
    done
}

async fn stream(client: &Client) {
    let mut events = client.send_streaming_message(&says("0.1 a b c d")).await.expect("a stream");
    let (mut all, mut times) = (Vec::new(), Vec::new());
    while let Some(event) = events.next().await {
        times.push(Instant::now());
        all.push(event.expect("an event"));
    }
    assert!(matches!(all.first(), Some(StreamResponse::Task(_))), "{all:?}");
    let pieces = all.iter().filter_map(|event| match event {
        StreamResponse::ArtifactUpdate(piece) => Some((words(&piece.artifact.parts), piece.append.unwrap_or_default())),
        _ => None,
    });
    let (text, appended): (Vec<String>, Vec<bool>) = pieces.unzip();
    assert_eq!((text.concat().as_str(), &appended[..]), ("a b c d ", &[false, true, true, true][..]));
    assert_eq!(state(all.last().expect("events")), Some(&TaskState::Completed));
    assert!(times[times.len() - 1] - times[0] > Duration::from_millis(200), "nothing streamed: {times:?}");
}

async fn listed(client: &Client, done: &Task) {
    let of_context = ListTasksRequest { context_id: Some(done.context_id.clone()), ..list() };
    let of_context = client.list_tasks(&of_context).await.expect("a list");
    assert_eq!(of_context.tasks.iter().map(|task| &task.id).collect::<Vec<_>>(), [&done.id]);
    let first = ListTasksRequest { page_size: Some(1), status: Some(TaskState::Completed), ..list() };
    let page = client.list_tasks(&first).await.expect("a page");
    assert!(page.tasks.len() == 1 && page.total_size >= 2 && !page.next_page_token.is_empty(), "{page:?}");
    let next = ListTasksRequest { page_size: Some(100), page_token: Some(page.next_page_token), ..first };
    let rest = client.list_tasks(&next).await.expect("a page");
    assert_eq!(rest.tasks.len(), usize::try_from(page.total_size - 1).expect("a number"));
}

async fn rest(events: &mut Events) -> Vec<StreamResponse> {
    events.map(|event| event.expect("an event")).collect().await
}

/// A second stream of a task tells the same as the first, and both end when it is cancelled.
async fn subscribe_and_cancel(client: &Client, done: &Task) {
    let request = says(&format!("0.1 {}", "w ".repeat(600)));
    let mut events = client.send_streaming_message(&request).await.expect("a stream");
    let first = events.next().await.expect("an event").expect("an event");
    let StreamResponse::Task(task) = first else { panic!("{first:?}") };
    let mut second = client.subscribe_to_task(&subscribe(&task.id)).await.expect("a stream");
    let begun = second.next().await.expect("an event").expect("an event");
    assert!(matches!(&begun, StreamResponse::Task(begun) if begun.id == task.id), "{begun:?}");
    let mut pieces = 0;
    while pieces < 2 {
        let event = events.next().await.expect("an event").expect("an event");
        pieces += usize::from(matches!(event, StreamResponse::ArtifactUpdate(_)));
    }
    let canceled = client.cancel_task(&cancel(&task.id)).await.expect("the task");
    assert_eq!(canceled.status.state, TaskState::Canceled);
    let (first, second) = (rest(&mut events).await, rest(&mut second).await);
    assert_eq!(first.last().and_then(state), Some(&TaskState::Canceled));
    assert!(second.ends_with(&first), "both streams tell the same, in the same order: {first:?} {second:?}");
    assert_eq!(code(client.cancel_task(&cancel(&done.id)).await), TASK_NOT_CANCELABLE);
    for (id, expected) in [(done.id.as_str(), UNSUPPORTED_OPERATION), ("no-such-task", TASK_NOT_FOUND)] {
        let refused = match client.subscribe_to_task(&subscribe(id)).await {
            Ok(mut events) => events.next().await.expect("an error").map(drop),
            Err(error) => Err(error),
        };
        assert_eq!(code(refused), expected, "{id}");
    }
}

async fn conversation(card: &AgentCard, binding: &str) {
    let factory = A2AClientFactory::builder()
        .register(Arc::new(GrpcTransportFactory::new()))
        .preferred_bindings(vec![binding.to_owned()])
        .build();
    let (client, chosen) = factory.create_from_card_with_interface(card).await.expect("a client");
    assert_eq!(chosen.protocol_binding, binding);
    let done = send_and_get(&client).await;
    stream(&client).await;
    listed(&client, &done).await;
    subscribe_and_cancel(&client, &done).await;
    let extended = client.get_extended_agent_card(&GetExtendedAgentCardRequest { tenant: None }).await;
    assert_eq!(extended.expect("a card").skills[0].id, "words.count");
    println!("{binding}: as it must be");
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let base = words.next().expect("BASE BINDING…");
    let bindings: Vec<String> = words.collect();
    assert!(!bindings.is_empty(), "BASE BINDING…");
    let card = AgentCardResolver::new(None).resolve(&base).await.expect("its card");
    assert!(card.capabilities.streaming == Some(true) && card.skills[0].id == "words.count", "{card:?}");
    for binding in bindings {
        tokio::time::timeout(PATIENCE, conversation(&card, &binding)).await.expect("it takes too long");
    }
    println!("RUST OK");
}
