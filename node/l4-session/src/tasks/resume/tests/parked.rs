//! A turn whose next call somebody is asked about rests, also over starts of its node, and goes on with the answer.

use std::collections::BTreeSet;

use althing_execution::tools::{Ask, Denied, GateVerdict, PendingAsks, Permit};
use althing_protocol::AgentId;
use tokio::sync::watch;

use super::*;
use crate::tasks::course::TurnCourse;
use crate::tasks::outcome::{CountOutcomes, TurnOutcome};

/// The step that somebody is asked about: the first one with an effect that counts.
const ASKED: usize = 1;

/// What was said of the asked step, by the number of the world; none as long as nobody has answered. Worlds that are not here ask
/// nobody.
static ANSWERS_GIVEN: Mutex<BTreeMap<u64, Option<bool>>> = Mutex::new(BTreeMap::new());
/// How often the gate was asked about it.
static QUESTIONS: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());

fn name(world: u64) -> String {
    format!("{world:032x}")
}

fn answer(world: u64) -> Option<Option<bool>> {
    ANSWERS_GIVEN.lock().expect("nobody panics with it").get(&world).copied()
}

fn say(world: u64, said: Option<bool>) {
    ANSWERS_GIVEN.lock().expect("nobody panics with it").insert(world, said);
}

fn questions(world: u64) -> usize {
    QUESTIONS.lock().expect("nobody panics with it").get(&world).copied().unwrap_or_default()
}

/// The gate of a step.
pub(super) fn gate(world: u64, number: usize) -> Option<BoxFuture<'static, GateVerdict>> {
    answer(world).filter(|_| number == ASKED)?;
    Some(Box::pin(async move {
        *QUESTIONS.lock().expect("nobody panics with it").entry(world).or_default() += 1;
        match answer(world).flatten() {
            Some(true) => GateVerdict::Permit(Permit::default()),
            Some(false) => GateVerdict::Deny(Denied { reason: "nobody wants it".to_owned() }),
            None => {
                let answered: BoxFuture<'static, ()> = Box::pin(std::future::pending());
                GateVerdict::Ask(Ask { id: name(world), to: "alice is asked".to_owned(), answered })
            }
        }
    }))
}

/// Who knows what is asked, while a node is up.
struct People {
    open: watch::Sender<BTreeSet<String>>,
    /// The tasks that nobody is asked for any more.
    withdrawn: Mutex<Vec<String>>,
}

impl People {
    /// Those of a world in which somebody is asked.
    fn of(world: u64) -> Arc<People> {
        let open = answer(world).flatten().is_none().then(|| name(world)).into_iter().collect();
        Arc::new(People { open: watch::Sender::new(open), withdrawn: Mutex::default() })
    }

    /// Alice answers.
    fn answer(&self, world: u64, said: bool) {
        say(world, Some(said));
        self.open.send_modify(|open| open.clear());
    }
}

impl PendingAsks for People {
    fn waits(&self, ask: &str) -> Option<BoxFuture<'static, ()>> {
        let (mut changes, ask) = (self.open.subscribe(), ask.to_owned());
        if !self.open.borrow().contains(&ask) {
            return None;
        }
        Some(Box::pin(async move {
            let _ = changes.wait_for(|open| !open.contains(&ask)).await;
        }))
    }

    fn withdraw(&self, task: &str) {
        self.withdrawn.lock().expect("nobody panics with it").push(task.to_owned());
    }
}

/// Who counts what comes of turns: the messages, and how they went.
#[derive(Default)]
struct OutcomeList(Mutex<Vec<(String, TurnCourse)>>);

impl OutcomeList {
    fn all(&self) -> Vec<(String, TurnCourse)> {
        self.0.lock().expect("nobody panics with it").clone()
    }
}

impl CountOutcomes for OutcomeList {
    fn counts(&self, _: &AgentId) -> bool {
        true
    }

    fn copies(&self, _: &AgentId) -> bool {
        false
    }

    fn count(&self, outcome: TurnOutcome) -> BoxFuture<'_, ()> {
        self.0.lock().expect("nobody panics with it").push((outcome.message, outcome.course));
        Box::pin(std::future::ready(()))
    }
}

