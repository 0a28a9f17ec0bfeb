//! A yes that counts more than once: for calls of one tool with fixed arguments, so many times, until a time.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::audit::CallTerms;
use althing_protocol::contract::DataLabel;
use althing_protocol::{AgentId, Digest, Label, cbor, digest};
use minicbor::{Decode, Encode};
use serde_json::Value;

use super::definitions::ToolChange;
use super::error::ConsentError;
use super::messages::MESSAGE_ACTION;
use super::rows::RowError;
use crate::machine::arguments::{arguments_digest, canonical};
use crate::machine::people::People;

/// Those that an owner has.
pub const STANDING_MAX: usize = 256;
/// The longest time of one, milliseconds (90 days).
pub const STANDING_LIFE_MAX_MS: u64 = 90 * 24 * 60 * 60 * 1_000;
/// How often one counts at most.
const COUNT_MAX: u32 = 10_000;
/// Arguments of a template.
const ARGUMENTS_MAX: usize = 64;
/// The longest row of a standing yes that is read.
const ROW_BYTES_MAX: usize = 64 << 10;

/// The calls that one is for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Template {
    /// Whose calls.
    #[n(0)]
    pub agent: AgentId,
    /// `server/tool`.
    #[n(1)]
    pub action: String,
    /// The digest of the tool's definition.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub definition: Digest,
    /// The digest of whoever has the tool.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub server: Digest,
    /// The arguments that must be these, each by its name and as canonical JSON.
    #[n(4)]
    pub fixed: BTreeSet<(String, String)>,
    /// The arguments that may be anything. A call with any other one is not meant.
    #[n(5)]
    pub free: BTreeSet<String>,
    /// The strictest label of the data; if it says that they are trusted, others are not meant.
    #[n(6)]
    pub label: Label,
}

/// A yes that counts more than once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct StandingYes {
    /// Which one.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub id: [u8; 16],
    /// Who gave it.
    #[n(1)]
    pub person: String,
    /// For what.
    #[n(2)]
    pub template: Template,
    /// When it was given, Unix milliseconds.
    #[n(3)]
    pub at_ms: u64,
    /// Until when it counts, Unix milliseconds.
    #[n(4)]
    pub until_ms: u64,
    /// How often it still counts.
    #[n(5)]
    pub left: u32,
    /// The digest of the question with whose answer it was given, which the entries of calls name that are made by it; none of one
    /// that was given before this was kept.
    #[cbor(n(6), with = "minicbor::bytes")]
    pub consent: Option<Digest>,
}

impl Template {
    /// The template of one call that may be made with these arguments, some of which are free.
    #[must_use]
    pub fn of(call: &CallTerms, arguments: &serde_json::Map<String, Value>, free: BTreeSet<String>) -> Template {
        let fixed = arguments.iter().filter(|(name, _)| !free.contains(*name));
        Template {
            agent: call.agent.clone(),
            action: call.action.clone(),
            definition: call.definition,
            server: call.server,
            fixed: fixed.map(|(name, value)| (name.clone(), canonical(value))).collect(),
            free,
            label: call.label,
        }
    }

    /// Whether messages are meant, and no calls of a tool: of these who sends them and who is to have them is always the same.
    fn is_of_messages(&self) -> bool {
        self.action == MESSAGE_ACTION && self.definition == digest(MESSAGE_ACTION.as_bytes())
    }

    /// Refuses free arguments where nothing but the tool would be the same in all calls, or where strangers could choose them.
    fn check_free(&self) -> Result<(), ConsentError> {
        if self.free.is_empty() || self.is_of_messages() {
            return Ok(());
        }
        if self.fixed.is_empty() {
            return Err(ConsentError::AllFree);
        }
        if self.label.trusted { Ok(()) } else { Err(ConsentError::FreeUntrusted) }
    }

    /// Whether a call with these arguments is meant.
    fn means(&self, call: &CallTerms, arguments: &Value) -> bool {
        let Value::Object(members) = arguments else { return false };
        let is_fixed_or_free = |(name, value): (&String, &Value)| match self.fixed.iter().find(|(of, _)| of == name) {
            Some((_, fixed)) => canonical(value) == *fixed,
            None => self.free.contains(name),
        };
        // One from before these were refused is for no call.
        self.check_free().is_ok()
            && self.agent == call.agent
            && self.action == call.action
            && self.definition == call.definition
            && self.server == call.server
            && call.label.level <= self.label.level
            && call.label.level < DataLabel::Restricted
            && (call.label.trusted || !self.label.trusted)
            && call.arguments == arguments_digest(arguments)
            && self.fixed.iter().all(|(name, _)| members.contains_key(name))
            && members.iter().all(is_fixed_or_free)
    }
}

/// All of an owner.
#[derive(Debug, Clone, Default)]
pub struct StandingYeses {
    all: BTreeMap<[u8; 16], StandingYes>,
}

