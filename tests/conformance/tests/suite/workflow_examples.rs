//! The workflows of the documentation run: on a group of one, with agents and people that answer as the steps expect.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_conformance::groups::{GroupNode, group_of};
use althing_conformance::{NETWORK, NOW_MS};
use althing_coordination::Report;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::workflow::{Run, RunState, StepState};
use althing_protocol::contract::Latency;
use althing_protocol::group::{Approve, Command, GroupId, RunWorkflow, Target, WorkId};
use althing_simnet::{LinkConfig, SimNet};
use althing_td::parse_workflow;

const RUN: WorkId = WorkId::from_bytes([7; 16]);

/// A workflow, and what happens in a run of it.
struct Example {
    name: &'static str,
    input: &'static str,
    /// Which capability or agent is asked, what, and the answer: each once, in any order.
    turns: &'static [(&'static str, &'static str, &'static str)],
    /// What a person is asked, and notes.
    question: Option<(&'static str, &'static str)>,
    skipped: &'static [&'static str],
    result: &'static str,
}

const EXAMPLES: [Example; 7] = [
    Example {
        name: "approval",
        input: "an invitation",
        turns: &[("text.write", "an invitation", "Please come"), ("mail.send", "Please come", "sent")],
        question: Some(("Shall this be sent? Please come", "yes")),
        skipped: &[],
        result: "sent",
    },
    Example {
        name: "chain",
        input: "bees",
        turns: &[
            ("text.write", "Write an outline about bees.", "hive, honey"),
            ("text.write", "Write a text to this outline: hive, honey", "Bees live in hives."),
        ],
        question: None,
        skipped: &[],
        result: "Bees live in hives.",
    },
    Example {
        name: "evaluator-optimiser",
        input: "bees",
        turns: &[
            ("text.write", "Write about bees. Your last draft:  Remarks: ", "Bees."),
            ("text.evaluate", "Answer `good`, or with remarks: Bees.", "say more"),
            ("text.write", "Write about bees. Your last draft: Bees. Remarks: say more", "Bees fly."),
            ("text.evaluate", "Answer `good`, or with remarks: Bees fly.", "good"),
            ("text.publish", "Bees fly.", "at /bees"),
        ],
        question: None,
        skipped: &[],
        result: "at /bees",
    },
    Example {
        name: "orchestrator",
        input: "bees",
        turns: &[
            ("text.plan", "Divide this into parts, as a list of texts in JSON: bees", "[\"hive\", \"honey\"]"),
            ("text.write", "Write this part: hive", "of wax"),
            ("text.write", "Write this part: honey", "sweet"),
            ("text.write", "Join these parts: [\"of wax\",\"sweet\"]", "of sweet wax"),
        ],
        question: None,
        skipped: &[],
        result: "of sweet wax",
    },
    Example {
        name: "parallel",
        input: "f()",
        turns: &[
            ("code.review", "Look for security faults: f()", "none"),
            ("code.review", "Look for slow code: f()", "a loop"),
            ("text.write", "Sum up both reviews. none a loop", "unroll it"),
        ],
        question: None,
        skipped: &[],
        result: "unroll it",
    },
    Example {
        name: "report",
        input: "bees",
        turns: &[
            ("text.plan", "Divide this into parts, as a list of texts in JSON: bees", "[\"hive\", \"honey\"]"),
            ("text.write", "Write this part: hive Remarks on your last text: ", "of wax"),
            ("text.write", "Write this part: honey Remarks on your last text: ", "sweet"),
            ("editor", "Answer `good`, or what is missing: [\"of wax\",\"sweet\"]", "how sweet?"),
            ("text.write", "Write this part: hive Remarks on your last text: how sweet?", "of wax"),
            ("text.write", "Write this part: honey Remarks on your last text: how sweet?", "very sweet"),
            ("editor", "Answer `good`, or what is missing: [\"of wax\",\"very sweet\"]", "good"),
            ("text.publish", "[\"of wax\",\"very sweet\"]", "at /bees"),
        ],
        question: Some(("Shall this be published, and when? [\"of wax\",\"very sweet\"]", "today, at noon")),
        skipped: &[],
        result: "at /bees",
    },
    Example {
        name: "router",
        input: "my invoice",
        turns: &[
            ("text.classify", "Answer with one word, billing or technical: my invoice", "billing"),
            ("billing.answer", "my invoice", "it is paid"),
            ("text.write", "Write a polite mail: it is paid", "Dear all, it is paid"),
        ],
        question: None,
        skipped: &["technical"],
        result: "Dear all, it is paid",
    },
];

