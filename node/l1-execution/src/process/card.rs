//! Reads an agent card member by member: what is good is kept; what is missing has its default; what cannot be read is left out
//! and named. Official SDKs leave out what is empty, and cards of later versions have what this one does not know.

use a2a::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface, AgentProvider, AgentSkill,
    SecurityRequirement, SecurityScheme, VERSION,
};
use althing_td::{Report, VERSION_UNKNOWN, card_signers, lint_card};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::interface::Address;
use super::text::unmarked;
use crate::lenient_json;

/// The most things that are named; more would not help a reader.
const NOTES_MAX: usize = 32;
/// Errors of a card that are shown where it cannot be used.
const ERRORS_MAX: usize = 4;
/// Characters of a value that is shown.
const SHOWN_CHARS_MAX: usize = 40;
/// The name of an agent whose card has none.
const UNTITLED: &str = "Untitled";
/// One of these is in every card of A2A, and hardly in something else.
const TELLING: [&str; 6] =
    ["supportedInterfaces", "skills", "capabilities", "defaultInputModes", "defaultOutputModes", "preferredTransport"];

/// Why there is no card that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CardFault {
    /// Nothing answers; why, for people.
    #[error("{0}")]
    Silent(String),
    /// What answers shows no card; what it does instead, for people.
    #[error("{0}")]
    NoCard(String),
    /// It shows a card that cannot be used; why, and what to do, for people.
    #[error("{0}")]
    Unfit(String),
}

/// A card, and its text as it came, which signatures cover.
#[derive(Debug)]
pub struct ShownCard {
    /// The card.
    pub card: AgentCard,
    /// Its text, without a mark of the byte order, and with what is none of JSON replaced.
    pub raw: Vec<u8>,
    /// Where it was not as it should be (a JSON pointer), and how it was read.
    pub notes: Vec<(String, String)>,
}

impl ShownCard {
    /// Reads a card, as its text.
    ///
    /// # Errors
    /// It is none, or one of another version, or one that can be read in two ways.
    pub(super) fn read(raw: Vec<u8>) -> Result<ShownCard, CardFault> {
        ShownCard::of(raw, "0.3")
    }

    /// Reads a card where those before A2A 0.3 are; errors as of [`ShownCard::read`].
    pub(super) fn read_old(raw: Vec<u8>) -> Result<ShownCard, CardFault> {
        ShownCard::of(raw, "0.2")
    }

    /// Reads a card that is of that version if it is an old one and does not say of which.
    fn of(mut raw: Vec<u8>, unstated: &str) -> Result<ShownCard, CardFault> {
        let mark = raw.len() - unmarked(&raw).len();
        raw.drain(..mark);
        let mut notes = Notes::default();
        if serde_json::from_slice::<Value>(&raw).is_err()
            && let Some(repaired) = lenient_json::repaired(&raw)
        {
            raw = repaired;
            notes.note("/".to_owned(), "characters or numbers in it are none of JSON, and are read as U+FFFD or null");
        }
        let no_card = || CardFault::NoCard("what is there is no agent card".to_owned());
        let Ok(Value::Object(members)) = serde_json::from_slice(&raw) else { return Err(no_card()) };
        if !TELLING.iter().any(|member| members.contains_key(*member)) {
            return Err(no_card());
        }
        let report = lint_card(&raw);
        if let Some(twice) = errors(&report, |rule, _| rule == "duplicate" || rule == "json") {
            return Err(CardFault::Unfit(format!("its agent card cannot be used: {twice}")));
        }
        if let Some(version) = old_version(&members, unstated) {
            return Err(CardFault::Unfit(format!(
                "this is an agent of A2A {version}, and Althing speaks {VERSION}: ask whoever runs it to serve it by a present \
                 SDK, whose card has \"supportedInterfaces\" of {VERSION}"
            )));
        }
        let card = read(members, &mut notes);
        Ok(ShownCard { card, raw, notes: notes.all() })
    }

