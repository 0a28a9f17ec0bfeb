//! The owner's policies as they are in force: none, a set, or a file that cannot be read, which denies everything.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use althing_policy::{
    Answer, Bounds, Demand, EntityName, Entry, Finding, Gate, PolicySet, ReadError, Request, Schema, Verdict, World,
};
use althing_protocol::{AgentRef, Digest, Label};
use serde_json::{Map, Value};

use crate::error::ChangeError;
use crate::files::POLICY_FILE;
use crate::machine::people::People;
use crate::machine::profile::ToolProfile;
use crate::machine::rules::{Statement, Wants};
use crate::toolset::Toolset;

/// Bytes of the file that are read; a longer one is refused by its reader.
pub(crate) const POLICY_BYTES_MAX: usize = 1 << 20;

/// How the policies of a node are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyStatus {
    /// The digest of the set in force, hexadecimal; nothing where none is loaded.
    pub digest: Option<String>,
    /// How many policies it has.
    pub policies: usize,
    /// Since when it is in force, Unix milliseconds; 0 where none is.
    pub loaded_ms: u64,
    /// Whether the file is there and cannot be read: then everything that policies decide about is denied.
    pub is_broken: bool,
    /// What is wrong, or should be looked at.
    pub findings: Vec<Finding>,
}

/// A set with what it was checked against.
struct Set {
    text: String,
    set: Arc<PolicySet>,
    schema: Arc<Schema>,
    world: World,
    loaded_ms: u64,
    /// Why it could not be checked against the tools that are there now.
    stale: Vec<Finding>,
}

/// A set that was read and is not in force.
pub(crate) struct SetDraft {
    pub(crate) text: String,
    pub(crate) set: Arc<PolicySet>,
    schema: Arc<Schema>,
    pub(crate) world: World,
}

/// What is in force.
enum Force {
    Nothing,
    Set(Set),
    Broken(Vec<Finding>),
}

/// The policies, and what they speak of.
pub(crate) struct Policies {
    force: RwLock<Arc<Force>>,
    toolset: Mutex<Toolset>,
    /// Held while a set is made: the revision of the toolset, and of the people, that the newest one was made for.
    built: Mutex<(u64, u64)>,
}

/// What is to be decided, as policies see it.
#[derive(Debug, Clone)]
pub(crate) struct PolicyRequest {
    pub(crate) principal: EntityName,
    pub(crate) gate: Gate,
    pub(crate) resource: EntityName,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) label: Label,
    pub(crate) person: Option<String>,
}

impl PolicyRequest {
    pub(crate) fn as_request(&self) -> Request<'_> {
        Request {
            principal: &self.principal,
            gate: self.gate,
            resource: &self.resource,
            arguments: &self.arguments,
            label: self.label,
            person: self.person.as_deref(),
        }
    }
}

/// The people as policies know them, and how often they changed.
pub(crate) type PeopleNow = (Arc<People>, u64);

impl Policies {
    /// Without any.
    pub(crate) fn none() -> Policies {
        Policies { force: RwLock::new(Arc::new(Force::Nothing)), toolset: Mutex::default(), built: Mutex::new((0, 0)) }
    }

    /// The file is there and cannot be read.
    pub(crate) fn breaks(&self, findings: Vec<Finding>) {
        self.put(Force::Broken(findings));
    }

    /// The file is there and no text.
    pub(crate) fn breaks_for(&self, why: String) {
        self.breaks(vec![Finding {
            file: POLICY_FILE.to_owned(),
            place: None,
            policy: None,
            what: format!("it cannot be read ({why})"),
            remedy: "mend the file, or load the policies again; until then everything is denied".to_owned(),
        }]);
    }

    /// Whether policies decide: a file that cannot be read decides too.
    pub(crate) fn is_loaded(&self) -> bool {
        !matches!(*self.now(), Force::Nothing)
    }

    /// The digest of the set in force.
    pub(crate) fn digest(&self) -> Option<Digest> {
        match &*self.now() {
            Force::Set(set) => Some(set.set.digest().0),
            Force::Nothing | Force::Broken(_) => None,
        }
    }

    /// The text of the set in force.
    pub(crate) fn text(&self) -> Option<String> {
        match &*self.now() {
            Force::Set(set) => Some(set.text.clone()),
            Force::Nothing | Force::Broken(_) => None,
        }
    }

    pub(crate) fn status(&self) -> PolicyStatus {
        match &*self.now() {
            Force::Nothing => {
                PolicyStatus { digest: None, policies: 0, loaded_ms: 0, is_broken: false, findings: Vec::new() }
            }
            Force::Broken(findings) => {
                PolicyStatus { digest: None, policies: 0, loaded_ms: 0, is_broken: true, findings: findings.clone() }
            }
            Force::Set(set) => PolicyStatus {
                digest: Some(set.set.digest().to_string()),
                policies: set.set.len(),
                loaded_ms: set.loaded_ms,
                is_broken: false,
                findings: set.set.warnings().iter().chain(&set.stale).cloned().collect(),
            },
        }
    }

    /// Reads a set against what is known now; nothing changes.
    pub(crate) fn read(&self, text: &str, people: &People) -> Result<SetDraft, ChangeError> {
        let toolset = self.toolset().clone();
        let schema = Arc::new(toolset.schema());
        let set = Arc::new(PolicySet::read(POLICY_FILE, text, &schema, &Bounds::default())?);
        let world = World::new(&schema, &entries(&toolset, people))?;
        Ok(SetDraft { text: text.to_owned(), set, schema, world })
    }

