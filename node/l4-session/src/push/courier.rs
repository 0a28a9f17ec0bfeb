//! Delivers to one receiver what waits for it, in order: a later event is not sent before the earlier one was taken.

use std::sync::Arc;
use std::time::Duration;

use a2a::{StreamResponse, TaskState};

use super::book::Next;
use super::port::{Notification, PostError};
use super::{Delivery, NoteRow, PUSH_OUTBOX, Shared, delete_notes};
use crate::machine::task::{self, ANSWER_BYTES_MAX};
use althing_store::{Batch, Durability};

/// The wait after the first failure; each further one waits twice as long, up to the last.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LAST_WAIT: Duration = Duration::from_secs(600);
/// Failures in a row after which one event does not hold back the last state of its task any longer.
const HOLDS_BACK_MAX: u32 = 4;
/// An event that nobody took for this long is given up.
const GIVEN_UP_AFTER_MS: u64 = 24 * 3_600 * 1_000;

/// Sends a courier, unless one is on its way or nobody may be told.
pub(super) fn start(shared: &Arc<Shared>, task: String, config: String) {
    if shared.delivery.get().is_none() || !shared.book().begin(&task, &config) {
        return;
    }
    let (shared, stop) = (shared.clone(), shared.stop.clone());
    // What was not delivered when the node ends is on disk.
    tokio::spawn(async move { stop.run_until_cancelled(run(&shared, &task, &config)).await });
}

async fn run(shared: &Shared, task: &str, config: &str) {
    let Some(delivery) = shared.delivery.get() else { return };
    let mut failures = 0;
    loop {
        if failures >= HOLDS_BACK_MAX {
            catch_up(shared, delivery, task, config).await;
        }
        let Some(next) = shared.book().next(task, config) else { return };
        let sent = send(shared, delivery, task, &next).await;
        match sent {
            Ok(()) => failures = 0,
            // The same would be answered again; what happens next may be taken.
            Err(error) if error.is_final() => {
                tracing::warn!(task, config, %error, "a push notification is given up: its receiver does not take it");
                failures = 0;
            }
            Err(PostError::Gone) => {
                tracing::info!(
                    task,
                    config,
                    "the receiver of push notifications is gone; its configuration is deleted"
                );
                if let Err(error) = shared.remove(task, config).await {
                    tracing::warn!(task, %error, "the configuration of a receiver that is gone cannot be deleted");
                }
                return;
            }
            Err(error) => {
                let age = (delivery.now_ms)().saturating_sub(next.entry.made_ms);
                if age < GIVEN_UP_AFTER_MS {
                    if failures == 0 {
                        tracing::warn!(task, config, %error, "a push notification was not taken; it is sent again later");
                    } else {
                        tracing::debug!(task, config, failures, %error, "a push notification is sent again later");
                    }
                    tokio::time::sleep(wait(failures, next.entry.seq)).await;
                    failures += 1;
                    continue;
                }
                tracing::warn!(task, config, %error, "a push notification that nobody took for a day is given up");
            }
        }
        done(shared, task, config, next.entry.seq).await;
    }
}

/// Where the task waits for nothing but its receiver, what it is now takes the place of all that waits: one event that the
/// receiver does not take, such as a kind that it does not know, would hold back the last state for a day.
async fn catch_up(shared: &Shared, delivery: &Delivery, task: &str, config: &str) {
    let is_last =
        |state: &TaskState| state.is_terminal() || matches!(state, TaskState::InputRequired | TaskState::AuthRequired);
    let is_settled = (delivery.look)(task).is_some_and(|(now, _)| is_last(&now.status.state));
    let dropped = shared.book().catch_up(task, config, is_settled);
    if dropped.is_empty() {
        return;
    }
    let events = dropped.len();
    tracing::warn!(
        task,
        config,
        events,
        "push notifications are given up: the task as it is now is sent instead of them"
    );
    let mut batch = Batch::new();
    delete_notes(&mut batch, &dropped);
    // If this is lost, they are sent after a restart.
    if let Err(error) = shared.store.write(batch, Durability::Buffered).await {
        tracing::warn!(task, %error, "push notifications that were given up cannot be deleted; they are sent after a restart");
    }
}

async fn done(shared: &Shared, task: &str, config: &str, seq: u64) {
    let mut batch = Batch::new();
    batch.delete(PUSH_OUTBOX, seq.to_be_bytes());
    // If this is lost, the event is sent once more: at least once.
    if let Err(error) = shared.store.write(batch, Durability::Buffered).await {
        tracing::warn!(task, %error, "a push notification that was taken cannot be deleted; it is sent again after a restart");
    }
    shared.book().done(task, config, seq);
}

