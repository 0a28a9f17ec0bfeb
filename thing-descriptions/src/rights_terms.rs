//! Which changes of a contract let an agent do more. Pure.
//!
//! **Input**: two contracts, each as its members by their paths, as people are shown them. **Output**: whether one member lets the agent
//! do more in the second than in the first.
//!
//! **Invariants**
//! - A member that is not written is what holds without it (docs/contracts.md).
//! - What is not known to let it do no more lets it do more.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::contract::{
    CALLS_PER_TURN_DEFAULT, CONTEXT_TOKENS_DEFAULT, HRT_MEMORY_BYTES_DEFAULT, MEMORY_BYTES_DEFAULT,
    OUTPUT_TOKENS_DEFAULT, Srt, covers,
};
use serde_json::Value;

use crate::agent_file::ToolTerms;

/// How the paths of all members begin.
const CONTRACT: &str = "contract.";
/// Under what the capabilities of a contract are granted.
pub(crate) const CAPABILITIES: &str = "contract: capabilities";
/// Under what the models are granted that it may use.
pub(crate) const MODELS: &str = "contract: models";
/// Milliseconds of processor time that a turn has where nothing is written.
const CPU_MS_PER_TURN_DEFAULT: u64 = 60_000;
/// How the paths of the schemas begin by which messages and answers are judged.
const INPUT_SCHEMA: &str = "verify.schema.input";
const OUTPUT_SCHEMA: &str = "verify.schema.output";
/// What bounds nothing.
const ANY: u64 = u64::MAX;

/// A contract, and what it holds for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The values of its members, as JSON, by their paths.
    pub members: &'a BTreeMap<String, BTreeSet<String>>,
    /// The tools that it may call.
    pub capabilities: Option<&'a BTreeSet<String>>,
    /// Whether the agent itself is a program.
    pub is_program: bool,
    /// Whether it has programs: itself, or servers of tools.
    pub has_programs: bool,
}

/// What more of a member means.
#[derive(Debug, Clone, Copy)]
enum Member {
    /// The more, the more it may do. Where it is not written: this.
    Most(u64),
    /// The less, the more it may do. Where it is not written: this.
    Least(u64),
    /// One of these words, of which the later lets it do more; with the place of what holds where it is not written.
    Ranked(&'static [&'static str], usize),
    /// It says how the agent does its work, and not how much it may do.
    Free,
}

/// Whether another value of a member of the contract, which differs, lets the agent do more.
pub(crate) fn is_wider(path: &str, before: Terms<'_>, now: Terms<'_>) -> bool {
    let Some(member) = path.strip_prefix(CONTRACT) else { return true };
    match member {
        "security.consent_for" => asks_less(before, now),
        "compute.memory_bytes" => now.memory_bytes(true) > before.memory_bytes(false),
        "placement.min_grade" => now.grade() > before.grade(),
        "placement.labels" => {
            let labels = now.list(path);
            before.list(path).iter().any(|label| !labels.contains(label))
        }
        // Jobs know them by their places.
        "signals.inputs" | "signals.outputs" => !before.list(path).starts_with(&now.list(path)),
        // Another one may hold what others wrote; its own, or none, does not.
        "memory.namespace" => now.value(path).is_some(),
        "memory.retention_s" => now.has_memory() && exceeds(Member::Most(ANY), path, before, now),
        // What was sealed by it is written without, or by another one.
        "memory.encryption_secret" => now.has_memory() && before.value(path).is_some(),
        "verify.media" => permits_more_media(path, before, now),
        "verify.checks" => checks_less(path, before, now),
        // A schema where there was none permits less; what another one permits is not known.
        _ if member.starts_with(INPUT_SCHEMA) => before.has(INPUT_SCHEMA),
        _ if member.starts_with(OUTPUT_SCHEMA) => before.has(OUTPUT_SCHEMA),
        _ => member_of(member).is_none_or(|kind| exceeds(kind, path, before, now)),
    }
}

/// Whether one more word among those that are granted under a name is more than was there.
pub(crate) fn includes(name: &str, known: &str, word: &str) -> bool {
    known == word
        || match name {
            CAPABILITIES => covers(known, word),
            // Of a model that is named without versions, any.
            MODELS => word.strip_prefix(known).is_some_and(|versions| versions.starts_with('@')),
            _ => false,
        }
}

fn member_of(member: &str) -> Option<Member> {
    Some(match member {
        "class.budget_us" | "class.section_us" => Member::Most(0),
        "class.period_us" | "class.deadline_us" | "class.jitter_us" => Member::Least(ANY),
        "class.arrival" => Member::Ranked(&["sporadic", "periodic"], 1),
        "class.on_overrun" => Member::Ranked(&["suspend", "degrade", "skip"], 2),
        "class.ttft_ms" => Member::Least(Srt::TTFT_MS_DEFAULT),
        "class.priority" => Member::Most(u64::from(Srt::PRIORITY_DEFAULT)),
        // Models are granted, and compared as such.
        "class.barge_in" | "model.models" => Member::Free,
        "class.cost.cpu_ms" | "class.cost.tokens" | "class.cost.spend" => Member::Most(ANY),
        // Without it there is no bound at all, which these say.
        "class.cost.per_s" => Member::Least(0),
        "binding" => Member::Ranked(&["strict", "smooth", "flexible"], 2),
        "model.context_tokens" => Member::Most(CONTEXT_TOKENS_DEFAULT),
        "model.output_tokens" => Member::Most(OUTPUT_TOKENS_DEFAULT),
        "security.max_tier" => Member::Most(u64::from(ToolTerms::TIER_MAX)),
        "compute.cpu_ms_per_turn" => Member::Most(CPU_MS_PER_TURN_DEFAULT),
        "compute.calls_per_turn" => Member::Most(CALLS_PER_TURN_DEFAULT),
        "compute.tokens_per_turn" => Member::Most(ANY),
        // An agent without a memory has none of these.
        "memory.quota_bytes" | "memory.recall" => Member::Most(0),
        "memory.require_grounding" => Member::Ranked(&["true", "false"], 1),
        // What it was told stays on the disk of its node when its task is over.
        "record" => Member::Ranked(&["none", "tape"], 0),
        "verify.finished" => Member::Ranked(&["true", "false"], 1),
        "verify.repair" => Member::Most(0),
        "verify.deliver" => Member::Ranked(&["checked", "early"], 0),
        "data_label" => Member::Ranked(&["restricted", "confidential", "internal", "public"], 2),
        // Another class, other traces, another fallback or limit of a signal, and what later contracts have.
        _ => return None,
    })
}