    /// Puts a set in force that was read.
    fn swap(&self, draft: SetDraft, loaded_ms: u64) {
        let SetDraft { text, set, schema, world } = draft;
        self.put(Force::Set(Set { text, set, schema, world, loaded_ms, stale: Vec::new() }));
    }

    /// Puts a set in force that somebody loaded: one that is made anew meanwhile from what was there before does not take its place.
    pub(crate) fn load(&self, draft: SetDraft, loaded_ms: u64) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        self.swap(draft, loaded_ms);
        // It was read against what was known a moment ago.
        *built = (u64::MAX, u64::MAX);
    }

    /// Takes an agent's tools as their servers list them.
    pub(crate) fn take_tools<'a>(
        &self,
        agent: &AgentRef,
        tools: impl Iterator<Item = (&'a str, Option<&'a Value>, ToolProfile)>,
    ) {
        let mut toolset = self.toolset();
        toolset.take_agent(agent);
        for (tool, input, profile) in tools {
            toolset.take_tool(tool, input, profile);
        }
    }

    pub(crate) fn take_model(&self, name: &str) {
        self.toolset().take_model(name);
    }

    /// Takes an agent that may be one of another node.
    pub(crate) fn take_agent(&self, id: &str, version: &str, publisher: &str) {
        self.toolset().take_other(id, version, publisher);
    }

    pub(crate) fn take_node(&self, id: &str) {
        self.toolset().take_node(id);
    }

    /// What the set in force says; nothing where none is loaded.
    pub(crate) fn decide(&self, request: &PolicyRequest, people: &PeopleNow) -> Option<(Statement, Option<Verdict>)> {
        if !self.is_loaded() {
            return None;
        }
        self.refresh(people);
        Some(match &*self.now() {
            Force::Nothing => return None,
            Force::Broken(findings) => {
                let why = findings.first().map(ToString::to_string).unwrap_or_default();
                (Statement::Deny(format!("the policies of this node cannot be read: {why}")), None)
            }
            Force::Set(set) => {
                let verdict = set.set.decide(&set.world, &request.as_request());
                (statement(&verdict), Some(verdict))
            }
        })
    }

    /// Makes the set anew where tools, agents or people are there now that it was not made for. One that cannot be made stays as
    /// it was: what it was not checked for is denied.
    fn refresh(&self, (people, changes): &PeopleNow) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (self.toolset().revision(), *changes);
        if *built == wanted {
            return;
        }
        *built = wanted;
        let now = self.now();
        let Force::Set(set) = &*now else { return };
        match self.read(&set.text, people) {
            Ok(draft) => self.swap(draft, set.loaded_ms),
            Err(error) => {
                tracing::error!(%error, "the policies do not fit the tools that are there now; those are denied");
                self.stay(set, people, error);
            }
        }
    }

    /// The set stays with the tools that it was checked against, and says what is wrong.
    fn stay(&self, old: &Set, people: &People, error: ChangeError) {
        let stale = match error {
            ChangeError::Policies(ReadError { findings }) => findings,
            other => vec![Finding {
                file: POLICY_FILE.to_owned(),
                place: None,
                policy: None,
                what: other.to_string(),
                remedy: "remove what is no longer used, and load the policies again".to_owned(),
            }],
        };
        let toolset = self.toolset().clone();
        let Ok(world) = World::new(&old.schema, &entries(&toolset, people)) else { return self.breaks(stale) };
        let (text, set, schema) = (old.text.clone(), old.set.clone(), old.schema.clone());
        self.put(Force::Set(Set { text, set, schema, world, loaded_ms: old.loaded_ms, stale }));
    }

    fn put(&self, force: Force) {
        *self.force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(force);
    }

    fn now(&self) -> Arc<Force> {
        self.force.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn toolset(&self) -> std::sync::MutexGuard<'_, Toolset> {
        self.toolset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a set says, as a rule among others.
fn statement(verdict: &Verdict) -> Statement {
    match &verdict.answer {
        Answer::Permit => Statement::Permit,
        Answer::Ask(demands) => Statement::Ask(wants(demands.iter())),
        Answer::Deny => Statement::Deny(denial(verdict)),
    }
}

fn denial(verdict: &Verdict) -> String {
    if let Some(error) = verdict.errors.first() {
        return format!("the owner's policies could not decide, and what they cannot decide is denied: {error}");
    }
    if verdict.policies.is_empty() {
        return "no policy of the owner permits it".to_owned();
    }
    let policies: Vec<&str> = verdict.policies.iter().map(String::as_str).collect();
    format!("the owner's policies forbid it ({})", policies.join(", "))
}

fn wants<'a>(demands: impl Iterator<Item = &'a Demand>) -> Wants {
    let mut wants = Wants::default();
    for demand in demands {
        match demand {
            Demand::Consent { why } if why.is_empty() => wants.consent.push("the owner's policies ask".to_owned()),
            Demand::Consent { why } => wants.consent.push(why.clone()),
            Demand::SignOff { count, role } => {
                let most = wants.sign_offs.entry(role.clone()).or_default();
                *most = (*most).max(u8::try_from(*count).unwrap_or(u8::MAX));
            }
        }
    }
    wants
}

fn entries(toolset: &Toolset, people: &People) -> Vec<Entry> {
    let person = |(name, roles): (&str, std::collections::BTreeSet<&str>)| Entry::Person {
        id: name.to_owned(),
        roles: roles.into_iter().map(str::to_owned).collect(),
    };
    toolset.entries().into_iter().chain(people.roles().into_iter().map(person)).collect()
}