/// The wait after so many failures, with up to a quarter more, by which receivers are not all asked at one time.
fn wait(failures: u32, seq: u64) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(1 << failures.min(16)).min(LAST_WAIT);
    wait + wait.mul_f64(f64::from(u32::try_from(seq % 8).unwrap_or(0)) / 32.0)
}

async fn send(shared: &Shared, delivery: &Delivery, task: &str, next: &Next) -> Result<(), PostError> {
    let _lane = next.lane.acquire().await;
    let _others = match &next.others {
        Some(others) => Some(others.acquire().await),
        None => None,
    };
    let _slot = shared.slots.acquire().await;
    let Some(body) = body(shared, delivery, task, next)? else { return Ok(()) };
    let config = &next.config;
    let authorization = config.authentication.as_ref().map(|authentication| {
        let credentials = authentication.credentials.as_deref().unwrap_or_default();
        format!("{} {credentials}", authentication.scheme).trim_end().to_owned()
    });
    let notification = Notification {
        url: config.url.clone(),
        token: config.token.clone(),
        authorization,
        // Sequence numbers begin anew where nothing was kept.
        id: format!("{task}-{}-{}", next.entry.made_ms, next.entry.seq),
        task: task.to_owned(),
        // After the body was made: a label does not fall.
        label: (delivery.look)(task).and_then(|(_, label)| label),
        body,
    };
    delivery.postman.post(notification).await
}