/// Whether a member says more than before; what is no value of it does.
fn exceeds(kind: Member, path: &str, before: Terms<'_>, now: Terms<'_>) -> bool {
    let place = |terms: Terms<'_>| terms.place(kind, path);
    match (place(before), place(now)) {
        (Some(before), Some(now)) => now > before,
        _ => true,
    }
}

/// Whether an answer may have a media type now that it could not have; none that is named permits any.
fn permits_more_media(path: &str, before: Terms<'_>, now: Terms<'_>) -> bool {
    let (had, has) = (before.list(path), now.list(path));
    !had.is_empty() && (has.is_empty() || has.iter().any(|media| !had.contains(media)))
}

/// Whether one of its checks checks no more. How long one may take is no matter: a late one refuses.
fn checks_less(path: &str, before: Terms<'_>, now: Terms<'_>) -> bool {
    // One that is asked after a call only tells the agent: one that holds answers back does more.
    let names = |terms: Terms<'_>| -> BTreeSet<(String, Option<String>)> {
        let of = |check: &Value| Some((check["by"].as_str()?.to_owned(), check["after"].as_str().map(str::to_owned)));
        terms.list(path).iter().filter_map(of).collect()
    };
    let now = names(now);
    let checks = |check: (String, Option<String>)| now.contains(&check) || now.contains(&(check.0, None));
    !names(before).into_iter().all(checks)
}

/// Whether it is to ask a person for a tool no more that it may call still.
fn asks_less(before: Terms<'_>, now: Terms<'_>) -> bool {
    const CONSENT_FOR: &str = "contract.security.consent_for";
    let (asked, asks) = (before.list(CONSENT_FOR), now.list(CONSENT_FOR));
    let asked: Vec<&str> = asked.iter().filter_map(Value::as_str).collect();
    let is_asked = |tool: &str| asks.iter().filter_map(Value::as_str).any(|asks| covers(asks, tool));
    let mut callable = now.capabilities.into_iter().flatten();
    callable.any(|tool| asked.iter().filter_map(|once| common(tool, once)).any(|both| !is_asked(both)))
}

/// What two capabilities both cover: the narrower one, if the other covers it.
fn common<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    if covers(one, other) { Some(other) } else { covers(other, one).then_some(one) }
}

impl Terms<'_> {
    fn value(&self, path: &str) -> Option<Value> {
        let text = self.members.get(path)?.first()?;
        serde_json::from_str(text).ok()
    }

    /// The entries of a list; none where it is not written.
    fn list(&self, path: &str) -> Vec<Value> {
        match self.value(path) {
            Some(Value::Array(all)) => all,
            _ => Vec::new(),
        }
    }

    /// Whether anything is written at a path of the contract, or within it.
    fn has(&self, member: &str) -> bool {
        self.members.keys().any(|path| path.strip_prefix(CONTRACT).is_some_and(|path| path.starts_with(member)))
    }

    fn text(&self, path: &str) -> Option<String> {
        self.value(path).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }

    /// Where a value stands: the higher, the more it may do; none if it is none of that member.
    fn place(&self, kind: Member, path: &str) -> Option<u64> {
        let number = |default: u64| self.value(path).map_or(Some(default), |value| value.as_u64());
        match kind {
            Member::Most(default) => number(default),
            Member::Least(default) => number(default).map(|number| u64::MAX - number),
            Member::Ranked(words, default) => {
                let place = match self.text(path) {
                    Some(text) => words.iter().position(|word| *word == text)?,
                    None => default,
                };
                u64::try_from(place).ok()
            }
            Member::Free => Some(0),
        }
    }

    fn has_memory(&self) -> bool {
        self.members.contains_key("contract.memory.quota_bytes")
    }

    fn is_hard(&self) -> bool {
        self.text("contract.class.latency").as_deref() == Some("hrt")
    }

    /// Bytes that it may have. Programs have any where nothing is written, and a module has what holds for its class: of an agent that
    /// is both, the most, or the least.
    fn memory_bytes(&self, most: bool) -> u64 {
        let default = if self.is_hard() { HRT_MEMORY_BYTES_DEFAULT } else { MEMORY_BYTES_DEFAULT };
        let is_any = self.is_program || (most && self.has_programs);
        let without = if is_any { ANY } else { default };
        // What cannot be read is no bound now, and let it have nothing before.
        let unread = if most { ANY } else { 0 };
        self.value("contract.compute.memory_bytes").map_or(without, |value| value.as_u64().unwrap_or(unread))
    }

    /// The lowest grade of a machine on which it runs; the later, the lower.
    fn grade(&self) -> String {
        let without = if self.is_hard() { "B" } else { "C" };
        self.text("contract.placement.min_grade").unwrap_or_else(|| without.to_owned())
    }
}
