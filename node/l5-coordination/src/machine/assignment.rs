//! Who gets a task: a pure decision of the leader, which says of each candidate why it was chosen or not.

use std::cmp::Reverse;
use std::fmt;

use althing_protocol::contract::Latency;
use althing_protocol::group::{Needs, Target, WorkId};
use althing_protocol::{CallerId, PublicKey, PublisherId};
use minicbor::{Decode, Encode};

use super::work::{State, Work, WorkItem};

/// Load from which tasks are taken from a member, thousandths.
pub const STEAL_LOAD_PERMILLE: u16 = 800;
/// A member begins what it is assigned at once: a task that it has not begun after this time may be taken from it.
pub const STEAL_AFTER_MS: u64 = 1_000;
/// Load at which a member gets no task, thousandths.
pub const FULL_LOAD_PERMILLE: u16 = 1_000;

/// Agents that answer only some of the group's publishers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Answering {
    /// Their names.
    #[n(0)]
    pub agents: Vec<String>,
    /// Their capabilities.
    #[n(1)]
    pub capabilities: Vec<String>,
    /// Whom they answer.
    #[n(2)]
    pub owners: Vec<PublisherId>,
}

impl Answering {
    fn has(&self, target: &Target) -> bool {
        match target {
            Target::Agent(name) => self.agents.contains(name),
            Target::Capability(capability) => self.capabilities.contains(capability),
        }
    }

    fn answers(&self, asker: CallerId) -> bool {
        matches!(asker, CallerId::Publisher(publisher) if self.owners.contains(&publisher))
    }
}

/// A member that may get a task, as the leader knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its key.
    pub node: PublicKey,
    /// The names of the agents that it hosts and that answer everybody in the group.
    pub agents: Vec<String>,
    /// Their capabilities.
    pub capabilities: Vec<String>,
    /// Those that answer only some.
    pub answering: Vec<Answering>,
    /// Its labels.
    pub labels: Vec<String>,
    /// Memory that is free, MiB.
    pub memory_mib: u32,
    /// Processor cores.
    pub cores: u32,
    /// Disk that is free, MiB.
    pub disk_mib: u32,
    /// GPUs that are free.
    pub gpus: u32,
    /// The latency classes in which it runs agents.
    pub classes: Vec<Latency>,
    /// Whether it is alive and serves.
    pub healthy: bool,
    /// Its load, thousandths.
    pub load_permille: u16,
    /// The tasks that it has.
    pub running: u32,
    /// How far it is trusted: more is further.
    pub trust: u8,
    /// Of the tasks that it ended, those that it completed, thousandths: see [`Record::success_permille`].
    pub success_permille: u16,
    /// From what that is known.
    pub basis: Basis,
    /// Whether it declined the present attempt.
    pub declined: bool,
    /// Why it refused the task, if it did.
    pub refused: Option<String>,
}

/// How a member did the tasks that it ended, as far as that is its doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// Those that it completed, and and of which it says that gates let their results pass.
    pub verified: u32,
    /// Those that it says it completed, and nobody judged.
    pub claimed: u32,
    /// Those that failed.
    pub failed: u32,
}

impl Record {
    /// Its success rate, thousandths; whoever ended none has all of them, so that it is tried. Where results of any member are
    /// judged, a claim counts half of what a verdict does, or who claims all would come before who is measured; where none are,
    /// claims decide.
    #[must_use]
    pub fn success_permille(self, are_judged: bool) -> u16 {
        let [verified, claimed, failed] = [self.verified, self.claimed, self.failed].map(u64::from);
        let claim = if are_judged { 500 } else { 1_000 };
        match verified + claimed + failed {
            0 => 1_000,
            all => u16::try_from((verified * 1_000 + claimed * claim) / all).unwrap_or(1_000),
        }
    }

    /// From what that is known.
    #[must_use]
    pub fn basis(self) -> Basis {
        match self {
            Record { verified: 0, claimed: 0, failed: 0 } => Basis::Unknown,
            Record { claimed: 0, .. } => Basis::Measured,
            Record { verified: 0, .. } => Basis::Claimed,
            Record { .. } => Basis::Partly,
        }
    }
}

/// From what a success rate is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// From nothing: it ended no task.
    Unknown,
    /// From what the member says, and from failures.
    Claimed,
    /// From verdicts of gates in a part of the tasks.
    Partly,
    /// From verdicts of gates, and from failures.
    Measured,
}

impl Basis {
    /// In a word or two.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Basis::Unknown => "not known yet",
            Basis::Claimed => "claimed",
            Basis::Partly => "partly measured",
            Basis::Measured => "measured",
        }
    }
}