/// What is sent; nothing if the task or the event is gone.
///
/// # Errors
/// The event cannot be read now.
fn body(shared: &Shared, delivery: &Delivery, task: &str, next: &Next) -> Result<Option<Vec<u8>>, PostError> {
    if next.entry.size.is_none()
        && let Some((now, _)) = (delivery.look)(task)
    {
        return Ok(serde_json::to_vec(&StreamResponse::Task(task::fit(now, ANSWER_BYTES_MAX))).ok());
    }
    let row = shared.store.read(PUSH_OUTBOX, &next.entry.seq.to_be_bytes());
    let unreadable = |error: String| {
        tracing::error!(task, error, "a push notification cannot be read");
        PostError::Failed(error)
    };
    let Some(row) = row.map_err(|error| unreadable(error.to_string()))? else { return Ok(None) };
    let row: NoteRow = ciborium::from_reader(&row[..]).map_err(|error| unreadable(error.to_string()))?;
    Ok(row.event.map(String::into_bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use a2a::{Message, Part, Role, TaskState, TaskStatus, TaskStatusUpdateEvent};
    use althing_protocol::contract::DataLabel;
    use althing_protocol::{CallerId, Label, SecretKey};
    use althing_store::MemoryStore;
    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use tokio::sync::mpsc;

    use super::*;
    use crate::machine::record::Scope;
    use crate::push::{PUSH_CONFIGS, Postman, Push};
    use althing_call::Principal;

    /// A receiver that answers each in turn, and takes all others.
    struct Receiver {
        answers: Mutex<Vec<PostError>>,
        heard: mpsc::Sender<String>,
    }

    impl Postman for Receiver {
        fn permits<'a>(&'a self, _url: &'a str) -> BoxFuture<'a, Result<(), PostError>> {
            async { Ok(()) }.boxed()
        }

        fn post(&self, notification: Notification) -> BoxFuture<'_, Result<(), PostError>> {
            async move {
                let heard = String::from_utf8_lossy(&notification.body).into_owned();
                self.heard.send(heard).await.expect("the test listens");
                self.answers.lock().expect("no holder panics").pop().map_or(Ok(()), Err)
            }
            .boxed()
        }
    }

    /// What a receiver is told of a task that works and is completed, if it answers so at first.
    async fn told(answers: Vec<PostError>, many: usize) -> Vec<String> {
        let scope =
            Scope::of_call(CallerId::Node(SecretKey::from_seed(&[1; 32]).public()), &[Principal::parse("local")]);
        let store = Arc::new(MemoryStore::new(&[PUSH_CONFIGS, PUSH_OUTBOX]));
        let push = Push::open(store, scope, |_| Some(false)).await.expect("an empty store");
        let config = serde_json::json!({ "taskId": "t", "id": "1", "url": "https://receiver.example" });
        let config = serde_json::from_value(config).expect("a configuration");
        push.set(scope, config, Durability::Buffered).await.expect("there is room");
        let (heard, mut hearing) = mpsc::channel(8);
        push.serve(Arc::new(Receiver { answers: Mutex::new(answers), heard }), || 0, |_| None);
        for state in [TaskState::Working, TaskState::Completed] {
            let status = TaskStatus { state, message: None, timestamp: None };
            let event =
                TaskStatusUpdateEvent { task_id: "t".to_owned(), context_id: "c".to_owned(), status, metadata: None };
            push.note("t", Some(&StreamResponse::StatusUpdate(event)), 0).await;
        }
        let mut all = Vec::new();
        for _ in 0..many {
            all.push(hearing.recv().await.expect("it is told"));
        }
        assert!(tokio::time::timeout(LAST_WAIT * 2, hearing.recv()).await.is_err(), "nothing more is told");
        all
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_refused_is_given_up_and_the_next_is_told() {
        let all = told(vec![PostError::Rejected(400)], 2).await;
        assert!(all[0].contains("WORKING") && all[1].contains("COMPLETED"), "{all:?}");
        for status in [301, 308] {
            let all = told(vec![PostError::Moved { status, to: None }], 2).await;
            assert!(all[0].contains("WORKING") && all[1].contains("COMPLETED"), "{status}: {all:?}");
        }
        for status in [302, 303, 307] {
            let all = told(vec![PostError::Moved { status, to: None }], 3).await;
            assert!(all[0] == all[1] && all[2].contains("COMPLETED"), "{status}: for now only: {all:?}");
        }
        let all = told(vec![PostError::Failed("it answered 503".to_owned())], 3).await;
        assert!(all[0] == all[1] && all[1].contains("WORKING") && all[2].contains("COMPLETED"), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_never_taken_does_not_hold_back_the_last_state() {
        for error in [PostError::Failed("it answered 503".to_owned()), PostError::Moved { status: 302, to: None }] {
            let refused = vec![error; HOLDS_BACK_MAX as usize];
            let all = told(refused, HOLDS_BACK_MAX as usize + 1).await;
            let (last, before) = all.split_last().expect("some");
            assert!(before.iter().all(|one| one.contains("WORKING")) && last.contains("COMPLETED"), "{all:?}");
        }
    }

    /// A receiver that only notes labels.
    struct Labels(mpsc::Sender<Option<Label>>);

    impl Postman for Labels {
        fn permits<'a>(&'a self, _url: &'a str) -> BoxFuture<'a, Result<(), PostError>> {
            async { Ok(()) }.boxed()
        }

        fn post(&self, notification: Notification) -> BoxFuture<'_, Result<(), PostError>> {
            async move {
                self.0.send(notification.label).await.expect("the test listens");
                Ok(())
            }
            .boxed()
        }
    }

    /// P-201
    #[tokio::test(start_paused = true)]
    async fn a_notification_has_the_label_of_its_task() {
        let scope = Scope::of(CallerId::Node(SecretKey::from_seed(&[1; 32]).public()));
        let label = Some(Label { level: DataLabel::Restricted, trusted: false });
        let store = Arc::new(MemoryStore::new(&[PUSH_CONFIGS, PUSH_OUTBOX]));
        let push = Push::open(store, scope, |_| Some(false)).await.expect("an empty store");
        for task in ["known", "gone"] {
            let config = serde_json::json!({ "taskId": task, "id": "1", "url": "https://receiver.example" });
            let config = serde_json::from_value(config).expect("a configuration");
            push.set(scope, config, Durability::Buffered).await.expect("there is room");
        }
        let (heard, mut hearing) = mpsc::channel(8);
        let message = Message::new(Role::User, vec![Part::text("hi")]);
        let task = task::submitted("known".to_owned(), "c".to_owned(), message, chrono::DateTime::UNIX_EPOCH);
        let look = move |id: &str| (id == "known").then(|| (task.clone(), label));
        push.serve(Arc::new(Labels(heard)), || 0, look);
        for (task, expected) in [("known", label), ("gone", None)] {
            let status = TaskStatus { state: TaskState::Working, message: None, timestamp: None };
            let (task_id, context_id) = (task.to_owned(), "c".to_owned());
            let event = TaskStatusUpdateEvent { task_id, context_id, status, metadata: None };
            push.note(task, Some(&StreamResponse::StatusUpdate(event)), 0).await;
            assert_eq!(hearing.recv().await, Some(expected), "{task}");
        }
    }

    #[test]
    fn waits_grow_and_are_bounded() {
        assert_eq!(wait(0, 0), FIRST_WAIT);
        assert_eq!(wait(1, 0), FIRST_WAIT * 2);
        for failures in 0..100 {
            assert!(wait(failures, 7) <= LAST_WAIT.mul_f64(1.25), "{failures}");
        }
    }
}