/// A node in whose world people are asked, with its agent added.
async fn up(disk: &MemoryStore, world: u64, left: usize) -> (Node, Arc<People>) {
    let (node, people) = (Node::start(disk, world, "1.0.0", left).await, People::of(world));
    node.sessions().ask_people(people.clone());
    node.add();
    node.settle().await;
    (node, people)
}

/// A turn that rests, and its task.
async fn parked() -> (MemoryStore, u64, String, Node, Arc<People>) {
    let (disk, world) = (disk(), world());
    say(world, None);
    let (node, people) = up(&disk, world, UNENDING).await;
    let id = node.send().await.expect("it is accepted");
    node.settle().await;
    (disk, world, id, node, people)
}

fn made(world: u64, number: usize) -> usize {
    calls(world).get(&number).map_or(0, Vec::len)
}

fn check_rest(node: &Node, id: &str) {
    assert_eq!(node.state(id), "TASK_STATE_AUTH_REQUIRED", "{}", node.task(id));
    assert!(node.said(id).contains("alice is asked"), "{}", node.said(id));
    assert_eq!(node.tasks.count(), 0, "it holds no slot");
    let list = node.sessions().list();
    assert_eq!((list.len(), list[0].state, list[0].task.as_str()), (1, SessionState::Waiting, id));
}

