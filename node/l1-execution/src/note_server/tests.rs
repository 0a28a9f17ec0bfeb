use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use althing_protocol::contract::DataLabel;
use althing_protocol::{AnswerAttributes, Attributes};

use super::*;
use crate::agents::{AgentReply, Question, WorkOffer};
use crate::context::{CALL_CONTEXT, CallContext, TurnAttributes};
use crate::journal::{
    CHECKPOINT_BYTES_MAX, Checkpoint, Intent, Journal, JournalError, NextStep, Reading, Replay, Step, StepOutcome,
    TurnRights,
};
use crate::lease::Leases;
use crate::notes::Notes;
use crate::ports::Ports;
use crate::tools::{ContractGate, ToolError};

/// Notes in memory.
#[derive(Default)]
struct Book(Mutex<Vec<Note>>);

impl Notes for Book {
    fn add(&self, note: Note, _: Option<[u8; 32]>) -> BoxFuture<'_, Result<(), NoteError>> {
        self.0.lock().expect("nobody panics with it").push(note);
        Box::pin(std::future::ready(Ok(())))
    }

    fn all(&self) -> Result<Vec<Note>, NoteError> {
        Ok(self.0.lock().expect("nobody panics with it").clone())
    }
}

fn tools(capability: &str) -> Tools {
    tools_of(&[capability], (false, SaveKind::Nothing), None)
}

fn tools_of(capabilities: &[&str], (as_itself, saves): (bool, SaveKind), calls: Option<&Arc<dyn AgentCalls>>) -> Tools {
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": capabilities });
    let contract = Contract::from_value(&contract).expect("a contract");
    let server = NoteServer::of(&contract, as_itself, saves, calls);
    let server = server.map(|server| (SERVER.to_owned(), Arc::new(server) as Arc<dyn ToolServer>));
    let agent = Ports::none().agent_ref("clerk", "1.0.0").expect("a name");
    Tools::new(agent, server.into_iter().collect::<BTreeMap<_, _>>(), Arc::new(ContractGate::of(&contract)))
}

/// A call in a turn of a session with these notes, and the label of the turn's answer after it.
async fn call(
    tools: &Tools,
    book: &Arc<Book>,
    label: Option<Label>,
    (tool, arguments): (&str, Value),
) -> (Result<Value, ToolError>, Option<Label>) {
    let answer = AnswerAttributes::default();
    let attributes = TurnAttributes::of(&Attributes { label, ..Attributes::default() }, &answer);
    let notes = Some(SessionNotes(book.clone()));
    let turn = CallContext { notes, attributes, ..CallContext::default() };
    let (outcome, _) = CALL_CONTEXT.scope(turn, tools.invoke(tool, &arguments.to_string())).await;
    (outcome, answer.label())
}

#[tokio::test]
async fn notes_are_added_and_given_in_their_order_with_the_label_of_what_their_turn_knew() {
    let (tools, book) = (tools("session/*"), Arc::<Book>::default());
    let listed: Vec<String> = tools.listed().await.into_keys().collect();
    assert_eq!(listed, ["session__handoff", "session__note", "session__notes"]);
    let secret = Label { level: DataLabel::Confidential, trusted: false };
    for (kind, label) in [("done", None), ("pitfall", Some(secret))] {
        let given = ("session__note", json!({ "kind": kind, "text": "the door\n\tis red" }));
        let (noted, _) = call(&tools, &book, label, given).await;
        assert_eq!(noted.expect("it is noted")["structuredContent"], json!({ "noted": kind }));
    }
    let (all, label) = call(&tools, &book, None, ("session/notes", json!({}))).await;
    let text = "the door\n\tis red";
    let notes = json!([{ "kind": "done", "text": text }, { "kind": "pitfall", "text": text }]);
    assert_eq!(all.expect("an answer")["structuredContent"]["notes"], notes);
    assert_eq!(label, Some(secret), "whoever is given a note is given what its turn knew");
}

