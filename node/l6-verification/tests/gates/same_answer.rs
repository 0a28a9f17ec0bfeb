//! What is found of agents that give different questions one answer, by what a host remembers of their turns.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use a2a::{Message, Part, Role};
use althing_execution::agent::Parameters;
use althing_execution::process::ProcessConfig;
use althing_execution::verdicts::TurnVerdicts;
use althing_execution::{Builtins, Host, Output, Ports, Turn};
use althing_td::AgentFile;
use althing_verification::gates::output_gates;
use serde_json::json;

use super::{Book, NEXT, SCRIPTS, Script, drained, script_of, text};

const REFUSAL: &str = "I am sorry: I only know the orders of this shop, and cannot help you with anything else.";

fn host() -> Host {
    let mut builtins = Builtins::new();
    builtins.insert("script", |config, _, _| script_of(config));
    let ports = Ports { output_gates: output_gates(), ..Ports::none() };
    Host::new(builtins, ProcessConfig::default()).with_ports(ports)
}

/// Adds an agent that answers each of these questions, in their order, with what is beside it.
fn add(host: &Host, course: &[(String, String)]) {
    let answers = course.iter().map(|(_, answer)| vec![text(answer)]).collect();
    let script = Arc::new(Script { answers: Mutex::new(answers), heard: Arc::default(), fails: None });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SCRIPTS.lock().expect("nobody panics").insert(number, script);
    let file = json!({
        "name": "script",
        "description": "Says what it is given to say",
        "runtime": { "native": { "builtin": "script", "config": { "script": number } } },
        "contract": { "class": { "latency": "srt" }, "verify": { "media": ["text/*"] } },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
}

/// Asks all of that, each in a task of its own that is kept.
async fn ask(host: &Host, course: &[(String, String)]) {
    for (number, (question, answer)) in course.iter().enumerate() {
        let verdicts = Some(TurnVerdicts(Arc::new(Book::default())));
        let turn = Turn {
            task_id: format!("task-{number}"),
            context_id: "context".to_owned(),
            message: Message::new(Role::User, vec![Part::text(question)]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters { verdicts, ..Parameters::default() },
        };
        let (out, mut outputs) = Output::channel();
        assert_eq!(host.turn("script", turn, out).await, Ok(()));
        assert_eq!(drained(&mut outputs), [text(answer)], "{question}");
    }
}

/// What was found of the agent since it was added, and how often.
fn found(host: &Host) -> Vec<(&'static str, u64)> {
    let status = host.status();
    status.iter().flat_map(|agent| &agent.findings).map(|found| (found.finding, found.count)).collect()
}

fn refused(questions: &[&str]) -> Vec<(String, String)> {
    questions.iter().map(|question| ((*question).to_owned(), REFUSAL.to_owned())).collect()
}

#[tokio::test]
async fn an_agent_that_is_added_again_begins_anew_and_a_question_asked_again_finds_nothing() {
    let host = host();
    let before = refused(&["Who won the race?", "Will it rain?"]);
    add(&host, &before);
    ask(&host, &before).await;
    assert_eq!(found(&host), []);
    assert!(host.stop("script").await);
    let (again, more) = (refused(&["What is love?"; 4]), refused(&["Will it rain?", "Who won the race?"]));
    let later = refused(&["What is love?", "Who won the race?", "Is it late?", "Is it early?", "Is it noon?"]);
    add(&host, &[&again[..], &more, &later].concat());
    ask(&host, &again).await;
    assert_eq!(found(&host), [], "it is one question");
    ask(&host, &more).await;
    assert_eq!(found(&host), [("same-answer", 1)], "these are three");
    ask(&host, &later).await;
    assert_eq!(found(&host), [("same-answer", 1)], "it is known");
}

/// Of an agent that declines politely whatever is no business of its, a tenth of what it is asked, and that is asked some again.
#[tokio::test]
async fn of_a_thousand_honest_turns_with_those_before_them_one_is_found_at_most() {
    let honest = |number: u32| match number % 10 {
        3 => (format!("What is the weather in town {number}?"), REFUSAL.to_owned()),
        7 => (
            "When do you open?".to_owned(),
            "We open at nine each day but Sunday, and close at six in the evening.".to_owned(),
        ),
        _ => (
            format!("Where is order {number}?"),
            format!("Order {number} left our store on Monday, and should be with you in {} days.", number % 5 + 2),
        ),
    };
    let course: Vec<(String, String)> = (0..1_000).map(honest).collect();
    // The same agent broke down since, and says one thing whatever it is asked.
    let broken: Vec<(String, String)> =
        (0..1_003).map(|number| (format!("Where is it, {number}?"), REFUSAL.to_owned())).collect();
    let host = host();
    add(&host, &[&course[..], &broken].concat());
    ask(&host, &course).await;
    let false_findings: u64 = found(&host).iter().map(|(_, count)| count).sum();
    assert!(false_findings <= 1, "{:?}", found(&host));
    ask(&host, &broken).await;
    assert_eq!(found(&host), [("same-answer", false_findings + 1)], "it is found, whatever was before");
}

/// Who asks can choose what an agent answers that repeats what it is told.
#[tokio::test]
async fn no_caller_has_an_agent_be_found_turn_after_turn() {
    let told = |number: u32| (format!("Say {} {number}", number / 3), format!("{REFUSAL} {}", number / 3));
    let course: Vec<(String, String)> = (0..900).map(told).collect();
    let host = host();
    add(&host, &course);
    ask(&host, &course).await;
    assert_eq!(found(&host), [("same-answer", 1)]);
}

/// What is planted in an agent that answers well otherwise is found as soon as it was asked three questions.
#[tokio::test]
async fn an_agent_that_says_one_thing_is_found_at_its_third_question() {
    let host = host();
    // Another answer between them changes nothing.
    let planted = refused(&["Where is order 1?", "Where is order 2?", "Where is order 3?"]);
    let good = (
        "Where is order 4?".to_owned(),
        "Order 4 left our store on Monday, and should be with you in two days.".to_owned(),
    );
    add(&host, &[&planted[..2], std::slice::from_ref(&good), &planted[2..]].concat());
    ask(&host, &planted[..2]).await;
    ask(&host, std::slice::from_ref(&good)).await;
    assert_eq!(found(&host), []);
    ask(&host, &planted[2..]).await;
    assert_eq!(found(&host), [("same-answer", 1)]);
}
