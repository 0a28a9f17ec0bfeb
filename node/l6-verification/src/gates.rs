//! The gates of contracts: what an agent emits in a turn is held back until all of them let it pass.

mod event;
mod findings;
mod grounding;
mod known;
mod shown;
mod watch;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use a2a::{Message, TaskState};
use althing_execution::agent::{Hold, Made, OutputGate, Repair};
use althing_execution::run_notes::RunNotes;
use althing_execution::tools::Tools;
use althing_execution::verdicts::{RefusedAnswer, TurnVerdicts};
use althing_execution::{AgentError, GatedTurn, MakeOutputGates, in_check};
use althing_protocol::AgentRef;
use althing_protocol::audit::AuditWord;
use althing_protocol::contract::{AnswerSchema, Check, Delivery, Observability, Verify};
use althing_td::Effect;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, timeout};

use crate::machine::answer::{Answer, AnswerEnd};
use crate::machine::gates::{Kind, Opinion, Refusal, Repairs, Verdict, Word, verdict};
use crate::machine::rules::{Rules, admits, is_judged};
use crate::machine::words;

use findings::Findings;
use grounding::{GroundingGate, Grounds};
use known::{AnswerBook, SchemaRead};
use watch::Watch;

/// Bytes of one turn that are shown early and judged at its end.
const EARLY_BYTES_MAX: usize = 2 << 20;
/// Characters of a refused answer that its agent is shown.
const QUOTED_CHARS_MAX: usize = 4_000;

/// The gates that contracts ask for, `verify` and grounding, as one. Without any it is only looked at what failed in silence.
#[must_use]
pub fn output_gates() -> MakeOutputGates {
    let known = Arc::<AnswerBook>::default();
    Arc::new(move |turn: &GatedTurn<'_>| {
        let verify = &turn.contract.verify;
        let grounding = GroundingGate::of(turn);
        let judges = verify.judges_answers(turn.is_model) || grounding.is_some();
        let ours = (judges || verify.schema.input.is_some())
            .then(|| -> Box<dyn OutputGate> { Box::new(ContractGate::of(turn, grounding, &known)) });
        // A control loop answers with its outputs, or fails.
        let watch = (!judges && !turn.is_hard)
            .then(|| -> Box<dyn OutputGate> { Box::new(Watch::new(Findings::of(turn, &known), turn.notes)) });
        ours.into_iter().chain(watch).collect()
    })
}

/// The gate of one turn, which asks all gates of the contract.
struct ContractGate {
    agent: AgentRef,
    verify: Verify,
    input: Option<SchemaRead>,
    output: Option<SchemaRead>,
    grounding: Option<GroundingGate>,
    /// The ids of the artifacts of earlier turns.
    earlier: BTreeSet<String>,
    tools: Arc<Tools>,
    /// What failed in silence.
    findings: Findings,
    /// Whether answers are judged, and not messages alone.
    judges: bool,
    /// Whether nothing is shown but what is judged: with a schema, with checks, or with grounding, which read the answer.
    is_strict: bool,
    notes: bool,
    own_failures: bool,
    within: Option<Duration>,
    verdicts: Option<TurnVerdicts>,
    /// Where the word of each gate is noted.
    run: RunNotes,
    observability: Observability,
    begun: Instant,
    state: Mutex<State>,
}

struct State {
    /// What the agent was asked.
    message: String,
    /// When it began to answer.
    asked: Instant,
    /// What it was shown already.
    early: Vec<Made>,
    early_bytes: usize,
    /// How often it answered again.
    repairs: u64,
    refusal: Option<Repair>,
}

