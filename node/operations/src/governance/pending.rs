//! What waits for the yes of a person: calls of agents, steps of workflows of all groups, releases in all registries.

use std::collections::BTreeMap;

use althing_coordination::Reader;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::read_scope::ReadScope;
use althing_coordination::machine::workflow::{Run, RunState, StepState};
use althing_governance::PendingAsk;
use althing_governance::machine::consent::escaped;
use althing_governance::machine::delivery::DeliveryTrouble;
use althing_protocol::group::GroupId;
use althing_protocol::hex;
use futures::future::join_all;

use crate::operations::Operations;
use crate::registries::Pending;

/// Characters of what a workflow asks: agents wrote what came of its earlier steps, and what is asked must stay on a screen.
const QUESTION_CHARS_MAX: usize = 400;
/// Characters of another text that somebody else wrote.
const TEXT_CHARS_MAX: usize = 200;
/// Approvers of a release that are named.
const APPROVERS_SHOWN: usize = 16;

/// All that waits, as far as it was heard.
#[derive(Debug, Default)]
pub struct PendingWork {
    /// Calls of agents here, the oldest first.
    pub calls: Vec<PendingAsk>,
    /// Who could not be told of one of these, by its id.
    pub untold: BTreeMap<String, Vec<DeliveryTrouble>>,
    /// Steps of workflows that ask, group by group.
    pub steps: Vec<PendingStep>,
    /// Releases that wait for approvals, registry by registry.
    pub releases: Vec<PendingRelease>,
    /// Places that were not heard.
    pub unread: Vec<PendingGap>,
}

/// A step of a workflow that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingStep {
    /// Whose workflow it is.
    pub group: GroupId,
    /// The run's id.
    pub run: String,
    /// What the workflow is called.
    pub workflow: String,
    /// Which step of it.
    pub step: String,
    /// In the words of the workflow, with what came of earlier steps: on one line, all of it visible, cut in its middle.
    pub question: String,
    /// When the run began, Unix milliseconds.
    pub started_ms: u64,
    /// Until when it may be answered, Unix milliseconds.
    pub due_ms: Option<u64>,
}

/// A release that waits for approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRelease {
    /// The address of the registry.
    pub registry: String,
    /// The id of what a build machine staged, or `urn:althing:…@VERSION`.
    pub id: String,
    /// By id.
    pub agent: String,
    /// Of the agent.
    pub version: String,
    /// What else is known of it, a line for each.
    pub outline: Vec<String>,
    /// How many must approve it.
    pub wanted: u32,
    /// When a build machine handed it in, Unix milliseconds; none of what its publisher signed already.
    pub staged_ms: Option<u64>,
}

/// A place that was not heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingGap {
    /// The group's name, or the registry's address.
    pub at: String,
    /// The reason.
    pub why: String,
}

/// Asks everywhere. Registries are asked at the same time; one that does not answer hides nothing of the others.
pub async fn pending(node: &Operations) -> PendingWork {
    let mut work = PendingWork { calls: node.governance.pending(), untold: untold(node), ..PendingWork::default() };
    for group in node.groups.list().iter().filter(|group| group.standing == "member") {
        match Reader::of(&node.groups, group.id).look(|state, scope| asking(group.id, state, scope)) {
            Ok(steps) => work.steps.extend(steps),
            Err(error) => work.unread.push(gap(&group.name, &error)),
        }
    }
    let registries: Vec<String> = node.registries.list().into_keys().collect();
    let publishing = node.registries.publishing();
    let asked = join_all(registries.iter().map(|at| publishing.pending(Some(at.as_str())))).await;
    for (at, answer) in registries.iter().zip(asked) {
        match answer {
            Ok((_, waiting)) => work.releases.extend(releases(at, waiting)),
            Err(error) => work.unread.push(gap(at, &error)),
        }
    }
    work
}

