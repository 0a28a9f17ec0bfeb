//! Who is told that a question waits, when, by which way, and what: the ways of a person one after another, the owner when nobody
//! answers, and again with growing pauses where a way fails. Nothing goes a way that is not for data of its label.

mod rows;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::contract::DataLabel;
use althing_protocol::{Digest, Label, digest, hex, visible};
use althing_td::{ReachSpec, Sandbox};
use serde_json::{Value, json};

use super::consent::{AskId, Need};
use super::people::People;

/// How long a way that fails is tried, milliseconds.
pub const TRY_FOR_MS: u64 = 24 * 60 * 60 * 1_000;
/// Before the second attempt, milliseconds; each pause is twice the one before.
pub const PAUSE_FIRST_MS: u64 = 30_000;
/// The longest pause, milliseconds.
pub const PAUSE_MAX_MS: u64 = 60 * 60 * 1_000;
/// The shortest time until the next way is taken, milliseconds.
pub const STEP_MIN_MS: u64 = 60_000;
/// The longest one, milliseconds.
pub const STEP_MAX_MS: u64 = 15 * 60 * 1_000;
/// Characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 200;
/// Ways of one question.
const WAYS_MAX: usize = 256;

/// A question that waits, as far as people are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenQuestion {
    /// By which it is answered.
    pub id: AskId,
    /// Whose call it is.
    pub agent: String,
    /// The call: `server/tool`.
    pub action: String,
    /// Who must agree.
    pub needs: Vec<Need>,
    /// Who answered already.
    pub answered: BTreeSet<String>,
    /// Of what is asked about.
    pub label: Label,
    /// The arguments as a person is shown them.
    pub outline: Vec<String>,
    /// When it was asked, Unix milliseconds.
    pub asked_ms: u64,
    /// Until when somebody may answer, Unix milliseconds.
    pub expires_ms: u64,
}

impl OpenQuestion {
    /// Who is asked and did not answer.
    fn asked(&self, people: &People) -> BTreeSet<String> {
        let of_need = |need: &Need| -> Vec<String> {
            match need {
                Need::Consent { person } => vec![person.clone()],
                Need::SignOff { role, but_for, .. } => people.holders(role, but_for).map(str::to_owned).collect(),
            }
        };
        self.needs.iter().flat_map(of_need).filter(|person| !self.answered.contains(person)).collect()
    }

    /// Until the next way is taken: a quarter of the time that there is.
    fn step_ms(&self) -> u64 {
        (self.expires_ms.saturating_sub(self.asked_ms) / 4).clamp(STEP_MIN_MS, STEP_MAX_MS)
    }

    /// What is told on a way. The arguments and the call are left out where the way is not for data of that label.
    #[must_use]
    pub fn body(&self, notice: &Notice) -> Value {
        let id = hex(&self.id);
        let mut body = json!({
            "kind": "question",
            "id": id,
            "person": notice.person,
            "escalated": notice.is_escalation,
            "agent": self.agent,
            "data": self.label.level.name(),
            "askedMs": self.asked_ms,
            "expiresMs": self.expires_ms,
            "answer": format!("althing approve {id}"),
        });
        if may_show(&notice.way, self.label) {
            body["action"] = self.action.as_str().into();
            body["outline"] = self.outline.as_slice().into();
        }
        body
    }
}

/// Whether what has that label may go that way. Nobody says of a way how far it is cleared, so that what leaves the node is public,
/// and what stays on this machine at most internal; and no agent is given what nobody vouches for, since it might do as it is told.
#[must_use]
pub fn may_show(way: &ReachSpec, label: Label) -> bool {
    match way {
        ReachSpec::Url { .. } => label.level == DataLabel::Public,
        ReachSpec::Command { .. } => label.level <= DataLabel::Internal,
        ReachSpec::Agent(_) => label.level == DataLabel::Public && label.trusted,
    }
}

/// A way in words, without what may be a secret in an address or an argument.
#[must_use]
pub fn way_name(way: &ReachSpec) -> String {
    match way {
        ReachSpec::Url { url, .. } => {
            let end = url.find(['?', '#']).unwrap_or(url.len());
            format!("url {}", &url[..end])
        }
        ReachSpec::Command { command, .. } => format!("command {}", command.first().map_or("", String::as_str)),
        ReachSpec::Agent(name) => format!("agent {name}"),
    }
}