    /// Why none of its interfaces is one that a node calls.
    pub(super) fn no_interface(&self) -> CardFault {
        let of_interfaces = |_: &str, pointer: &str| pointer.starts_with("/supportedInterfaces");
        let lacks = errors(&lint_card(&self.raw), of_interfaces).unwrap_or_default();
        let offered = self.card.supported_interfaces.iter().take(ERRORS_MAX);
        let offered: Vec<String> =
            offered.map(|one| format!("{} {}", shown(&one.protocol_binding), shown(&one.protocol_version))).collect();
        let has = if offered.is_empty() { String::new() } else { format!(" It has {}.", offered.join(", ")) };
        let lacks = if lacks.is_empty() { lacks } else { format!(" {lacks}") };
        CardFault::Unfit(format!(
            "its agent card names no interface (/supportedInterfaces) that a node calls, which is JSONRPC of {VERSION}.{has}{lacks}"
        ))
    }
}

/// The errors of a report by their rule and place, for people; none if there are none.
fn errors(report: &Report, of: impl Fn(&str, &str) -> bool) -> Option<String> {
    let chosen = report.errors().filter(|finding| of(finding.rule, &finding.pointer)).take(ERRORS_MAX);
    let said: Vec<String> = chosen.map(ToString::to_string).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The version of a card that is older than what can be called, as `major.minor`; `unstated` if it says nothing of it.
fn old_version(card: &Map<String, Value>, unstated: &str) -> Option<String> {
    let is_old = |version: &str| version.starts_with("0.");
    let stated = card.get("protocolVersion").and_then(Value::as_str);
    let interfaces = card.get("supportedInterfaces").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let version = |one: &Value| one.get("protocolVersion").and_then(Value::as_str).map(str::to_owned);
    let old = match interfaces {
        [] if card.get("url").is_some_and(Value::is_string) => {
            Some(stated.filter(|version| is_old(version)).unwrap_or(unstated).to_owned())
        }
        [] => stated.filter(|version| is_old(version)).map(str::to_owned),
        all => all.iter().map(version).collect::<Option<Vec<_>>>().and_then(|versions| {
            let all_old = versions.iter().all(|version| is_old(version));
            versions.into_iter().next().filter(|_| all_old)
        }),
    };
    old.map(|version| shown(&version.split('.').take(2).collect::<Vec<_>>().join(".")))
}

/// A stranger's text as it is shown to people: the start of it, on one line.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !althing_td::is_hidden(*c)).take(SHOWN_CHARS_MAX).collect()
}

/// What was not as it should be.
#[derive(Default)]
struct Notes {
    noted: Vec<(String, String)>,
    more: usize,
}

impl Notes {
    fn note(&mut self, at: String, how: impl Into<String>) {
        if self.noted.len() < NOTES_MAX {
            self.noted.push((shown_place(&at), how.into()));
        } else {
            self.more += 1;
        }
    }

    fn left_out(&mut self, at: String) {
        self.note(at, "it is not as A2A 1.0 has it, and is left out");
    }

    fn all(mut self) -> Vec<(String, String)> {
        if self.more > 0 {
            self.noted.push(("/".to_owned(), format!("{} more members are not as A2A 1.0 has them", self.more)));
        }
        self.noted
    }
}

/// A pointer without what no line may hold.
fn shown_place(at: &str) -> String {
    at.chars().filter(|c| !c.is_control() && !althing_td::is_hidden(*c)).take(4 * SHOWN_CHARS_MAX).collect()
}

/// One more token on a JSON pointer (RFC 6901 §3).
fn join(at: &str, token: impl std::fmt::Display) -> String {
    format!("{at}/{}", token.to_string().replace('~', "~0").replace('/', "~1"))
}

/// A member, unless it is missing or null.
fn take(of: &mut Map<String, Value>, member: &str) -> Option<Value> {
    of.remove(member).filter(|value| !value.is_null())
}

fn read(mut card: Map<String, Value>, notes: &mut Notes) -> AgentCard {
    let card = &mut card;
    let interfaces = list(card, "", "supportedInterfaces", notes);
    let numbered = |values: Vec<Value>, at: &str| -> Vec<(String, Value)> {
        values.into_iter().enumerate().map(|(number, value)| (join(at, number), value)).collect()
    };
    let interfaces = numbered(interfaces, "/supportedInterfaces");
    let interfaces = interfaces.into_iter().filter_map(|(at, value)| interface(value, &at, notes)).collect();
    let skills = list(card, "", "skills", notes);
    let skills = numbered(skills, "/skills").into_iter().filter_map(|(at, value)| skill(value, &at, notes)).collect();
    AgentCard {
        name: text(card, "", "name", UNTITLED, notes),
        description: text(card, "", "description", "", notes),
        version: text(card, "", "version", VERSION_UNKNOWN, notes),
        supported_interfaces: interfaces,
        capabilities: capabilities(card, notes),
        default_input_modes: texts(card, "", "defaultInputModes", notes),
        default_output_modes: texts(card, "", "defaultOutputModes", notes),
        skills,
        provider: provider(card, notes),
        documentation_url: optional(card, "", "documentationUrl", notes),
        icon_url: optional(card, "", "iconUrl", notes),
        security_schemes: schemes(card, notes).map(|schemes| schemes.into_iter().collect()),
        security_requirements: requirements(card, "", notes),
        signatures: signatures(card, notes),
    }
}