#[tokio::test]
async fn what_is_no_note_is_refused_and_says_what_to_do() {
    let (tools, book) = (tools("session/note"), Arc::<Book>::default());
    let mut text = "x".repeat(NOTE_BYTES_MAX);
    let (noted, _) = call(&tools, &book, None, ("session/note", json!({ "kind": "done", "text": text }))).await;
    noted.expect("the longest note");
    text.push('x');
    for (given, why) in [
        (json!({ "kind": "done", "text": text }), "1025 bytes, and 1024 is the most"),
        (json!({ "kind": "done", "text": " \n" }), "no text"),
        (json!({ "kind": "done", "text": "a\u{7}b" }), "U+0007"),
        (json!({ "kind": "done", "text": "a\u{202e}b" }), "U+202E"),
        (json!({ "kind": "rumour", "text": "a" }), "rumour"),
        (json!({ "kind": "done" }), "text"),
        (json!({ "kind": "done", "text": "a", "more": 1 }), "more"),
    ] {
        let (refused, _) = call(&tools, &book, None, ("session/note", given.clone())).await;
        let error = refused.expect_err("it is refused").to_string();
        assert!(error.contains(why), "{given}: {error}");
    }
    assert_eq!(book.all().map(|all| all.len()), Ok(1));
    // The contract decides, and a turn without a session has no notes.
    let (denied, _) = call(&tools, &book, None, ("session/notes", json!({}))).await;
    assert!(matches!(denied, Err(ToolError::Denied(_))), "{denied:?}");
    let (outside, _) = tools.invoke("session/note", r#"{"kind": "done", "text": "a"}"#).await;
    assert!(outside.expect_err("no session").to_string().contains("no session"));
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["agents/echo"] });
    assert!(
        NoteServer::of(&Contract::from_value(&contract).expect("a contract"), false, SaveKind::Nothing, None).is_none()
    );
}

/// Notes the work that it is offered for others, and says that it is not taken.
#[derive(Default)]
struct Offers(Mutex<Vec<WorkOffer>>);

impl AgentCalls for Offers {
    fn known(&self, _: usize) -> Vec<String> {
        Vec::new()
    }

    fn ask(&self, _: Question) -> BoxFuture<'_, Result<AgentReply, String>> {
        Box::pin(std::future::ready(Err("nobody answers".to_owned())))
    }

    fn find(&self, _: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(std::future::ready(Err("nobody is found".to_owned())))
    }

    fn describe(&self, _: String) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(std::future::ready(Err("nobody is known".to_owned())))
    }

    fn hand_over(&self, offer: WorkOffer) -> BoxFuture<'_, Result<Value, String>> {
        self.0.lock().expect("nobody panics with it").push(offer);
        Box::pin(std::future::ready(Ok(json!({ "state": "rejected", "reason": "busy" }))))
    }
}

#[tokio::test]
async fn work_is_offered_to_an_agent_that_the_contract_names_and_to_no_other() {
    let offers = Arc::<Offers>::default();
    let calls: Arc<dyn AgentCalls> = offers.clone();
    let tools = tools_of(&["session/handoff", "agents/auditor"], (true, SaveKind::Nothing), Some(&calls));
    let principals = ["local".to_owned()].into();
    let turn = CallContext { task: "t-1".into(), principals, ..CallContext::default() };
    let call = async |turn: &CallContext, given: Value| {
        let given = given.to_string();
        CALL_CONTEXT.scope(turn.clone(), tools.invoke("session/handoff", &given)).await.0
    };
    let given = json!({ "to": "auditor", "remaining": ["Pages 8 to 12."] });
    let answer = call(&turn, given.clone()).await.expect("it is offered");
    assert_eq!(answer["structuredContent"], json!({ "state": "rejected", "reason": "busy" }));
    let offer = WorkOffer {
        task: "t-1".to_owned(),
        to: "auditor".to_owned(),
        remaining: vec!["Pages 8 to 12.".to_owned()],
        checklist: Vec::new(),
        principals: vec!["local".to_owned()],
        as_itself: true,
    };
    assert_eq!(*offers.0.lock().expect("nobody panics with it"), [offer]);

    let leased = TurnRights::under(Leases::default().begin("g", "t", 1));
    let of_group = CallContext { rights: leased, ..turn.clone() };
    let outside = CallContext::default();
    for (turn, given, why) in [
        (&turn, json!({ "to": "stranger" }), "agents/stranger"),
        (&turn, json!({ "to": "auditor", "remaining": vec!["x"; 65] }), "65 sentences"),
        (&turn, json!({ "to": "auditor", "checklist": ["x".repeat((4 << 10) + 1)] }), "4097 bytes"),
        (&turn, json!({ "to": "auditor", "budget": 7 }), "budget"),
        (&of_group, given.clone(), "work of a group"),
        (&outside, given.clone(), "of no task"),
    ] {
        let error = call(turn, given.clone()).await.expect_err("it is refused").to_string();
        assert!(error.contains(why), "{given}: {error}");
    }
    assert_eq!(offers.0.lock().expect("nobody panics with it").len(), 1);
    // Where nothing reaches other agents, work stays.
    let alone = tools_of(&["session/*", "agents/*"], (false, SaveKind::Nothing), None);
    let (stays, _) = CALL_CONTEXT.scope(turn, alone.invoke("session/handoff", &given.to_string())).await;
    assert!(stays.expect_err("it stays").to_string().contains("hands no work over"));
}