impl StandingYeses {
    /// Adds one.
    ///
    /// # Errors
    /// [`ConsentError::Malformed`], [`ConsentError::AllFree`], [`ConsentError::FreeUntrusted`], [`ConsentError::Nobody`] or
    /// [`ConsentError::TooMany`].
    pub fn add(&mut self, yes: StandingYes, people: &People, now_ms: u64) -> Result<(), ConsentError> {
        let wrong = |what: &str| Err(ConsentError::Malformed(what.to_owned()));
        if yes.template.label.level >= DataLabel::Restricted {
            return wrong("restricted data are asked about each time, so there is no standing yes for them");
        }
        if yes.until_ms <= now_ms || yes.until_ms - now_ms > STANDING_LIFE_MAX_MS {
            return wrong("a standing yes ends within 90 days, and not before now");
        }
        if !(1..=COUNT_MAX).contains(&yes.left) {
            return wrong("a standing yes counts 1 to 10,000 times");
        }
        if yes.template.fixed.len() + yes.template.free.len() > ARGUMENTS_MAX {
            return wrong("a standing yes has at most 64 arguments");
        }
        yes.template.check_free()?;
        if yes.encode().len() > ROW_BYTES_MAX {
            return wrong("the arguments of a standing yes have at most 64 KiB");
        }
        if !people.is_person(&yes.person) {
            return Err(ConsentError::Nobody(format!("{:?} is not in the file of people", yes.person)));
        }
        if self.all.len() >= STANDING_MAX {
            return Err(ConsentError::TooMany(self.all.len()));
        }
        if self.all.contains_key(&yes.id) {
            return wrong("its id was used before");
        }
        self.all.insert(yes.id, yes);
        Ok(())
    }

    /// Those of rows.
    ///
    /// # Errors
    /// [`RowError`], with the id in the key of the row that cannot be read.
    pub fn read<'a>(
        rows: impl IntoIterator<Item = ([u8; 16], &'a [u8])>,
    ) -> Result<StandingYeses, ([u8; 16], RowError)> {
        let mut read = StandingYeses::default();
        for (id, bytes) in rows {
            let yes = StandingYes::decode(bytes).ok_or((id, RowError::Form))?;
            if yes.id != id {
                return Err((id, RowError::Foreign));
            }
            read.all.insert(id, yes);
        }
        Ok(read)
    }

    /// One of them, also one that was used up and is not swept yet.
    #[must_use]
    pub fn get(&self, id: &[u8; 16]) -> Option<&StandingYes> {
        self.all.get(id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &StandingYes> {
        self.all.values()
    }

    /// Uses one for a call of that person's: its row is written, or deleted where it is used up, with the intent of the call.
    pub fn take(
        &mut self,
        person: &str,
        (call, arguments): (&CallTerms, &Value),
        people: &People,
        now_ms: u64,
    ) -> Option<[u8; 16]> {
        let counts = |yes: &&mut StandingYes| {
            yes.person == person && yes.left > 0 && now_ms <= yes.until_ms && yes.template.means(call, arguments)
        };
        if !people.is_person(person) {
            return None;
        }
        let yes = self.all.values_mut().find(counts)?;
        yes.left -= 1;
        Some(yes.id)
    }

    /// The row of one that still counts; none of one that is over, whose row is deleted.
    #[must_use]
    pub fn row(&self, id: &[u8; 16]) -> Option<Vec<u8>> {
        self.all.get(id).filter(|yes| yes.left > 0).map(StandingYes::encode)
    }

    /// Takes one back; false if there is none.
    pub fn withdraw(&mut self, id: &[u8; 16]) -> bool {
        self.all.remove(id).is_some()
    }

    /// Takes out what ended, or was used up. Gives their ids, whose rows are deleted.
    pub fn sweep(&mut self, now_ms: u64) -> Vec<[u8; 16]> {
        let is_over = |yes: &StandingYes| yes.left == 0 || yes.until_ms < now_ms;
        let over: Vec<_> = self.all.values().filter(|yes| is_over(yes)).map(|yes| yes.id).collect();
        for id in &over {
            self.all.remove(id);
        }
        over
    }

    /// Whether one is for a tool as it was before.
    #[must_use]
    pub fn has_any_of(&self, change: &ToolChange<'_>) -> bool {
        self.all.values().any(|yes| yes.is_ended_by(change))
    }

    /// A tool is another one: takes out what is for it as it was before. Gives these, whose rows are deleted.
    pub fn redefine(&mut self, change: &ToolChange<'_>) -> Vec<StandingYes> {
        let over: Vec<_> = self.all.values().filter(|yes| yes.is_ended_by(change)).cloned().collect();
        for yes in &over {
            self.all.remove(&yes.id);
        }
        over
    }
}

impl StandingYes {
    fn is_ended_by(&self, change: &ToolChange<'_>) -> bool {
        let Template { agent, action, definition, server, .. } = &self.template;
        change.ends(agent, action, (*definition, *server))
    }

    /// Its row.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).expect("writing to a vector cannot fail")
    }

    /// Reads what [`StandingYes::encode`] wrote.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<StandingYes> {
        cbor::check(bytes, ROW_BYTES_MAX).ok()?;
        let yes: StandingYes = minicbor::decode(bytes).ok()?;
        (yes.encode() == bytes).then_some(yes)
    }
}
