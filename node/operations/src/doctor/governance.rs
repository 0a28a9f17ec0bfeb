//! What the doctor says of policies, of what waits for people, and of the audit log: what is blocked there works in all other
//! layers.

use althing_failure::NodeStep;
use althing_governance::machine::node_profile::Demand;
use althing_governance::{Governance, LabelTally, NodeProfile, tally_labels};

use super::finding::{Finding, counted, fine, note, wrong};
use crate::governance::WitnessState;
use crate::operations::Operations;

/// Calls that are named; more are counted.
const NAMED_MAX: usize = 5;

/// What is decided, asked and recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GovernanceHealth {
    /// Whether a set of policies is in force.
    pub has_policy: bool,
    /// Whether there is a file of policies that cannot be read: what policies decide about is denied then.
    pub is_broken: bool,
    /// What is wrong with it, or should be looked at, each with its place.
    pub findings: Vec<String>,
    /// Why the file of people cannot be read, so that the owner alone is known.
    pub people_fault: Option<String>,
    /// Calls that wait for people, each as `agent "NAME" waits to call SERVER/TOOL`, the oldest first.
    pub pending: Vec<String>,
    /// Why nothing can be recorded.
    pub audit_failure: Option<String>,
    /// What is demanded of the node.
    pub profile: NodeProfile,
    /// Those who sign the log.
    pub witnesses: Vec<WitnessState>,
    /// The key of the log, which its witnesses must know.
    pub log_key: String,
    /// After which log this one began, and how many entries of that there were, where a witness knew better.
    pub after_log: Option<String>,
    /// When all this is so, Unix milliseconds.
    pub now_ms: u64,
    /// What labels would have turned of the decisions that are remembered.
    pub labels: LabelTally,
    /// Bytes of the bodies beside the log.
    pub body_bytes: u64,
    /// What they may have; 0 where that is not known.
    pub body_bytes_max: u64,
}

impl GovernanceHealth {
    /// As it is now.
    pub(super) fn of(node: &Operations) -> GovernanceHealth {
        let governance: &Governance = &node.governance;
        let (policy, audit) = (governance.policy(), governance.audit());
        let usage = audit.usage();
        let waits = governance
            .pending()
            .into_iter()
            .map(|ask| format!("agent {:?} waits to call {}", ask.agent.name(), ask.action));
        GovernanceHealth {
            has_policy: policy.digest.is_some(),
            is_broken: policy.is_broken,
            findings: policy.findings.iter().map(ToString::to_string).collect(),
            people_fault: governance.people_fault(),
            pending: waits.collect(),
            audit_failure: audit.availability().err().map(|error| error.to_string()),
            profile: node.config.governance.profile,
            witnesses: node.witnesses.states(),
            log_key: audit.log_key().to_string(),
            after_log: audit.began_after().unwrap_or_default(),
            now_ms: node.clock().now_ms(),
            // What cannot be read of it is no fault: the audit log is what proves what was done.
            labels: tally_labels(governance).unwrap_or_default(),
            body_bytes: usage.bytes,
            body_bytes_max: usage.share,
        }
    }
}

/// Judges it. What waits for a person is wrong, as what waits for somebody to say what became of a call is.
pub(super) fn judge(health: &GovernanceHealth, findings: &mut Vec<Finding>) {
    policies(health, findings);
    if let Some(why) = &health.people_fault {
        let what = format!("the file of people cannot be read, so that nobody but the owner is asked: {why}");
        findings.push(wrong("L7", what, "correct the text, and load it again"));
    }
    waiting(&health.pending, findings);
    audit(health, findings);
    findings.extend(health.witnesses.iter().flat_map(|witness| witnessed(witness, health)));
    if let Some(before) = &health.after_log {
        let what = format!("the audit log goes on after {before}, of which a witness knew more, or something else");
        findings.push(note(
            "L7",
            what,
            "give auditors the keys of both logs, and find out who restored or changed the data",
        ));
    }
    if let Some(unseen) = health.profile.blind_spots() {
        findings.push(fine("L7", format!("the profile {} is fulfilled; it does not check {unseen}", health.profile)));
    }
}

/// How a witness stands to the log.
fn witnessed(witness: &WitnessState, health: &GovernanceHealth) -> Vec<Finding> {
    let WitnessState { name, url, signed, failure, contradiction } = witness;
    let mut findings = Vec::new();
    if let Some(what) = contradiction {
        let remedy = "compare copies and exported entries from before with the log, and find out who restored or changed the \
                      node's data";
        findings.push(wrong("L7", what.clone(), remedy));
    }
    if let Some((since_ms, why)) = failure {
        let seconds = health.now_ms.saturating_sub(*since_ms) / 1_000;
        let what = format!("nobody vouches for what was recorded in the last {seconds} s at {url}: {why}");
        let remedy = format!("see that it runs, can be reached, and was given the key of the log: {}", health.log_key);
        findings.push(wrong("L7", what, remedy));
    } else if let Some((size, _)) = signed {
        findings.push(fine("L7", format!("the witness {name} signed the audit log with {size} entries")));
    }
    findings
}

