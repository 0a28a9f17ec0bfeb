//! An artifact of an earlier turn that a later one adds to: to callers the two are one, and nobody judged that.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use a2a::{Artifact, Message, Part, Role, TaskState};
use althing_execution::agent::{Made, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, Builtins, Host, Output, Ports, Turn};
use althing_td::AgentFile;
use althing_verification::gates::output_gates;
use serde_json::{Value, json};

use super::{NEXT, SCRIPTS, Script, artifact, drained, script_of};

/// A host with an agent that answers what the script says.
fn host(verify: &Value) -> (Host, Arc<Script>) {
    let script = Arc::new(Script { answers: Mutex::default(), heard: Arc::default(), fails: None });
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    SCRIPTS.lock().expect("nobody panics").insert(number, script.clone());
    let mut builtins = Builtins::new();
    builtins.insert("script", |config, _, _| script_of(config));
    let ports = Ports { output_gates: output_gates(), ..Ports::none() };
    let host = Host::new(builtins, ProcessConfig::default()).with_ports(ports);
    let file = json!({
        "name": "script",
        "description": "Says what it is given to say",
        "runtime": { "native": { "builtin": "script", "config": { "script": number } } },
        "contract": { "class": { "latency": "srt" }, "verify": verify },
    });
    host.start(&AgentFile::parse(&file.to_string()).expect("an agent file"), Path::new("/")).expect("it starts");
    (host, script)
}

/// What callers see of a turn with these outputs in a task that has these artifacts, and how it ended.
async fn turn(
    (host, script): &(Host, Arc<Script>),
    artifacts: &[Artifact],
    outputs: Vec<Made>,
) -> (Vec<Made>, Result<(), AgentError>) {
    script.answers.lock().expect("nobody panics").push(outputs);
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("how much?")]),
        history: Vec::new(),
        artifacts: artifacts.to_vec(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let (out, mut shown) = Output::channel();
    let ended = host.turn("script", turn, out).await;
    (drained(&mut shown), ended)
}

fn piece(text: &str, append: bool) -> Made {
    artifact(vec![Part::text(text)], append)
}

#[tokio::test]
async fn an_artifact_of_an_earlier_turn_is_not_made_longer_by_what_is_judged_by_itself() {
    let asks = Made::Status(TaskState::InputRequired, Some(Message::new(Role::Agent, vec![Part::text("and?")])));
    let small = json!({ "output": { "type": "integer", "maximum": 100 } });
    for deliver in ["checked", "early"] {
        let scene = host(&json!({ "schema": small, "deliver": deliver }));
        let (shown, ended) = turn(&scene, &[], vec![piece("12", false), asks.clone()]).await;
        let [Made::Artifact { artifact: first, .. }, Made::Status(..)] = &shown[..] else { panic!("{shown:?}") };
        assert_eq!((ended, first.parts[0].as_text()), (Ok(()), Some("12")), "{deliver}");
        let has = std::slice::from_ref(first);

        let (shown, ended) = turn(&scene, has, vec![piece("34", true)]).await;
        let Err(AgentError::GateRefused(why)) = ended else { panic!("{deliver}: {ended:?}") };
        assert!(why.contains("the gate `deliver`") && why.contains(&first.artifact_id), "{why}");
        assert!(why.contains("send the whole artifact again"), "{why}");
        assert_eq!(shown.is_empty(), deliver == "checked", "{shown:?}");

        for outputs in [vec![piece("34", false)], vec![piece("3", false), piece("4", true)]] {
            let (shown, ended) = turn(&scene, has, outputs.clone()).await;
            assert_eq!((ended, shown.len()), (Ok(()), outputs.len()), "{deliver}: it takes the place of the first");
        }
        let (_, ended) = turn(&scene, &[], vec![piece("34", true)]).await;
        assert_eq!(ended, Ok(()), "{deliver}: there is nothing to add to");
    }
}

#[tokio::test]
async fn where_nothing_is_judged_a_later_turn_adds_to_what_it_likes() {
    let scene = host(&json!({}));
    let Made::Artifact { artifact: first, .. } = piece("12", false) else { panic!("it is one") };
    let (shown, ended) = turn(&scene, &[first], vec![piece("34", true)]).await;
    assert_eq!((ended, shown), (Ok(()), vec![piece("34", true)]));
}