fn check_end(node: &Node, world: u64, id: &str) {
    assert_eq!(node.state(id), "TASK_STATE_COMPLETED", "{}", node.task(id));
    for number in 0..STEPS.len() {
        assert_eq!(made(world, number), 1, "step {number}");
    }
    assert!(node.sessions().list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_in_its_process_when_somebody_has_answered() {
    let (_disk, world, id, node, people) = parked().await;
    check_rest(&node, &id);
    assert_eq!((made(world, 0), made(world, ASKED)), (1, 0));
    people.answer(world, true);
    node.settle().await;
    check_end(&node, world, &id);
    assert_eq!(questions(world), 2, "once before the answer, and once after it");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_rested_is_counted_once_when_it_is_over_or_does_not_go_on() {
    for (goes_on, course) in [(true, TurnCourse::Good), (false, TurnCourse::Open)] {
        let (disk, world) = (disk(), world());
        say(world, None);
        let (node, people) = up(&disk, world, UNENDING).await;
        let counted = Arc::new(OutcomeList::default());
        node.tasks.count_outcomes(counted.clone());
        let id = node.send().await.expect("it is accepted");
        node.settle().await;
        check_rest(&node, &id);
        assert!(counted.all().is_empty(), "it is not over");
        if goes_on {
            people.answer(world, true);
        } else {
            let request = serde_json::from_value(json!({ "id": id })).expect("a request");
            let cancelled = node.tasks.cancel(&node.agent, scope(), &request, &CallMetadata::default()).await;
            cancelled.expect("it is cancelled");
        }
        node.settle().await;
        assert_eq!(counted.all(), [("m-1".to_owned(), course)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_has_work_as_long_as_a_turn_of_it_rests() {
    let (_disk, world, id, node, people) = parked().await;
    let own = node.agent.agent.clone();
    let other = AgentRef { version: "2.0.0".into(), ..own.clone() };
    check_rest(&node, &id);
    assert!(node.tasks.has_work(&own).await && !node.tasks.has_work(&other).await);
    people.answer(world, true);
    node.settle().await;
    check_end(&node, world, &id);
    assert!(!node.tasks.has_work(&own).await, "it is over");
}

#[tokio::test(start_paused = true)]
async fn a_turn_rests_over_starts_of_its_node_and_each_call_takes_place_once() {
    let (disk, world, id, node, _) = parked().await;
    drop(node);
    for _ in 0..2 {
        let (node, _) = up(&disk, world, UNENDING).await;
        tokio::time::sleep(RETRY * 3).await;
        node.settle().await;
        check_rest(&node, &id);
        node.tasks.end_turns();
        node.settle().await;
    }
    assert_eq!(questions(world), 1, "nobody is asked again");
    let (node, people) = up(&disk, world, UNENDING).await;
    people.answer(world, true);
    node.settle().await;
    check_end(&node, world, &id);
}

#[tokio::test(start_paused = true)]
async fn what_was_answered_while_the_node_was_down_is_known_when_it_is_up() {
    for said in [true, false] {
        let (disk, world, id, node, _) = parked().await;
        drop(node);
        say(world, Some(said));
        let (node, _) = up(&disk, world, UNENDING).await;
        tokio::time::sleep(RETRY * 2).await;
        node.settle().await;
        assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
        assert_eq!(made(world, ASKED), usize::from(said));
    }
}

#[tokio::test(start_paused = true)]
async fn a_denial_is_heard_at_whichever_write_after_it_the_node_ends() {
    // The turn has nine writes left, each of which takes place or does not.
    for left in 0..20 {
        let (disk, world, id, node, _) = parked().await;
        drop(node);
        say(world, Some(false));
        let living = tokio::spawn({
            let disk = disk.clone();
            async move {
                let _node = up(&disk, world, left).await;
                std::future::pending::<()>().await;
            }
        });
        settle().await;
        tokio::time::sleep(RETRY * 2).await;
        settle().await;
        living.abort();
        let (node, _) = up(&disk, world, UNENDING).await;
        node.settle().await;
        tokio::time::sleep(RETRY * 2).await;
        node.settle().await;
        for session in node.sessions().list() {
            assert_ne!(session.state, SessionState::Waiting, "write {left}");
            for doubt in session.doubts {
                let how = match calls(world).get(&(doubt.seq as usize)) {
                    Some(keys) => Resolution::Done(json!(keys.len())),
                    None => Resolution::Again,
                };
                node.sessions().settle(&id, doubt.seq, how, &Principal::Local).await.expect("it is in doubt");
            }
            node.settle().await;
        }
        assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "write {left}: {}", node.task(&id));
        assert_eq!(made(world, ASKED), 0, "write {left}");
        assert!(node.task(&id).to_string().contains("nobody wants it"), "write {left}: {}", node.task(&id));
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_task_that_rests_changes_nothing_and_a_cancelled_one_does_not_go_on() {
    let (disk, world, id, node, people) = parked().await;
    let message = json!({
        "messageId": "m-2", "taskId": id, "contextId": "c", "role": "ROLE_USER", "parts": [{ "text": "well?" }],
    });
    let request = OperationRequest::parse(
        Operation::SendMessage,
        json!({ "message": message, "configuration": {} }).to_string().into_bytes(),
    );
    let Params::Send(request) = request.expect("a message").params else { panic!("it is a message") };
    let before = node.task(&id);
    let answered = node.tasks.send(&node.agent, scope(), *request, &CallMetadata::default(), None).await;
    let Ok(Reply::One(answered)) = answered else { panic!("it is answered") };
    assert_eq!(json(&answered)["task"]["status"], before["status"]);
    assert_eq!(node.task(&id), before);
    check_rest(&node, &id);

    let request = serde_json::from_value(json!({ "id": id })).expect("a request");
    node.tasks.cancel(&node.agent, scope(), &request, &CallMetadata::default()).await.expect("it is cancelled");
    assert_eq!(node.state(&id), "TASK_STATE_CANCELED");
    assert_eq!(*people.withdrawn.lock().expect("nobody panics with it"), [id.as_str()], "alice is not asked any more");
    people.answer(world, true);
    node.settle().await;
    assert_eq!((node.state(&id).as_str(), made(world, ASKED)), ("TASK_STATE_CANCELED", 0));
    assert!(node.sessions().list().is_empty());
    for family in [SESSION_ROWS, SESSION_HEADS] {
        assert!(disk.keys(family, Range::all(1)).expect("readable").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_rests_when_its_agent_is_gone_waits_for_that() {
    let (disk, world, id, node, people) = parked().await;
    assert!(node.tasks.runner.host().stop(&node.agent.agent).await);
    people.answer(world, true);
    node.settle().await;
    check_rest(&node, &id);
    drop(node);
    let (node, _) = up(&disk, world, UNENDING).await;
    tokio::time::sleep(RETRY * 2).await;
    node.settle().await;
    check_end(&node, world, &id);
}