fn policies(health: &GovernanceHealth, findings: &mut Vec<Finding>) {
    if health.has_policy {
        findings.push(fine("L7", "policies are in force, beside the contracts of agents"));
    } else if !health.is_broken {
        let what = match health.profile.demands(Demand::Labels) {
            true => "no policies are in force: contracts, the profiles of tools and labels decide",
            false => "no policies are in force: contracts and the profiles of tools decide alone",
        };
        findings.push(fine("L7", what));
        findings.extend(labels(health));
    }
    let told = |finding: &String| {
        let found = if health.is_broken {
            let what =
                format!("the policies of this node cannot be read, and what they decide about is denied: {finding}");
            wrong("L7", what, "correct the text")
        } else if !health.has_policy {
            // Nothing else is found where no set is in force.
            wrong("L7", format!("of the policies: {finding}"), "bring the text back")
        } else {
            note("L7", format!("of the policies: {finding}"), "correct the text")
        };
        found.then(NodeStep::LoadPolicy)
    };
    findings.extend(health.findings.iter().map(told));
}

/// What labels would decide if they did: nothing is wrong with that, and whoever puts policies in force knows before what they stop.
fn labels(health: &GovernanceHealth) -> Option<Finding> {
    let LabelTally { denials, questions, newest } = health.labels;
    let newest = newest.filter(|_| !health.profile.demands(Demand::Labels))?;
    let said = [(denials, "denied"), (questions, "asked somebody about")].into_iter().filter(|(count, _)| *count > 0);
    let said: Vec<String> = said.map(|(count, what)| format!("{what} {}", counted(count, "call"))).collect();
    let what = format!(
        "of what is remembered labels would have {}, where policies were in force or the profile had them decide",
        said.join(" and ")
    );
    Some(note("L7", what, "look at the newest").then(NodeStep::ExplainDecision(newest)))
}

fn waiting(pending: &[String], findings: &mut Vec<Finding>) {
    let Some(more) = pending.len().checked_sub(1) else { return };
    let mut what = pending.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    if more >= NAMED_MAX {
        what += &format!("; and {} more", pending.len() - NAMED_MAX);
    }
    let told = wrong("L7", format!("blocked until people agree: {what}"), "answer what is asked, or let others do it");
    findings.push(told.then(NodeStep::ListPending));
}