impl ContractGate {
    fn of(turn: &GatedTurn<'_>, grounding: Option<GroundingGate>, known: &Arc<AnswerBook>) -> ContractGate {
        let (mut verify, now) = (turn.contract.verify.clone(), Instant::now());
        // Nobody else says whether an answer was cut: a gate that let all pass would be told as one that judged.
        verify.finished &= turn.is_model;
        let read = |schema: &serde_json::Value, place| known.schema(turn.agent, place, schema);
        ContractGate {
            agent: turn.agent.clone(),
            input: verify.schema.input.as_ref().map(|schema| read(schema, "input")),
            output: verify.schema.output.as_ref().map(|schema| read(schema, "output")),
            judges: verify.judges_answers(turn.is_model) || grounding.is_some(),
            is_strict: verify.schema.output.is_some() || verify.of_answers().next().is_some() || grounding.is_some(),
            verify,
            grounding,
            earlier: turn.artifacts.iter().map(|artifact| artifact.artifact_id.clone()).collect(),
            tools: turn.tools.clone(),
            findings: Findings::of(turn, known),
            notes: turn.notes,
            own_failures: turn.own_failures,
            within: turn.within,
            verdicts: turn.verdicts.cloned(),
            run: turn.run.clone(),
            observability: turn.contract.observability,
            begun: now,
            state: Mutex::new(State {
                message: String::new(),
                asked: now,
                early: Vec::new(),
                early_bytes: 0,
                repairs: 0,
                refusal: None,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of the gate's state panics")
    }

    /// Whether answers are shown while they are made: none is that must cite.
    fn is_early(&self) -> bool {
        self.verify.deliver == Delivery::Early && self.grounding.is_none()
    }

    /// What may be shown of an output: where the answer is read nothing that is not judged.
    fn shown(&self, made: Made) -> Made {
        if !self.is_strict {
            return made;
        }
        if let Some(words) = shown::words_of_failure(&made) {
            self.note_failure(words);
        }
        shown::judged(made, !self.notes, &self.verify.media)
    }

    /// What its agent says of a failure stays in the log.
    fn note_failure(&self, words: &str) {
        let why: String = words.chars().take(QUOTED_CHARS_MAX).collect();
        tracing::warn!(agent = self.agent.name(), why, "a turn whose answers are judged failed");
    }

    /// Keeps a copy of what is shown now and judged later.
    fn note_early(&self, made: &Made) {
        if shown::is_progress(made) {
            // It is no part of the answer.
            return;
        }
        let mut state = self.state();
        state.early_bytes = state.early_bytes.saturating_add(made.bytes());
        if state.early_bytes <= EARLY_BYTES_MAX {
            state.early.push(made.clone());
        }
    }

    /// What all gates say: judges only where rules and tools let it pass, as they cost the most and count the least.
    async fn verdict(&self, answer: &Answer, grounded: Option<Opinion>) -> Verdict {
        let schema = match self.output.as_ref().map(schema_of).transpose() {
            Ok(schema) => schema,
            Err(fault) => return self.heard(&[fault]),
        };
        let rules = Rules { schema, media: &self.verify.media, finished: self.verify.finished };
        let mut opinions = rules.opinions(answer);
        opinions.extend(grounded);
        let by_rules = self.heard(&opinions);
        if by_rules != Verdict::Pass || !is_judged(answer) || self.verify.of_answers().next().is_none() {
            return by_rules;
        }
        let message = self.state().message.clone();
        let Some(said) = answer.whole_text() else {
            let refusal = Word::refusal("it has a file that is no text, and checks read texts");
            return self.heard(&[Opinion::of_rule("checks", Some(refusal))]);
        };
        let (judges, tools): (Vec<&Check>, Vec<&Check>) = self.verify.of_answers().partition(|check| check.is_judge());
        for check in tools.into_iter().chain(judges) {
            let by_check = self.heard(&[self.ask(check, &message, &said).await]);
            if by_check != Verdict::Pass {
                return by_check;
            }
        }
        Verdict::Pass
    }

    /// What follows from what these gates say, which is noted.
    fn heard(&self, opinions: &[Opinion]) -> Verdict {
        for Opinion { gate, kind, word } in opinions {
            let (noted, passed) = match word {
                Word::Pass => (AuditWord::Passed, Some(true)),
                Word::Refusal { .. } => (AuditWord::Refused, Some(false)),
                Word::Fault(_) | Word::Late(_) => (AuditWord::Refused, None),
            };
            self.run.add_verdict(gate, noted);
            if *kind == Kind::Judge {
                self.run.add_judgement(gate, passed);
            }
        }
        verdict(opinions)
    }

    async fn ask(&self, check: &Check, message: &str, said: &str) -> Opinion {
        let (is_judge, within) = (check.is_judge(), Duration::from_millis(check.within_ms));
        let kind = if is_judge { Kind::Judge } else { Kind::Tool };
        let opinion = |word| Opinion { gate: check.by.clone(), kind, word };
        if !is_judge && self.tools.effect_of(&check.by) != Effect::None {
            let why = "nobody said that it changes nothing: say `effect = \"none\"` of it in `[[tools]]`";
            return opinion(Word::Fault(why.to_owned()));
        }
        let arguments =
            if is_judge { words::arguments_of_judge(message, said) } else { words::arguments_of_tool(message, said) };
        let arguments = arguments.to_string();
        // Boxed, as it is far larger than the rest.
        let called = timeout(within, Box::pin(in_check(self.tools.invoke(&check.by, &arguments)))).await;
        opinion(match called {
            Err(_) => Word::Late(within),
            Ok((Err(error), _)) => Word::Fault(error.to_string()),
            Ok((Ok(result), _)) => words::word_of(&result, is_judge),
        })
    }

    /// Judges what was held back, or shown already, and gives what may be shown now.
    async fn judge(&self, held: Vec<Made>) -> Result<Vec<Made>, AgentError> {
        let is_early = self.is_early();
        let (early, early_bytes) = {
            let mut state = self.state();
            (std::mem::take(&mut state.early), std::mem::take(&mut state.early_bytes))
        };
        if !self.judges {
            return Ok(held);
        }
        let answer = if is_early { Answer::of(&early, self.notes) } else { Answer::of(&held, self.notes) };
        let Grounds { opinion: grounded, citations } = match &self.grounding {
            Some(grounding) if is_judged(&answer) => grounding.judge(&answer).await,
            _ => Grounds::default(),
        };
        let joined = answer.continued.iter().find(|id| is_judged(&answer) && self.earlier.contains(*id));
        let verdict = match joined {
            _ if early_bytes > EARLY_BYTES_MAX => self.heard(&[too_long()]),
            Some(id) => self.heard(&[joins(id)]),
            None => self.verdict(&answer, grounded).await,
        };
        if is_judged(&answer) {
            event::tell(&verdict, self.observability);
        }
        self.run.set_unjudged(verdict.unjudged());
        match verdict {
            Verdict::Refusal(refusal) => Err(self.refused(&refusal, &answer)),
            Verdict::Pass if answer.ending == AnswerEnd::Failure => {
                // Nobody judged what it answered before it failed.
                Ok(held.into_iter().filter(shown::is_status).collect())
            }
            Verdict::Pass => {
                let message = self.state().message.clone();
                self.findings.report(&message, &answer);
                // They are not the agent's, so that no gate judges them.
                Ok(shown::before_end(held, citations))
            }
        }
    }

    fn refused(&self, refusal: &Refusal, answer: &Answer) -> AgentError {
        let agent = self.agent.name();
        let Refusal { gate, place, reason, .. } = refusal;
        tracing::warn!(agent, gate, place, reason, "an answer was refused");
        let text = answer.text();
        let quoted: String = text.chars().take(QUOTED_CHARS_MAX).collect();
        let attempt = {
            let mut state = self.state();
            state.refusal = Some(Repair { reason: refusal.to_agent(), answer: quoted });
            state.repairs + 1
        };
        if let Some(TurnVerdicts(verdicts)) = &self.verdicts {
            let Refusal { gate, place, rule, reason, .. } = refusal.clone();
            verdicts.add(RefusedAnswer { attempt, gate, place, rule, reason, answer: text, bytes: 0 });
        }
        AgentError::GateRefused(refusal.to_string())
    }
}

/// It is the answer that is too long to be judged, and no gate that fails.
fn too_long() -> Opinion {
    Opinion::of_rule("deliver", Some(Word::refusal(format!("more than {EARLY_BYTES_MAX} bytes were shown before"))))
}

/// Callers see one artifact, of which the earlier part was judged by itself, and this one would be. Its id is one that they know.
fn joins(id: &str) -> Opinion {
    let reason = format!("it adds to the artifact {id:.80} of an earlier turn: send the whole artifact again");
    Opinion::of_rule("deliver", Some(Word::refusal(reason)))
}

/// A gate that could not judge.
fn fault(gate: &str, why: &str) -> Opinion {
    Opinion::of_rule(gate, Some(Word::Fault(why.to_owned())))
}

/// What judges a message, or an answer.
fn schema_of(read: &SchemaRead) -> Result<&AnswerSchema, Opinion> {
    (**read).as_ref().map_err(|why| fault("schema", why))
}

impl OutputGate for ContractGate {
    fn admit(&self, message: &Message) -> Result<(), AgentError> {
        let said = Answer::of_message(&message.parts);
        self.state().message = said.text();
        let Some(input) = &self.input else { return Ok(()) };
        let opinion = schema_of(input).map_or_else(|fault| fault, |schema| admits(schema, &said));
        let verdict = verdict(&[opinion]);
        if verdict != Verdict::Pass {
            event::tell(&verdict, self.observability);
        }
        match verdict {
            Verdict::Pass => Ok(()),
            Verdict::Refusal(refusal) => {
                self.run.add_verdict(&refusal.gate, AuditWord::Refused);
                Err(AgentError::Rejected(refusal.to_sender()))
            }
        }
    }

    fn hold(&self, made: Made) -> Hold {
        if !self.judges {
            return Hold::Pass(made);
        }
        let is_early = self.is_early();
        match self.shown(made) {
            made @ (Made::Remember(_) | Made::Begun { .. }) => Hold::Pass(made),
            // A progress message could be a part of an answer.
            Made::Status(TaskState::Working, _) if !is_early => Hold::Pass(Made::Status(TaskState::Working, None)),
            made if is_early => {
                self.note_early(&made);
                if shown::is_end(&made) { Hold::Keep(made) } else { Hold::Pass(made) }
            }
            made if shown::is_progress(&made) => Hold::Drop,
            made => Hold::Keep(made),
        }
    }

    fn release(&self, held: Vec<Made>) -> BoxFuture<'_, Result<Vec<Made>, AgentError>> {
        self.judge(held).boxed()
    }

    /// In its own words of a failure an agent could say what no gate judged.
    fn failure(&self, error: AgentError) -> AgentError {
        if !self.is_strict {
            return error;
        }
        let (error, words) = error.without_words(self.own_failures);
        if let Some(words) = words {
            self.note_failure(&words);
        }
        error
    }

    fn may_repair(&self) -> bool {
        self.verify.repair > 0
    }

    fn repair(&self) -> Option<Repair> {
        let now = Instant::now();
        let mut state = self.state();
        let refusal = state.refusal.take()?;
        let repairs = Repairs {
            most: self.verify.repair,
            used: state.repairs,
            left: self.within.map(|within| within.saturating_sub(now - self.begun)),
            took: now - state.asked,
        };
        if self.is_early() || !repairs.has_more() {
            return None;
        }
        state.repairs += 1;
        state.asked = now;
        Some(refusal)
    }
}