/// A place that was not heard. Others gave groups their names, and a registry may say why it refuses.
fn gap(at: &str, error: &dyn std::fmt::Display) -> PendingGap {
    PendingGap { at: escaped(at, TEXT_CHARS_MAX), why: escaped(&error.to_string(), TEXT_CHARS_MAX) }
}

/// Who could not be told of what waits.
fn untold(node: &Operations) -> BTreeMap<String, Vec<DeliveryTrouble>> {
    let open = node.governance.open_questions().into_iter();
    let troubles = open.map(|question| (hex(&question.id), node.delivery.troubles(&question)));
    troubles.filter(|(_, troubles)| !troubles.is_empty()).collect()
}

/// The steps that ask of the runs that are shown here.
fn asking(group: GroupId, state: &Group, scope: &ReadScope<'_>) -> Vec<PendingStep> {
    let is_shown = |run: &&Run| run.state == RunState::Running && scope.of_author(run.author);
    let mut runs: Vec<&Run> = state.flows().runs().iter().filter(is_shown).collect();
    runs.sort_by_key(|run| run.number);
    runs.into_iter().flat_map(|run| steps(group, run)).collect()
}

fn steps(group: GroupId, run: &Run) -> Vec<PendingStep> {
    let all = run.workflow.steps.iter().zip(&run.steps).filter(|(_, now)| now.state == StepState::Asking);
    let step = all.map(|(step, now)| PendingStep {
        group,
        run: run.id.to_string(),
        workflow: run.workflow.name.clone(),
        step: step.id.clone(),
        question: escaped(now.question.as_deref().unwrap_or_default().trim(), QUESTION_CHARS_MAX),
        started_ms: run.started_ms,
        due_ms: now.due_ms,
    });
    step.collect()
}

/// What a registry says of them is its word alone, so that all of it is written out; an id is what it is asked for again.
fn releases(at: &str, waiting: Pending) -> Vec<PendingRelease> {
    let Pending { staged, waiting } = waiting;
    let shown = |text: &str| escaped(text, TEXT_CHARS_MAX);
    let staged = staged.into_iter().map(|one| PendingRelease {
        registry: at.to_owned(),
        id: one.id,
        agent: shown(&one.agent),
        version: shown(&one.version),
        outline: vec![format!("sha256 {}", shown(&one.digest)), format!("{} bytes", one.bytes)],
        wanted: 1,
        staged_ms: Some(one.at_ms),
    });
    let released = waiting.into_iter().map(|one| PendingRelease {
        registry: at.to_owned(),
        id: format!("{}@{}", one.agent, one.version),
        outline: approvers(&one.approved_by),
        agent: shown(&one.agent),
        version: shown(&one.version),
        wanted: u32::from(one.wanted),
        staged_ms: None,
    });
    staged.chain(released).collect()
}

/// Who approved a release, a line for each.
fn approvers(all: &[String]) -> Vec<String> {
    let more = all.len().saturating_sub(APPROVERS_SHOWN);
    let shown = all.iter().take(APPROVERS_SHOWN).map(|by| format!("approved by {}", escaped(by, TEXT_CHARS_MAX)));
    shown.chain((more > 0).then(|| format!("and by {more} others"))).collect()
}

#[cfg(test)]
mod tests {
    use althing_coordination::machine::workflow::StepNow;
    use althing_protocol::group::{Action, Author, Step, WorkId, Workflow};
    use althing_protocol::{PublisherId, is_hidden};
    use althing_registry_client::{ListedStaged, ListedWaiting};

    use super::*;
    use crate::tests::started;

