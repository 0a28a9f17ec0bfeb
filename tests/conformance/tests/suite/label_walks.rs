//! No label falls, whichever way data go: random walks through two nodes of two owners, by whole and streamed answers, through an
//! agent that asks another one, their memories, tasks of a group, and handoffs.

use std::collections::BTreeMap;

use althing_calls::{DraftWords, HandoffState, Operation, Reply};
use althing_conformance::groups::echo_task;
use althing_conformance::mesh::{Node, Owner, ask, message, store};
use althing_conformance::world::until;
use althing_conformance::{NEVER, key};
use althing_coordination::Role;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::work::State;
use althing_protocol::contract::DataLabel;
use althing_protocol::group::{Command, GroupId, Needs, Policy, Submit, Target};
use althing_protocol::{AgentId, AnswerAttributes, Attributes, CallerId, Label};
use althing_simnet::{LinkConfig, SimNet};
use althing_td::AgentFile;
use futures::StreamExt as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

const NEAR: u8 = 111;
const FAR: u8 = 112;
/// Walks, and steps of each.
const WALKS: u64 = 6;
const STEPS: u32 = 30;
/// Keys of each memory.
const KEYS: [&str; 2] = ["a", "b"];

fn agent_file(name: &str, label: DataLabel, capabilities: &str) -> AgentFile {
    let yaml = format!(
        "name: {name}\ndescription: does as it is told\nskills: [{{id: acting.{name}, name: Skill, description: acts, \
         action: do, target: {name}}}]\nruntime: {{ native: {{ builtin: actor }} }}\ncontract: {{ class: {{ latency: \
         srt }}, data_label: {}, capabilities: [memory/put, memory/get{capabilities}], memory: {{}} }}\n",
        label.name()
    );
    AgentFile::parse(&yaml).expect("an agent file")
}

/// Which of the two agents is told something: one, the other, or the other by the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Near,
    Far,
    Through,
}

impl Way {
    /// Whether the far agent does it at last.
    fn ends_far(self) -> bool {
        self != Way::Near
    }
}

/// Two nodes, what their agents were told to keep, and a group of the first node alone.
struct Walk {
    near: Node,
    far: Node,
    asking: AgentId,
    told: AgentId,
    group: GroupId,
    rng: StdRng,
    /// The least label of each value that is kept, by whether the far agent has it, and its key.
    kept: BTreeMap<(bool, &'static str), Label>,
    given: u32,
    tasks: u32,
}

fn label_of(rng: &mut StdRng) -> Label {
    let levels = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
    Label { level: *levels.choose(rng).expect("four"), trusted: rng.random_bool(0.6) }
}

impl Walk {
    async fn start(seed: u64) -> Walk {
        let net = SimNet::new(seed, LinkConfig::default());
        let owner = |number: u8| CallerId::Publisher(Owner::new(key(number)).id());
        let near = Node::start(&net, 1, NEAR, &[owner(FAR)], store()).await;
        let far = Node::start(&net, 2, FAR, &[owner(NEAR)], store()).await;
        let asking = near.host_for_anyone(&agent_file("asking", DataLabel::Public, ", agents/told")).await;
        let told = far.host_for_anyone(&agent_file("told", DataLabel::Internal, "")).await;
        near.connect(&far).await;
        let know = || !near.discovery.hosts(&told).is_empty() && !far.discovery.hosts(&asking).is_empty();
        until("they know each other", know).await;
        let group = near.groups.create("team", Policy::default()).await.expect("a group");
        let role = || near.groups.overview(group).ok()?.replica.map(|replica| replica.role);
        until("it leads", || role() == Some(Role::Leader)).await;
        let (rng, kept) = (StdRng::seed_from_u64(seed), BTreeMap::new());
        Walk { near, far, asking, told, group, rng, kept, given: 0, tasks: 0 }
    }

    /// What is told, and the least label of what is answered when that has the label `sent`.
    fn words(&mut self, ends_far: bool, sent: Label) -> (String, Label) {
        let name = *KEYS.choose(&mut self.rng).expect("two");
        match self.rng.random_range(0..3) {
            0 => ("good day".to_owned(), sent),
            1 => {
                self.kept.insert((ends_far, name), sent);
                (format!("memory {name} value"), sent)
            }
            _ => {
                let kept = self.kept.get(&(ends_far, name));
                (format!("memory {name}"), kept.map_or(sent, |kept| sent.join(*kept)))
            }
        }
    }

    /// The label of what an agent answers.
    async fn said(&self, from: &Node, agent: &AgentId, sent: Option<Label>, call: (Operation, &Value)) -> Label {
        let (answer, (operation, params)) = (AnswerAttributes::default(), call);
        let attributes = Attributes { label: sent, ..Attributes::default() };
        let call = ask(&from.calls, agent, operation, params).await.expect("good parameters");
        let call = call.with_attributes(attributes).adding_to(answer.clone());
        if let Reply::Events(events) = from.calls.ask(call).await.expect("an answer") {
            let events = events.collect::<Vec<_>>().await;
            assert!(events.iter().all(Result::is_ok), "{events:?}");
        }
        answer.label().expect("a label: nothing is answered without one")
    }