/// The value as that type.
fn as_a<T: DeserializeOwned>(value: Value) -> Option<T> {
    serde_json::from_value(value).ok()
}

/// A member of that type, which may be missing.
fn optional<T: DeserializeOwned>(of: &mut Map<String, Value>, at: &str, member: &str, notes: &mut Notes) -> Option<T> {
    let read = as_a(take(of, member)?);
    if read.is_none() {
        notes.left_out(join(at, member));
    }
    read
}

/// Text that should be there, and not blank.
fn text(of: &mut Map<String, Value>, at: &str, member: &str, otherwise: &str, notes: &mut Notes) -> String {
    match take(of, member) {
        Some(Value::String(text)) if otherwise.is_empty() || !text.trim().is_empty() => text,
        // A version that somebody wrote as a number.
        Some(Value::Number(number)) => number.to_string(),
        found => {
            let lacks = if found.is_none() { "it is missing" } else { "it is no text, or blank" };
            let read = if otherwise.is_empty() { "empty".to_owned() } else { format!("{otherwise:?}") };
            notes.note(join(at, member), format!("{lacks}, and is read as {read}"));
            otherwise.to_owned()
        }
    }
}

/// A list that should be there.
fn list(of: &mut Map<String, Value>, at: &str, member: &str, notes: &mut Notes) -> Vec<Value> {
    match take(of, member) {
        Some(Value::Array(items)) => items,
        found => {
            let lacks = if found.is_none() { "it is missing" } else { "it is no list" };
            notes.note(join(at, member), format!("{lacks}, and is read as an empty list"));
            Vec::new()
        }
    }
}

/// The texts of a list that should be there.
fn texts(of: &mut Map<String, Value>, at: &str, member: &str, notes: &mut Notes) -> Vec<String> {
    let all = list(of, at, member, notes);
    let read = |(number, item): (usize, Value)| match item {
        Value::String(text) => Some(text),
        _ => {
            notes.left_out(join(&join(at, member), number));
            None
        }
    };
    all.into_iter().enumerate().filter_map(read).collect()
}

/// The items of a list that may be missing.
fn items<T: DeserializeOwned>(
    of: &mut Map<String, Value>,
    at: &str,
    member: &str,
    notes: &mut Notes,
) -> Option<Vec<T>> {
    let all: Vec<Value> = optional(of, at, member, notes)?;
    let mut read = Vec::new();
    for (number, item) in all.into_iter().enumerate() {
        match as_a(item) {
            Some(item) => read.push(item),
            None => notes.left_out(join(&join(at, member), number)),
        }
    }
    Some(read)
}

fn interface(value: Value, at: &str, notes: &mut Notes) -> Option<AgentInterface> {
    let Value::Object(mut members) = value else {
        notes.left_out(at.to_owned());
        return None;
    };
    let named = |member: &str| members.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let (Some(url), Some(binding)) = (named("url").map(str::to_owned), named("protocolBinding").map(str::to_owned))
    else {
        notes.note(at.to_owned(), "it names no address (url) or no binding (protocolBinding), and is left out");
        return None;
    };
    match Address::of(url.trim(), &binding) {
        Some(Address::Relative) => {
            notes.note(join(at, "url"), "it is relative, and is read as one below that of the card")
        }
        Some(Address::Wrong) => {
            notes.note(at.to_owned(), "its address (url) is none of http or https, and it is left out");
            return None;
        }
        Some(Address::Whole) | None => {}
    }
    let protocol_version = match take(&mut members, "protocolVersion") {
        // As it is written, also empty: what was agreed to has it so.
        Some(Value::String(version)) => version,
        other => {
            let mut of = other.map(|version| ("protocolVersion".to_owned(), version)).into_iter().collect();
            text(&mut of, at, "protocolVersion", VERSION, notes)
        }
    };
    let tenant = optional(&mut members, at, "tenant", notes);
    let read = AgentInterface { url, protocol_binding: binding, protocol_version, tenant };
    // As the type itself would have read it.
    as_a(json!(read))
}