/// By what a way is known again, also where others are written before it.
fn way_digest(way: &ReachSpec) -> Digest {
    let text = match way {
        ReachSpec::Url { url, secret } => format!("url\n{url}\n{}", secret.as_deref().unwrap_or_default()),
        ReachSpec::Command { command, sandbox } => {
            // One that failed for what it may reach is tried anew where it may reach more.
            let may = if sandbox.is_default() { String::new() } else { format!("\n\n{}", written(sandbox)) };
            format!("command\n{}{may}", command.join("\n"))
        }
        ReachSpec::Agent(name) => format!("agent\n{name}"),
    };
    digest(text.as_bytes())
}

fn written(sandbox: &Sandbox) -> String {
    serde_json::to_string(sandbox).unwrap_or_default()
}

/// One message to one person, which is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The question.
    pub ask: AskId,
    /// Who is told.
    pub person: String,
    /// How.
    pub way: ReachSpec,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Whether the person is told because those who are asked do not answer.
    pub is_escalation: bool,
}

impl Notice {
    /// The id of the message that tells it to an agent: the same one of each attempt, so that nobody is told twice by one that was taken.
    #[must_use]
    pub fn message_id(&self) -> String {
        format!("{}-{}", hex(&self.ask), self.person)
    }
}

/// The question of which a message of that id would tell somebody, 32 hexadecimal digits; none where it is no such id.
pub(crate) fn asked_in(message_id: &str) -> Option<&str> {
    message_id.split_once('-').map(|(ask, _)| ask)
}

/// What is due, and when to look again, Unix milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueNotices {
    /// The messages to send.
    pub notices: Vec<Notice>,
    /// When more is due, if nothing changes.
    pub next_ms: Option<u64>,
}

impl DueNotices {
    fn look_at(&mut self, at_ms: u64) {
        self.next_ms = Some(self.next_ms.map_or(at_ms, |next| next.min(at_ms)));
    }
}

/// Somebody could not be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTrouble {
    /// Who.
    pub person: String,
    /// How it was tried; none where nobody said how they are reached.
    pub way: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it failed.
    pub reason: String,
    /// When it is tried again, Unix milliseconds; none where it is not.
    pub next_ms: Option<u64>,
}

/// How far one way came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Progress {
    /// The way, in words.
    way: String,
    first_ms: u64,
    attempts: u32,
    next_ms: u64,
    told_ms: Option<u64>,
    failure: Option<String>,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.told_ms.is_some() || self.next_ms > self.first_ms.saturating_add(TRY_FOR_MS)
    }
}

/// The pause after that many attempts.
fn pause_ms(attempts: u32) -> u64 {
    let doubled = PAUSE_FIRST_MS.checked_shl(attempts.saturating_sub(1).min(32)).unwrap_or(PAUSE_MAX_MS);
    doubled.min(PAUSE_MAX_MS)
}

/// A person, and the digest of a way to them.
type WayKey = (String, Digest);

/// Who was told of which question, and how often it was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deliveries {
    of: BTreeMap<AskId, BTreeMap<WayKey, Progress>>,
}

impl Deliveries {
    /// What is due now. Each message counts as an attempt from here on, whether [`Deliveries::settle`] is told its end or not.
    pub fn due(&mut self, open: &[OpenQuestion], people: &People, now_ms: u64) -> DueNotices {
        let mut due = DueNotices::default();
        for question in open.iter().filter(|question| now_ms <= question.expires_ms) {
            let asked = question.asked(people);
            for person in &asked {
                self.due_to(question, (person.as_str(), false), question.asked_ms, people, now_ms, &mut due);
            }
            let owner = people.owner();
            if !asked.is_empty() && !asked.contains(owner) && !question.answered.contains(owner) {
                let from_ms = self.escalates_at(question, &asked, people);
                self.due_to(question, (owner, true), from_ms, people, now_ms, &mut due);
            }
        }
        due
    }

