//! What waits for people.

use althing_execution::tools::PendingAsks;
use althing_protocol::audit::AnswerWord;
use althing_protocol::{AgentRef, Label, hex};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::answers::ask_id;
use crate::consents::Consents;
use crate::governance::Governance;
use crate::machine::consent::{AskId, AskOutline, Need, Question, QuestionState, escaped};
use crate::machine::delivery::OpenQuestion;

/// Characters of a reason why something is asked.
const REASON_CHARS_MAX: usize = 400;

/// A question that waits for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingAsk {
    /// 32 hexadecimal digits.
    pub id: String,
    /// The task whose turn rests until it is answered, if it is made in one.
    pub task: Option<String>,
    /// Whose call it is.
    pub agent: AgentRef,
    /// `server/tool`.
    pub action: String,
    /// What is asked, line by line; nothing in it is formatted by an agent or a tool.
    pub outline: Vec<String>,
    /// The label of the data.
    pub label: Option<Label>,
    /// The lines that differ from the last call that was agreed to.
    pub difference: Vec<String>,
    /// Who must agree.
    pub wants: Vec<Want>,
    /// Why it is asked.
    pub reasons: Vec<String>,
    /// When it was asked, Unix milliseconds.
    pub asked_ms: u64,
    /// Until when silence is no denial, Unix milliseconds.
    pub expires_ms: u64,
}

/// Who must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The person on whose behalf it is done.
    Consent {
        /// By name.
        person: String,
    },
    /// Others.
    SignOff {
        /// Their role.
        role: String,
        /// How many in all.
        count: u8,
        /// How many of them agreed.
        given: u8,
    },
}

impl Governance {
    /// What waits for people, the oldest first.
    #[must_use]
    pub fn pending(&self) -> Vec<PendingAsk> {
        let consents = self.book().now();
        waiting(&consents, self.now_ms()).filter_map(|question| shown(&consents, question)).collect()
    }

    /// The question of that id, if it waits for people.
    #[must_use]
    pub fn pending_ask(&self, id: &str) -> Option<PendingAsk> {
        let consents = self.book().now();
        let question = consents.asks.get(&ask_id(id)?)?;
        let waits = question.state() == QuestionState::Open && question.ask().not_after_ms >= self.now_ms();
        shown(&consents, waits.then_some(question)?)
    }

    /// All that waits, as far as people are told of it.
    #[must_use]
    pub fn open_questions(&self) -> Vec<OpenQuestion> {
        let consents = self.book().now();
        waiting(&consents, self.now_ms()).filter_map(|question| told(&consents, question)).collect()
    }

    /// Whether a person is asked that.
    #[must_use]
    pub fn is_asked(&self, id: &str, person: &str) -> bool {
        let (consents, people) = (self.book().now(), self.people_now().0);
        let question = ask_id(id).and_then(|id| consents.asks.get(&id));
        question.is_some_and(|question| question.is_for(person, &people))
    }

    /// How far a question came; nothing where it is not known, or forgotten.
    #[must_use]
    pub fn ask_state(&self, id: &str) -> Option<QuestionState> {
        self.book().now().asks.get(&ask_id(id)?).map(Question::state)
    }
}

/// What waits for people about the same call as that question, the oldest first: a call may need the yes of several.
#[must_use]
pub fn asked_besides(governance: &Governance, id: &str) -> Vec<PendingAsk> {
    let consents = governance.book().now();
    let Some(id) = ask_id(id) else { return Vec::new() };
    let Some((own, details)) = consents.asks.get(&id).zip(consents.details.get(&id)) else { return Vec::new() };
    let is_besides = |question: &&Question| {
        let ask = question.ask();
        let other = consents.details.get(&ask.id).filter(|_| ask.id != id && ask.terms == own.ask().terms);
        other.is_some_and(|other| !other.tasks.is_disjoint(&details.tasks))
    };
    let besides = waiting(&consents, governance.now_ms()).filter(is_besides);
    besides.filter_map(|question| shown(&consents, question)).collect()
}

/// Ends when a question is answered or over.
pub(crate) fn until_answered(governance: &Governance, id: AskId) -> BoxFuture<'static, ()> {
    let (governance, mut changes) = (governance.clone(), governance.asks_changed());
    async move {
        loop {
            let _ = changes.borrow_and_update();
            if !is_open(&governance, &id) || changes.changed().await.is_err() {
                return;
            }
        }
    }
    .boxed()
}

fn is_open(governance: &Governance, id: &AskId) -> bool {
    governance.book().now().asks.get(id).is_some_and(|question| question.state() == QuestionState::Open)
}

impl PendingAsks for Governance {
    fn waits(&self, ask: &str) -> Option<BoxFuture<'static, ()>> {
        let id = ask_id(ask)?;
        self.book().now().asks.get(&id)?;
        Some(until_answered(self, id))
    }

    fn withdraw(&self, task: &str) {
        self.book().end_task(task);
    }
}

/// The open questions whose time is not over, the oldest first.
fn waiting(consents: &Consents, now_ms: u64) -> impl Iterator<Item = &Question> {
    consents.asks.pending().into_iter().filter(move |question| question.ask().not_after_ms >= now_ms)
}

fn told(consents: &Consents, question: &Question) -> Option<OpenQuestion> {
    let shown = shown(consents, question)?;
    Some(OpenQuestion {
        id: question.ask().id,
        agent: shown.agent.id.name().to_owned(),
        action: shown.action,
        needs: vec![question.need().clone()],
        answered: question.answers().iter().map(|answer| answer.person.clone()).collect(),
        label: question.ask().terms.label,
        outline: shown.outline,
        asked_ms: shown.asked_ms,
        expires_ms: shown.expires_ms,
    })
}

fn shown(consents: &Consents, question: &Question) -> Option<PendingAsk> {
    let (ask, details) = (question.ask(), consents.details.get(&question.ask().id)?);
    let arguments: Value = serde_json::from_str(&details.arguments).ok()?;
    let outline = AskOutline::of(question, &arguments, consents.earlier(question))?;
    let difference = outline.arguments.iter().filter(|line| !line.starts_with(' ')).cloned().collect();
    Some(PendingAsk {
        id: hex(&ask.id),
        task: details.tasks.iter().find(|task| !task.is_empty()).cloned(),
        agent: AgentRef { id: ask.terms.agent.clone(), version: details.version.as_str().into() },
        action: outline.action.clone(),
        label: Some(ask.terms.label),
        difference,
        wants: vec![want(question)],
        reasons: details.reasons.iter().map(|reason| escaped(reason, REASON_CHARS_MAX)).collect(),
        asked_ms: ask.asked_at_ms,
        expires_ms: ask.not_after_ms,
        outline: outline.to_string().lines().map(str::to_owned).collect(),
    })
}

fn want(question: &Question) -> Want {
    match question.need() {
        Need::Consent { person } => Want::Consent { person: person.clone() },
        Need::SignOff { role, count, .. } => {
            // Whoever said no gave nothing.
            let yeses = question.answers().iter().filter(|answer| answer.word == AnswerWord::Approve).count();
            let given = u8::try_from(yeses).unwrap_or(u8::MAX);
            Want::SignOff { role: role.clone(), count: *count, given }
        }
    }
}