fn audit(health: &GovernanceHealth, findings: &mut Vec<Finding>) {
    let GovernanceHealth { audit_failure, body_bytes, body_bytes_max, .. } = health;
    if let Some(why) = audit_failure {
        let what = format!("nothing can be recorded, so that nothing with an effect is done: {why}");
        findings.push(wrong("L7", what, "make room on the disk of the node's data, or mend what the reason names"));
    }
    if *body_bytes_max != 0 && u128::from(*body_bytes) * 5 >= u128::from(*body_bytes_max) * 4 {
        let what = format!(
            "the bodies of the audit log have {} MiB of the {} MiB that they may have; when these are full, nothing with an \
             effect is done",
            body_bytes >> 20,
            body_bytes_max >> 20
        );
        findings.push(wrong("L7", what, "let old bodies go; the entries stay").then(NodeStep::PruneAudit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(health: &GovernanceHealth) -> Vec<Finding> {
        let mut findings = Vec::new();
        judge(health, &mut findings);
        findings
    }

    #[test]
    fn a_node_without_policies_says_so_and_is_well() {
        let found = findings(&GovernanceHealth::default());
        assert!(found.len() == 1 && found[0].fine && found[0].what.starts_with("no policies"), "{found:?}");
        let found = findings(&GovernanceHealth { has_policy: true, ..GovernanceHealth::default() });
        assert!(found.len() == 1 && found[0].fine && found[0].what.starts_with("policies are in force"), "{found:?}");
    }

    #[test]
    fn a_file_of_policies_that_is_gone_is_wrong() {
        let findings_of = vec!["policy.cedar: its file is gone: take it out".to_owned()];
        let found = findings(&GovernanceHealth { findings: findings_of, ..GovernanceHealth::default() });
        assert!(found.len() == 2 && found[0].fine && !found[1].fine, "{found:?}");
        assert!(found[1].what.contains("its file is gone"), "{found:?}");
    }

    #[test]
    fn what_labels_would_have_decided_is_noted_and_is_no_fault_and_not_told_where_they_decide() {
        let labels = LabelTally { denials: 2, questions: 1, newest: Some(41) };
        let health = GovernanceHealth { labels, ..GovernanceHealth::default() };
        let found = findings(&health);
        assert!(found.len() == 2 && found.iter().all(|one| one.fine), "{found:?}");
        let says = "labels would have denied 2 calls and asked somebody about 1 call";
        assert!(found[1].what.contains(says), "{found:?}");
        assert_eq!(found[1].next, Some(NodeStep::ExplainDecision(41).into()));
        let asks = GovernanceHealth { labels: LabelTally { denials: 0, ..labels }, ..health.clone() };
        assert!(!findings(&asks)[1].what.contains("denied"), "{:?}", findings(&asks));
        for decides in [
            GovernanceHealth { has_policy: true, ..health.clone() },
            GovernanceHealth { profile: NodeProfile::Fleet, ..health.clone() },
            GovernanceHealth { labels: LabelTally::default(), ..health },
        ] {
            let found = findings(&decides);
            assert!(found.iter().all(|one| !one.what.contains("would have")), "{found:?}");
        }
    }

    #[test]
    fn a_set_that_cannot_be_read_is_wrong_and_one_to_look_at_is_noted() {
        let findings_of = vec!["line 2: no".to_owned()];
        let broken = GovernanceHealth { is_broken: true, findings: findings_of, ..GovernanceHealth::default() };
        let found = findings(&broken);
        assert!(found.len() == 1 && !found[0].fine && found[0].what.contains("line 2: no"), "{found:?}");
        assert_eq!(found[0].next, Some(NodeStep::LoadPolicy.into()));
        let found = findings(&GovernanceHealth { has_policy: true, is_broken: false, ..broken });
        assert!(found.len() == 2 && found.iter().all(|one| one.fine), "{found:?}");
    }

    #[test]
    fn witnesses_are_told_of_and_those_who_do_not_sign_or_know_better_are_wrong() {
        let good = WitnessState {
            name: "w.example".to_owned(),
            url: "https://w.example".to_owned(),
            signed: Some((7, 1)),
            ..WitnessState::default()
        };
        let of = |witness: &WitnessState| {
            let witnesses = vec![witness.clone()];
            findings(&GovernanceHealth {
                witnesses,
                now_ms: 61_000,
                log_key: "log+k".to_owned(),
                ..GovernanceHealth::default()
            })
        };
        let found = of(&good);
        assert!(found[1].fine && found[1].what.contains("w.example signed the audit log with 7"), "{found:?}");
        let silent = WitnessState { failure: Some((1_000, "no route".to_owned())), ..good.clone() };
        let found = of(&silent);
        assert!(found.len() == 2 && !found[1].fine && found[1].what.contains("last 60 s"), "{found:?}");
        assert!(found[1].what.contains("no route") && found[1].remedy.ends_with("log+k"), "{found:?}");
        let found = of(&WitnessState { contradiction: Some("it knows more".to_owned()), ..good });
        assert!(found.len() == 3 && !found[1].fine && found[1].what == "it knows more" && found[2].fine, "{found:?}");
        let after = GovernanceHealth { after_log: Some("audit/a@3".to_owned()), ..GovernanceHealth::default() };
        assert!(findings(&after)[1].what.contains("audit/a@3"));
    }

    #[test]
    fn a_profile_is_told_with_what_it_does_not_check() {
        let found = findings(&GovernanceHealth { profile: NodeProfile::Regulated, ..GovernanceHealth::default() });
        assert!(found.len() == 2 && found[0].what.ends_with("labels decide"), "{found:?}");
        assert!(found[1].fine && found[1].what.contains("does not check"), "{found:?}");
    }

    #[test]
    fn a_file_of_people_that_cannot_be_read_is_wrong() {
        let health = GovernanceHealth { people_fault: Some("line 3: no".to_owned()), ..GovernanceHealth::default() };
        let found = findings(&health);
        assert!(found.len() == 2 && !found[1].fine && found[1].what.ends_with("line 3: no"), "{found:?}");
    }

    #[test]
    fn what_waits_for_people_is_named_and_many_are_counted() {
        let of = |count: usize| GovernanceHealth {
            pending: (0..count).map(|at| format!("agent \"a{at}\" waits to call shop/order")).collect(),
            ..GovernanceHealth::default()
        };
        let found = findings(&of(1));
        assert!(
            !found[1].fine && found[1].what.contains("agent \"a0\"") && !found[1].what.contains("more"),
            "{found:?}"
        );
        assert_eq!(found[1].next, Some(NodeStep::ListPending.into()));
        let found = findings(&of(5));
        assert!(found[1].what.contains("\"a4\"") && !found[1].what.contains("more"), "{found:?}");
        let found = findings(&of(7));
        assert!(found[1].what.ends_with("and 2 more") && !found[1].what.contains("\"a5\""), "{found:?}");
    }

    #[test]
    fn the_log_is_named_when_it_fails_and_from_four_fifths_on() {
        let full =
            |bytes: u64| GovernanceHealth { body_bytes: bytes, body_bytes_max: 5 << 20, ..GovernanceHealth::default() };
        assert_eq!(findings(&full((4 << 20) - 1)).len(), 1);
        let found = findings(&full(4 << 20));
        assert!(!found[1].fine && found[1].what.contains("4 MiB of the 5 MiB"), "{found:?}");
        assert_eq!(found[1].next, Some(NodeStep::PruneAudit.into()));
        let failed = GovernanceHealth { audit_failure: Some("the disk is full".to_owned()), ..full(0) };
        let found = findings(&failed);
        assert!(!found[1].fine && found[1].what.ends_with("the disk is full"), "{found:?}");
    }
}