    /// Tells an agent something, and looks at what it answers.
    async fn tell(&mut self) {
        let way = *[Way::Near, Way::Far, Way::Through].choose(&mut self.rng).expect("three");
        let (from_far, is_labelled) = (self.rng.random_bool(0.5), self.rng.random_bool(0.8));
        let sent = is_labelled.then(|| label_of(&mut self.rng));
        let is_elsewhere = from_far != (way == Way::Far);
        let counts = match sent {
            Some(label) => label,
            None if is_elsewhere => Label::UNLABELLED,
            None => Label::of_trusted(DataLabel::Public),
        };
        let (words, least) = self.words(way.ends_far(), counts);
        let text = if way == Way::Through { format!("forward told {words}") } else { words };
        let streams = self.rng.random_bool(0.5);
        let operation = if streams { Operation::SendStreamingMessage } else { Operation::SendMessage };
        let from = if from_far { &self.far } else { &self.near };
        let agent = if way == Way::Far { &self.told } else { &self.asking };
        let said = self.said(from, agent, sent, (operation, &message(&text))).await;
        assert_eq!(said.join(least), said, "{text:?}, {way:?}, {operation:?}, {sent:?}: {said} is below {least}");
        // Whoever lists the tasks is told at least that, whole pages as they are.
        let listed = self.said(from, agent, None, (Operation::ListTasks, &json!({}))).await;
        assert_eq!(listed.join(least), listed, "listed after {text:?}");
    }

    /// Gives the group a task, and looks at its result.
    async fn order(&mut self) {
        let sent = label_of(&mut self.rng);
        let (words, least) = self.words(false, sent);
        self.tasks += 1;
        let needs = Needs::of(Target::Agent("asking".to_owned()));
        let submit = Submit { needs, label: Some(sent), ..echo_task(self.tasks, &words) };
        let task = submit.task;
        let submitted = self.near.groups.command(self.group, Command::Submit(Box::new(submit))).await;
        submitted.expect("it is submitted");
        let ended = || {
            let look = |state: &Group| {
                let task = state.work().tasks().get(&task).filter(|task| task.state.is_finished())?;
                Some((task.state, task.label))
            };
            self.near.groups.look(self.group, look).ok().flatten()
        };
        until("it ended", || ended().is_some()).await;
        let (state, label) = ended().expect("it ended");
        assert_eq!(state, State::Completed, "{words:?}");
        let label = label.expect("a label: no result is without one");
        assert_eq!(label.join(least), label, "{words:?} as a task of a group: {label} is below {least}");
    }

    /// Hands work over, and looks at the task that it becomes.
    async fn hand_over(&mut self) {
        let sent = label_of(&mut self.rng);
        let mut params = message(&format!("work {} {NEVER}", self.given));
        params["configuration"] = json!({ "returnImmediately": true });
        let attributes = Attributes { label: Some(sent), ..Attributes::default() };
        let call = ask(&self.near.calls, &self.asking, Operation::SendMessage, &params).await;
        let call = call.expect("good parameters").with_attributes(attributes);
        let Reply::One(body) = self.near.calls.ask(call).await.expect("a task") else { panic!("it does not stream") };
        let begun: Value = serde_json::from_slice(&body).expect("JSON");
        let task = begun["task"]["id"].as_str().expect("an id");
        let words = DraftWords { remaining: vec!["All of it.".to_owned()], ..DraftWords::default() };
        let to = self.told.to_string();
        let file = self.near.calls.draft_handoff(task, &to, &words).await.expect("a task with work");
        assert_eq!(file.handoff.label.map(|label| label.join(sent)), file.handoff.label, "the document says it");
        let state = self.near.calls.hand_over(task, &to, file).await.map(|progress| progress.state);
        if let Ok(HandoffState::Given { task }) = state {
            assert!(sent.level <= DataLabel::Internal, "{sent} came there without a sign-off");
            let shown = json!({ "id": task });
            let said = self.said(&self.near, &self.told, None, (Operation::GetTask, &shown)).await;
            assert_eq!(said.join(sent), said, "{said} is below {sent}");
            self.given += 1;
        }
        let cancelled = json!({ "id": begun["task"]["id"] });
        // Handed over or not, it is not wanted any more.
        drop(self.near.one(&self.asking, Operation::CancelTask, cancelled).await);
    }
}

/// P-201
#[tokio::test(start_paused = true)]
async fn no_label_falls_on_any_way_that_data_go() {
    let mut given = 0;
    for seed in 1..=WALKS {
        let mut walk = Walk::start(seed).await;
        for _ in 0..STEPS {
            match walk.rng.random_range(0..10) {
                0..=6 => walk.tell().await,
                7 | 8 => walk.order().await,
                _ => walk.hand_over().await,
            }
        }
        given += walk.given;
    }
    assert!(given > 0, "no work was handed over");
}