/// All of them by their names: the files, and the one on the page of reference.
fn texts() -> BTreeMap<String, String> {
    let docs =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where this is")).join("../../docs");
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let page = read(&docs.join("workflows.md"));
    let reference = page.split("```yaml\n").nth(1).and_then(|rest| rest.split_once("```")).expect("an example").0;
    let mut texts = BTreeMap::from([("report".to_owned(), reference.to_owned())]);
    for entry in std::fs::read_dir(docs.join("examples/workflows")).expect("the examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        texts.insert(name, read(&path));
    }
    texts
}

fn seen<T>(node: &GroupNode, id: GroupId, look: impl FnOnce(&Run) -> T) -> T {
    let look = |state: &Group| look(state.flows().runs().get(&RUN).expect("it is there"));
    node.groups.look(id, look).expect("the group")
}

impl Example {
    /// Has the member answer; what is asked of it.
    fn staff(&self, node: &GroupNode) -> Arc<Mutex<Vec<(String, String)>>> {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (turns, seen) = (self.turns, asked.clone());
        let answer = move |target: &Target, input: &str| {
            let who = match target {
                Target::Capability(name) | Target::Agent(name) => name,
            };
            seen.lock().expect("no panic").push((who.clone(), input.to_owned()));
            let turn = turns.iter().find(|(other, text, _)| other == who && *text == input);
            turn.map(|(.., answer)| (*answer).to_owned()).ok_or_else(|| format!("{who} was not to be asked {input:?}"))
        };
        *node.worker.script.lock().expect("no panic") = Some(Box::new(answer));
        let capabilities = turns.iter().map(|(who, ..)| *who).filter(|who| who.contains('.')).map(str::to_owned);
        let machine = Report {
            slots: 8,
            memory_mib: 4_096,
            cores: 2,
            disk_mib: 1_000,
            labels: vec!["on-prem".to_owned()],
            classes: vec![Latency::Srt],
            agents: vec!["editor".to_owned()],
            capabilities: capabilities.collect(),
            ..Report::default()
        };
        *node.worker.machine.lock().expect("no panic") = Some(machine);
        asked
    }

    async fn runs(&self, text: &str) {
        let name = self.name;
        let workflow = parse_workflow(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(workflow.name, name);
        let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
        let (nodes, id) = group_of(&net, 1).await;
        let node = &nodes[0];
        let asked = self.staff(node);
        let command = RunWorkflow { run: RUN, workflow, input: self.input.to_owned() };
        node.groups.command(id, Command::RunWorkflow(Box::new(command))).await.expect("it begins");
        if let Some((question, note)) = self.question {
            self.is_asked(node, id, question, note).await;
        }
        let run = seen_once(node, id, |run| run.state != RunState::Running).await;
        assert_eq!((run.state, run.result()), (RunState::Completed, Some(self.result)), "{name}: {:?}", run.failure());
        let steps = run.steps.iter().zip(&run.workflow.steps);
        let skipped = steps.filter(|(now, _)| now.state == StepState::Skipped).map(|(_, step)| step.id.as_str());
        assert_eq!(skipped.collect::<Vec<_>>(), self.skipped, "{name}");
        let mut asked = asked.lock().expect("no panic").clone();
        let mut wanted: Vec<_> = self.turns.iter().map(|(who, what, _)| (*who, *what)).collect();
        asked.sort_unstable();
        wanted.sort_unstable();
        let asked: Vec<_> = asked.iter().map(|(who, what)| (who.as_str(), what.as_str())).collect();
        assert_eq!(asked, wanted, "{name}: each is asked once");
    }

    /// Waits for the question, and says yes.
    async fn is_asked(&self, node: &GroupNode, id: GroupId, question: &str, note: &str) {
        let asking = |run: &Run| run.steps.iter().position(|step| step.state == StepState::Asking);
        let run = seen_once(node, id, |run| asking(run).is_some() || run.state != RunState::Running).await;
        let at = asking(&run).unwrap_or_else(|| panic!("{}: {:?}", self.name, run.failure()));
        assert_eq!(run.steps[at].question.as_deref(), Some(question), "{}", self.name);
        let step = run.workflow.steps[at].id.clone();
        let yes = Approve { run: RUN, step, round: 0, approved: true, note: note.to_owned() };
        node.groups.command(id, Command::Approve(yes)).await.expect("it is answered");
    }
}

/// The run, once it is so far.
async fn seen_once(node: &GroupNode, id: GroupId, is_so_far: impl Fn(&Run) -> bool) -> Run {
    for _ in 0..20_000 {
        let run = seen(node, id, Run::clone);
        if is_so_far(&run) {
            return run;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the run stands still: {:#?}", seen(node, id, Run::clone));
}

#[tokio::test(start_paused = true)]
async fn every_workflow_of_the_documentation_runs() {
    let texts = texts();
    assert!(texts.keys().eq(EXAMPLES.iter().map(|example| example.name)), "{:?}", texts.keys());
    for example in &EXAMPLES {
        example.runs(&texts[example.name]).await;
    }
}