/// What was decided about one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It hosts no agent of that name.
    NoAgent(String),
    /// It hosts no agent with that capability.
    NoCapability(String),
    /// It hosts such an agent, which does not answer who submitted the task.
    NoAnswer(CallerId),
    /// It refused the task.
    Refused(String),
    /// It lacks that label.
    NoLabel(String),
    /// It does not run agents of that latency class.
    NoClass(Latency),
    /// It has less than the task needs.
    Short {
        /// Of what.
        what: &'static str,
        /// How much the task needs.
        needs: u32,
        /// How much it has.
        has: u32,
    },
    /// It is not healthy.
    Unhealthy,
    /// It has no spare capacity: its load, thousandths.
    Full(u16),
    /// It declined, and another one did not.
    Declined,
    /// It can do it. The first one gets it.
    Rank {
        /// 1 is the first.
        place: usize,
        /// The first criterion: higher is better.
        success_permille: u16,
        /// From what that is known.
        basis: Basis,
        /// The second one: lower is better.
        load_permille: u16,
        /// The third one: higher is better.
        trust: u8,
        /// The fourth one: fewer tasks are better.
        running: u32,
    },
}

impl Verdict {
    /// Its kind, for programs; it does not change when the words do.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Verdict::NoAgent(_) => "noAgent",
            Verdict::NoCapability(_) => "noCapability",
            Verdict::NoAnswer(_) => "noAnswer",
            Verdict::Refused(_) => "refused",
            Verdict::NoLabel(_) => "noLabel",
            Verdict::NoClass(_) => "noClass",
            Verdict::Short { .. } => "short",
            Verdict::Unhealthy => "unhealthy",
            Verdict::Full(_) => "full",
            Verdict::Declined => "declined",
            Verdict::Rank { .. } => "able",
        }
    }

    /// Whether it may not do the task, and why is for the submitter to know.
    #[must_use]
    pub fn forbids(&self) -> bool {
        matches!(self, Verdict::NoAnswer(_) | Verdict::Refused(_))
    }

    /// Whether it cannot do the task as it is now, however long that waits for capacity.
    #[must_use]
    pub fn is_unable(&self) -> bool {
        let lacks = matches!(self, Verdict::NoAgent(_) | Verdict::NoCapability(_) | Verdict::NoLabel(_));
        lacks || matches!(self, Verdict::NoClass(_)) || self.forbids()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::NoAgent(name) => write!(f, "hosts no agent {name}"),
            Verdict::NoCapability(capability) => write!(f, "hosts no agent with the capability {capability}"),
            Verdict::NoAnswer(asker) => write!(f, "hosts such an agent, which does not answer {asker}"),
            Verdict::Refused(reason) => write!(f, "refused the task: {reason}"),
            Verdict::NoLabel(label) => write!(f, "lacks the label {label}"),
            Verdict::NoClass(class) => write!(f, "runs no agents of the class {}", class.name()),
            Verdict::Short { what, needs, has } => write!(f, "has {has} {what}, and the task needs {needs}"),
            Verdict::Unhealthy => f.write_str("is not healthy"),
            Verdict::Full(load) => write!(f, "has no spare capacity (load {load}/1000)"),
            Verdict::Declined => f.write_str("declined this attempt"),
            Verdict::Rank { place, success_permille, basis, load_permille, trust, running } => write!(
                f,
                "rank {place}: success {success_permille}/1000 ({}), load {load_permille}/1000, trust {trust}, {running} \
                 tasks",
                basis.words()
            ),
        }
    }
}

/// Who gets a task, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Who gets it; none: it waits.
    pub chosen: Option<PublicKey>,
    /// The verdict on each candidate, in the order of the candidates.
    pub why: Vec<(PublicKey, Verdict)>,
}

/// Chooses the member that gets a task: of those that can do it, the one with the highest success rate, then the lowest
/// load, then the highest trust, then the fewest tasks, then the lowest key. Who declined the attempt gets it only when
/// all that can do it declined. Who refused the task never gets it, nor does a member whose agents do not answer `asker`, in
/// whose name it is done.
#[must_use]
pub fn choose(needs: &Needs, asker: CallerId, candidates: &[Candidate]) -> Choice {
    let excluded: Vec<Option<Verdict>> = candidates.iter().map(|candidate| exclude(needs, asker, candidate)).collect();
    let able = || candidates.iter().zip(&excluded).filter(|(_, excluded)| excluded.is_none()).map(|(able, _)| able);
    let all_declined = able().all(|candidate| candidate.declined);
    let mut ranked: Vec<&Candidate> = able().filter(|candidate| all_declined || !candidate.declined).collect();
    ranked.sort_by_key(|candidate| rank(candidate));
    let place = |node: &PublicKey| ranked.iter().position(|candidate| candidate.node == *node);
    let verdict = |(candidate, excluded): (&Candidate, Option<Verdict>)| {
        let ranked = || match place(&candidate.node) {
            Some(place) => Verdict::Rank {
                place: place + 1,
                success_permille: candidate.success_permille,
                basis: candidate.basis,
                load_permille: candidate.load_permille,
                trust: candidate.trust,
                running: candidate.running,
            },
            None => Verdict::Declined,
        };
        (candidate.node, excluded.unwrap_or_else(ranked))
    };
    Choice {
        chosen: ranked.first().map(|candidate| candidate.node),
        why: candidates.iter().zip(excluded.clone()).map(verdict).collect(),
    }
}