fn capabilities(card: &mut Map<String, Value>, notes: &mut Notes) -> AgentCapabilities {
    let at = "/capabilities";
    let mut members = match take(card, "capabilities") {
        Some(Value::Object(members)) => members,
        found => {
            let lacks = if found.is_none() { "it is missing" } else { "it is no object" };
            notes.note(at.to_owned(), format!("{lacks}, and is read as none"));
            return AgentCapabilities::default();
        }
    };
    AgentCapabilities {
        streaming: optional(&mut members, at, "streaming", notes),
        push_notifications: optional(&mut members, at, "pushNotifications", notes),
        extensions: items::<AgentExtension>(&mut members, at, "extensions", notes),
        extended_agent_card: optional(&mut members, at, "extendedAgentCard", notes),
    }
}

fn skill(value: Value, at: &str, notes: &mut Notes) -> Option<AgentSkill> {
    let Value::Object(mut members) = value else {
        notes.left_out(at.to_owned());
        return None;
    };
    let named = |member: &str| members.get(member).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let Some(name) = named("name").or(named("id")).map(str::to_owned) else {
        notes.note(at.to_owned(), "it has neither an id nor a name, and is left out");
        return None;
    };
    let id = named("id").unwrap_or(&name).to_owned();
    Some(AgentSkill {
        id: text(&mut members, at, "id", &id, notes),
        name: text(&mut members, at, "name", &name, notes),
        description: text(&mut members, at, "description", "", notes),
        tags: texts(&mut members, at, "tags", notes),
        examples: items(&mut members, at, "examples", notes),
        input_modes: items(&mut members, at, "inputModes", notes),
        output_modes: items(&mut members, at, "outputModes", notes),
        security_requirements: requirements(&mut members, at, notes),
    })
}

fn provider(card: &mut Map<String, Value>, notes: &mut Notes) -> Option<AgentProvider> {
    match take(card, "provider")? {
        Value::Object(mut members) => {
            let at = "/provider";
            Some(AgentProvider {
                organization: text(&mut members, at, "organization", "", notes),
                url: text(&mut members, at, "url", "", notes),
            })
        }
        _ => {
            notes.left_out("/provider".to_owned());
            None
        }
    }
}

fn schemes(card: &mut Map<String, Value>, notes: &mut Notes) -> Option<Vec<(String, SecurityScheme)>> {
    let all: Map<String, Value> = optional(card, "", "securitySchemes", notes)?;
    let mut known = Vec::new();
    for (name, scheme) in all {
        match as_a(scheme) {
            Some(scheme) => known.push((name, scheme)),
            None => notes.note(join("/securitySchemes", name), "it is of no kind that A2A 1.0 has, and is left out"),
        }
    }
    Some(known)
}

/// Its signatures, but for those that nobody could verify with any key.
fn signatures(card: &mut Map<String, Value>, notes: &mut Notes) -> Option<Vec<AgentCardSignature>> {
    let all: Vec<Value> = optional(card, "", "signatures", notes)?;
    let mut read = Vec::new();
    for (number, one) in all.into_iter().enumerate() {
        let alone = json!({ "signatures": [one] }).to_string();
        let is_whole = card_signers(alone.as_bytes()).is_ok_and(|signers| !signers.is_empty());
        match as_a(one).filter(|_| is_whole) {
            Some(signature) => read.push(signature),
            None => notes.left_out(join("/signatures", number)),
        }
    }
    Some(read)
}

fn requirements(of: &mut Map<String, Value>, at: &str, notes: &mut Notes) -> Option<Vec<SecurityRequirement>> {
    let all: Vec<Value> = optional(of, at, "securityRequirements", notes)?;
    let mut read = Vec::new();
    for (number, one) in all.into_iter().enumerate() {
        // The type reads it only as part of what it is required for.
        let skill = json!({ "id": "", "name": "", "description": "", "tags": [], "securityRequirements": [one] });
        match as_a::<AgentSkill>(skill).and_then(|skill| skill.security_requirements) {
            Some(requirements) => read.extend(requirements),
            None => notes.left_out(join(&join(at, "securityRequirements"), number)),
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests;