/// A journal that takes checkpoints while no call runs, and knows no steps.
#[derive(Default)]
struct Paper {
    saved: Mutex<Vec<Checkpoint>>,
    is_busy: bool,
}

impl Journal for Paper {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        panic!("{} is no step", step.name)
    }

    fn done<'a>(
        &'a self,
        _: Intent,
        _: &'a StepOutcome,
        _: althing_store::Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        panic!("there is no step")
    }

    fn replay(&self) -> Option<&dyn Replay> {
        Some(self)
    }
}

impl Replay for Paper {
    fn seed(&self) -> [u8; 32] {
        [0; 32]
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        Ok(now)
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        self.saved.lock().expect("nobody panics with it").last().cloned()
    }

    fn save<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        self.saved.lock().expect("nobody panics with it").push(checkpoint.clone());
        Box::pin(std::future::ready(Ok(())))
    }

    fn save_between<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<bool, JournalError>> {
        Box::pin(async move {
            if !self.is_busy {
                self.save(checkpoint).await?;
            }
            Ok(!self.is_busy)
        })
    }

    fn done_with<'a>(
        &'a self,
        _: Intent,
        _: &'a StepOutcome,
        _: althing_store::Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        panic!("there is no step")
    }
}

/// Saves a state in a turn with that journal, if any.
async fn save(tools: &Tools, paper: Option<&Arc<Paper>>, state: &str) -> Result<Value, String> {
    let journal = paper.map(|paper| paper.clone() as Arc<dyn Journal>);
    let turn = CallContext { rights: TurnRights { lease: None, journal }, ..CallContext::default() };
    let given = json!({ "state": state }).to_string();
    let (saved, _) = CALL_CONTEXT.scope(turn, tools.invoke("session/checkpoint", &given)).await;
    saved.map(|saved| saved["structuredContent"].clone()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_program_saves_a_state_of_a_mebibyte_between_its_calls() {
    let programs = tools_of(&["session/checkpoint"], (false, SaveKind::Program), None);
    assert_eq!(programs.listed().await.into_keys().collect::<Vec<_>>(), ["session__checkpoint"]);
    let paper = Arc::<Paper>::default();
    let mut state = "x".repeat(CHECKPOINT_BYTES_MAX);
    assert_eq!(save(&programs, Some(&paper), &state).await, Ok(json!({ "saved": CHECKPOINT_BYTES_MAX })));
    assert_eq!(paper.checkpoint().map(|saved| saved.state), Some(state.clone().into_bytes()));
    state.push('x');
    let busy = Arc::new(Paper { is_busy: true, ..Paper::default() });
    let others = tools_of(&["session/*"], (false, SaveKind::Nothing), None);
    for (tools, paper, state, why) in [
        (&programs, Some(&paper), state.as_str(), "1048577"),
        (&programs, Some(&busy), "7", "are under way"),
        (&programs, None, "7", "no journal"),
        (&others, Some(&paper), "7", "checkpoint"),
    ] {
        let refused = save(tools, paper, state).await.expect_err("nothing is saved");
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!((paper.saved.lock().expect("nobody panics with it").len(), busy.checkpoint()), (1, None));
    // What a model saves is looked at here, and written by what runs the model.
    let models = tools_of(&["session/checkpoint"], (false, SaveKind::Model), None);
    assert_eq!(save(&models, Some(&busy), "7").await, Ok(json!({ "saved": 1 })));
    for (paper, state, why) in [(Some(&paper), state.as_str(), "1048577"), (None, "7", "no journal")] {
        let refused = save(&models, paper, state).await.expect_err("it cannot be saved");
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(busy.checkpoint(), None);
}