    /// The messages to one person that are due: their first way at once, each further one a step later, or as soon as the one before
    /// failed.
    fn due_to(
        &mut self,
        question: &OpenQuestion,
        (person, is_escalation): (&str, bool),
        from_ms: u64,
        people: &People,
        now_ms: u64,
        due: &mut DueNotices,
    ) {
        let mut begins_ms = from_ms;
        for way in people.ways_to(person) {
            if now_ms < begins_ms {
                due.look_at(begins_ms);
                return;
            }
            let of_question = self.of.entry(question.id).or_default();
            let key = (person.to_owned(), way_digest(way));
            if !of_question.contains_key(&key) && of_question.len() >= WAYS_MAX {
                return;
            }
            let words = way_name(way);
            let first = Progress { way: words, first_ms: now_ms, next_ms: now_ms, ..Progress::default() };
            let progress = of_question.entry(key).or_insert(first);
            if !progress.is_over() && progress.next_ms <= now_ms {
                progress.attempts = progress.attempts.saturating_add(1);
                progress.next_ms = now_ms.saturating_add(pause_ms(progress.attempts));
                let (ask, attempt) = (question.id, progress.attempts);
                let (person, way) = (person.to_owned(), way.clone());
                due.notices.push(Notice { ask, person, way, attempt, is_escalation });
            }
            if !progress.is_over() {
                due.look_at(progress.next_ms);
            }
            // The next way is not waited for where this one fails.
            begins_ms = match (&progress.failure, progress.told_ms) {
                (Some(_), None) => begins_ms,
                _ => begins_ms.saturating_add(question.step_ms()),
            };
        }
    }

    /// When the owner is told of a question that others do not answer: two steps after it was asked, and at once where nobody can be
    /// told.
    fn escalates_at(&self, question: &OpenQuestion, asked: &BTreeSet<String>, people: &People) -> u64 {
        let can_be_told = |person: &String| {
            people.ways_to(person).iter().any(|way| {
                let progress = self.progress(&question.id, person, way);
                progress.is_none_or(|progress| progress.told_ms.is_some() || progress.failure.is_none())
            })
        };
        if asked.iter().any(can_be_told) {
            question.asked_ms.saturating_add(question.step_ms().saturating_mul(2))
        } else {
            question.asked_ms
        }
    }

    fn progress(&self, ask: &AskId, person: &str, way: &ReachSpec) -> Option<&Progress> {
        self.of.get(ask)?.get(&(person.to_owned(), way_digest(way)))
    }

    /// What became of a message.
    pub fn settle(&mut self, notice: &Notice, outcome: Result<(), &str>, now_ms: u64) {
        let key = (notice.person.clone(), way_digest(&notice.way));
        let Some(progress) = self.of.get_mut(&notice.ask).and_then(|ways| ways.get_mut(&key)) else { return };
        match outcome {
            Ok(()) => (progress.told_ms, progress.failure) = (Some(now_ms), None),
            Err(reason) => {
                // Whoever is told may answer anything: it stays on one line, and moves no text about.
                progress.failure = Some(visible(reason).filter(|c| !c.is_control()).take(REASON_CHARS_MAX).collect());
                progress.next_ms = now_ms.saturating_add(pause_ms(progress.attempts));
            }
        }
    }

    /// Who could not be told of a question that waits.
    #[must_use]
    pub fn troubles(&self, question: &OpenQuestion, people: &People) -> Vec<DeliveryTrouble> {
        let mut troubles = Vec::new();
        for person in question.asked(people) {
            // The owner has this machine, and sees what waits.
            if people.ways_to(&person).is_empty() && person != people.owner() {
                let reason = "the file of people does not say how they are reached (`reach`)".to_owned();
                troubles.push(DeliveryTrouble { person, way: None, attempts: 0, reason, next_ms: None });
            }
        }
        for ((person, _), progress) in self.of.get(&question.id).into_iter().flatten() {
            let Some(reason) = &progress.failure else { continue };
            troubles.push(DeliveryTrouble {
                person: person.clone(),
                way: Some(progress.way.clone()),
                attempts: progress.attempts,
                reason: reason.clone(),
                next_ms: (!progress.is_over()).then_some(progress.next_ms),
            });
        }
        troubles
    }

    /// Forgets questions that wait no more; gives which, whose rows are deleted.
    pub fn forget(&mut self, open: &[OpenQuestion]) -> Vec<AskId> {
        let open: BTreeSet<AskId> = open.iter().map(|question| question.id).collect();
        let over: Vec<AskId> = self.of.keys().filter(|id| !open.contains(*id)).copied().collect();
        for id in &over {
            self.of.remove(id);
        }
        over
    }
}