fn rank(candidate: &Candidate) -> (Reverse<u16>, u16, Reverse<u8>, u32, PublicKey) {
    let Candidate { success_permille, load_permille, running, trust, node, .. } = *candidate;
    (Reverse(success_permille), load_permille, Reverse(trust), running, node)
}

/// By which filter a candidate is excluded, whether it declined or not.
fn exclude(needs: &Needs, asker: CallerId, candidate: &Candidate) -> Option<Verdict> {
    if let Some(reason) = &candidate.refused {
        return Some(Verdict::Refused(reason.clone()));
    }
    if let Some(verdict) = lacks(&needs.target, asker, candidate) {
        return Some(verdict);
    }
    if let Some(label) = needs.labels.iter().find(|label| !candidate.labels.contains(label)) {
        return Some(Verdict::NoLabel(label.clone()));
    }
    if let Some(class) = needs.class.filter(|class| !candidate.classes.contains(class)) {
        return Some(Verdict::NoClass(class));
    }
    let amounts = [
        ("MiB of memory", needs.memory_mib, candidate.memory_mib),
        ("cores", needs.cores, candidate.cores),
        ("MiB of disk", needs.disk_mib, candidate.disk_mib),
        ("GPUs", needs.gpus, candidate.gpus),
    ];
    for (what, needs, has) in amounts {
        if let Some(needs) = needs.filter(|needs| *needs > has) {
            return Some(Verdict::Short { what, needs, has });
        }
    }
    if !candidate.healthy {
        return Some(Verdict::Unhealthy);
    }
    (candidate.load_permille >= FULL_LOAD_PERMILLE).then_some(Verdict::Full(candidate.load_permille))
}

/// What keeps a candidate's agents from doing a task of `asker`.
fn lacks(target: &Target, asker: CallerId, candidate: &Candidate) -> Option<Verdict> {
    let is_for_all = match target {
        Target::Agent(name) => candidate.agents.contains(name),
        Target::Capability(capability) => candidate.capabilities.contains(capability),
    };
    let mut some = candidate.answering.iter().filter(|some| some.has(target)).peekable();
    if is_for_all {
        return None;
    }
    if some.peek().is_some() {
        return if some.any(|some| some.answers(asker)) { None } else { Some(Verdict::NoAnswer(asker)) };
    }
    Some(match target {
        Target::Agent(name) => Verdict::NoAgent(name.clone()),
        Target::Capability(capability) => Verdict::NoCapability(capability.clone()),
    })
}

/// Why no member may do a task; none while one may, or may when it is back or has capacity. `known` says of a member whether
/// it reported lately.
#[must_use]
pub fn hopeless(choice: &Choice, known: impl Fn(&PublicKey) -> bool) -> Option<String> {
    let is_over = choice
        .why
        .iter()
        .all(|(node, verdict)| matches!(verdict, Verdict::Refused(_)) || known(node) && verdict.is_unable());
    if !is_over || !choice.why.iter().any(|(_, verdict)| verdict.forbids()) {
        return None;
    }
    // Those that must not first: the text is cut when it is too long.
    let (forbidden, others): (Vec<_>, Vec<_>) = choice.why.iter().partition(|(_, verdict)| verdict.forbids());
    let said = |(node, verdict): &(PublicKey, Verdict)| format!("{} {verdict}", node.did());
    Some(forbidden.into_iter().chain(others).map(said).collect::<Vec<_>>().join("; "))
}

/// Which task an idle member takes, and from whom: the oldest one, not begun, that it can do and did not decline, of the
/// most loaded member that has such a task, and either a load above [`STEAL_LOAD_PERMILLE`] or has not begun the task within
/// [`STEAL_AFTER_MS`]. `loads` are those of all members; `now_ms` is the time of day.
/// `asker` says in whose name a task is done.
#[must_use]
pub fn steal(
    idle: &Candidate,
    loads: &[(PublicKey, u16)],
    work: &Work,
    now_ms: u64,
    asker: impl Fn(&WorkItem) -> CallerId,
) -> Option<(WorkId, PublicKey)> {
    let mut loaded: Vec<&(PublicKey, u16)> = loads.iter().filter(|(node, _)| *node != idle.node).collect();
    loaded.sort_by_key(|(node, load)| (Reverse(*load), *node));
    loaded.into_iter().find_map(|(node, load)| {
        let waits = |task: &&WorkItem| {
            let given_ms = task.held.map_or(now_ms, |held| held.until_ms.saturating_sub(task.submit.lease_ms));
            *load > STEAL_LOAD_PERMILLE || now_ms >= given_ms.saturating_add(STEAL_AFTER_MS)
        };
        let mut waiting = work.tasks().held_by(node).filter(|task| task.state == State::Assigned).filter(waits);
        let task = waiting.find(|task| {
            let may = !task.declined.contains(&idle.node) && task.refused.of(&idle.node).is_none();
            may && exclude(&task.submit.needs, asker(task), idle).is_none()
        })?;
        Some((task.id(), *node))
    })
}

#[cfg(test)]
mod tests;