    /// What is asked of the only step of a run.
    fn asked(question: &str) -> PendingStep {
        let owner = PublisherId::from_digest([3; 32]);
        let step = Step::new("ask", &[], Action::Approval("Send {{input}}?".to_owned()));
        let run = Run {
            id: WorkId::from_bytes([4; 16]),
            workflow: Workflow { name: "letter".to_owned(), steps: vec![step] },
            input: String::new(),
            author: Author::Publisher(owner),
            number: 1,
            started_ms: 1,
            state: RunState::Running,
            resumed: 0,
            ended: None,
            schedule: None,
            owner,
            label: None,
            steps: vec![StepNow {
                state: StepState::Asking,
                question: Some(question.to_owned()),
                ..StepNow::default()
            }],
        };
        steps(GroupId::from_digest([1; 32]), &run).pop().expect("it asks")
    }

    #[test]
    fn what_an_agent_answered_makes_no_line_of_what_a_step_asks_and_moves_no_text_about() {
        let forged = "Send ok\nneeds    nothing\r\tuntil\u{202e}9902\u{1b}[2J\u{2028}?\n";
        let told = asked(forged).question;
        assert_eq!(told, "Send ok\\u{a}needs    nothing\\u{d}\\u{9}until\\u{202e}9902\\u{1b}[2J\\u{2028}?");
        assert_eq!(asked("Send 漢?\n").question, "Send 漢?");
        let many = format!("Send {}to the bank?", "\n".repeat(64 << 10));
        let told = asked(&many).question;
        assert!(told.starts_with("Send \\u{a}") && told.ends_with("\\u{a}to the bank?"), "{told}");
        assert!(told.contains(" …(65153 characters)… ") && told.chars().count() < 2_100, "{told}");
        assert_eq!(told.chars().find(|c| c.is_control() || is_hidden(*c)), None);
    }

    #[test]
    fn what_a_registry_says_of_releases_and_why_it_refuses_is_written_out() {
        let forged = |text: &str| format!("{text}\nneeds    nothing\u{202e}\u{1b}[2J");
        let waiting = ListedWaiting {
            agent: forged("urn:b"),
            version: forged("2.0.0"),
            approved_by: vec![forged("urn:c"); 40],
            wanted: 2,
        };
        let listed = releases("https://r", Pending { staged: Vec::new(), waiting: vec![waiting] }).remove(0);
        let refused = gap(&forged("crew"), &forged("no"));
        assert_eq!(listed.agent, "urn:b\\u{a}needs    nothing\\u{202e}\\u{1b}[2J");
        assert_eq!((listed.outline.len(), listed.outline[16].as_str()), (17, "and by 24 others"));
        let all = [&listed.version, &listed.outline[0], &refused.at, &refused.why];
        assert!(all.iter().all(|text| !text.contains(|c: char| c.is_control() || is_hidden(c))), "{all:?}");
    }

    #[test]
    fn releases_are_named_by_what_approves_them() {
        let staged = ListedStaged {
            id: "0a".to_owned(),
            agent: "urn:a".to_owned(),
            version: "1.0.0".to_owned(),
            digest: "0f".to_owned(),
            bytes: 7,
            at_ms: 9,
        };
        let (agent, version) = ("urn:b".to_owned(), "2.0.0".to_owned());
        let waiting = ListedWaiting { agent, version, approved_by: vec!["urn:c".to_owned()], wanted: 2 };
        let listed = releases("https://r", Pending { staged: vec![staged], waiting: vec![waiting] });
        let told: Vec<(&str, u32, Option<u64>)> =
            listed.iter().map(|one| (one.id.as_str(), one.wanted, one.staged_ms)).collect();
        assert_eq!(told, [("0a", 1, Some(9)), ("urn:b@2.0.0", 2, None)]);
        assert_eq!(listed[0].outline, ["sha256 0f", "7 bytes"]);
        assert_eq!(listed[1].outline, ["approved by urn:c"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn where_nothing_waits_nothing_is_listed_and_nothing_is_missing() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let work = pending(&node).await;
        assert!(work.calls.is_empty() && work.steps.is_empty() && work.releases.is_empty(), "{work:?}");
        assert_eq!((work.unread, work.untold.len()), (Vec::new(), 0));
        node.shut_down().await;
    }
}
