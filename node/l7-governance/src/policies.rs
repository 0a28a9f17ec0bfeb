//! The owner's policies as they are in force: none, a set, or a file that cannot be read, which denies everything.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use althing_execution::tools::ModelClearance;
use althing_policy::{
    Answer, Bounds, Demand, EntityName, Entry, Finding, Gate, Kind, PolicySet, ReadError, Request, Verdict, World,
};
use althing_protocol::{AgentId, AgentRef, Digest, Label, hex};
use serde_json::{Map, Value};

use crate::error::ChangeError;
use crate::files::POLICY_FILE;
use crate::machine::consent::escaped;
use crate::machine::node_profile::{self, NodeProfile};
use crate::machine::people::People;
use crate::machine::profile::ToolProfile;
use crate::machine::rules::{Statement, Wants};
use crate::refusals::Refusals;
use crate::toolset::Toolset;

/// Agents of which it is tried whether the policies fit without their tools.
const LEFT_OUT_TRIES: usize = 16;
/// Bytes of the file that are read; a longer one is refused by its reader.
pub(crate) const POLICY_BYTES_MAX: usize = 1 << 20;

/// How reasons begin for which policies deny.
const UNDECIDED: &str = "the owner's policies could not decide";
const UNPERMITTED: &str = "no policy of the owner permits it";
const FORBIDDEN: &str = "the owner's policies forbid it";
const UNREADABLE: &str = "the policies of this node cannot be read";
/// Characters of the name of a principal or a resource, in the reason of a denial.
const NAMED_CHARS: usize = 160;

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
    text: Arc<str>,
    set: Arc<PolicySet>,
    world: World,
    loaded_ms: u64,
    /// Agents whose tools it does not fit: these are denied.
    left_out: BTreeSet<String>,
    /// Why it could not be checked against the tools that are there now, or against those of some agents.
    stale: Vec<Finding>,
}

/// A set that was read and is not in force.
pub(crate) struct SetDraft {
    text: Arc<str>,
    pub(crate) set: Arc<PolicySet>,
    pub(crate) world: World,
    left_out: BTreeSet<String>,
    stale: Vec<Finding>,
}

impl SetDraft {
    /// What is wrong with it, or should be looked at.
    pub(crate) fn lint(&self, people: &People) -> Vec<Finding> {
        // Agents whose tools do not fit are left out where it is loaded.
        linted(&self.set, &self.world, &self.stale, people)
    }
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
    /// That of the node.
    profile: NodeProfile,
    /// Held while a set is made.
    built: Mutex<Revisions>,
    /// What is said where no file is there of the set that was in force before a start.
    missing: Mutex<Option<Finding>>,
    /// What they refused that is no call.
    pub(crate) refusals: Refusals,
}

/// What the newest set was made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Revisions {
    /// The revision of the toolset.
    toolset: u64,
    /// How often people had changed.
    people: u64,
    /// The revision of the tools.
    tools: u64,
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
    /// What is known of those that it names in this request alone.
    pub(crate) facts: Vec<Entry>,
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
            facts: &self.facts,
        }
    }
}

/// The people as policies know them, and how often they changed.
pub(crate) type PeopleNow = (Arc<People>, u64);

impl Policies {
    /// Without any.
    pub(crate) fn none(profile: NodeProfile) -> Policies {
        Policies {
            force: RwLock::new(Arc::new(Force::Nothing)),
            toolset: Mutex::default(),
            profile,
            built: Mutex::default(),
            missing: Mutex::default(),
            refusals: Refusals::default(),
        }
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

    /// Whether labels decide about calls too.
    pub(crate) fn labels_decide(&self) -> bool {
        self.is_loaded() || self.profile.demands(node_profile::Demand::Labels)
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
            Force::Set(set) => Some(set.text.to_string()),
            Force::Nothing | Force::Broken(_) => None,
        }
    }

    /// Since when the set in force is, Unix milliseconds; 0 where none is.
    pub(crate) fn since_ms(&self) -> u64 {
        match &*self.now() {
            Force::Set(set) => set.loaded_ms,
            Force::Nothing | Force::Broken(_) => 0,
        }
    }

    /// How they are, with these people.
    pub(crate) fn status(&self, people: &People) -> PolicyStatus {
        match &*self.now() {
            Force::Nothing => {
                let findings = self.missing().iter().cloned().collect();
                PolicyStatus { digest: None, policies: 0, loaded_ms: 0, is_broken: false, findings }
            }
            Force::Broken(findings) => {
                PolicyStatus { digest: None, policies: 0, loaded_ms: 0, is_broken: true, findings: findings.clone() }
            }
            Force::Set(set) => PolicyStatus {
                digest: Some(set.set.digest().to_string()),
                policies: set.set.len(),
                loaded_ms: set.loaded_ms,
                is_broken: false,
                findings: linted(&set.set, &set.world, &set.stale, people),
            },
        }
    }

    /// Reads a set against what is known now; nothing changes. An agent whose tools do not fit takes nothing from the others: the set
    /// is checked without these, which are denied.
    pub(crate) fn read(&self, text: &str, people: &People) -> Result<SetDraft, ChangeError> {
        let toolset = self.toolset().clone();
        let error = match read_without(&toolset, text, people, BTreeSet::new()) {
            Err(ChangeError::Policies(error)) => error,
            other => return other,
        };
        let known = self.left_out();
        let another = toolset.newest_bound().take(LEFT_OUT_TRIES).map(|agent| {
            let agent = std::iter::once(agent.clone());
            known.iter().cloned().chain(agent).collect::<BTreeSet<String>>()
        });
        let tries = std::iter::once(known.clone()).filter(|known| !known.is_empty()).chain(another);
        for left_out in tries {
            if let Ok(mut draft) = read_without(&toolset, text, people, left_out) {
                draft.stale = draft.left_out.iter().map(|agent| unfit(agent, &error)).collect();
                return Ok(draft);
            }
        }
        Err(ChangeError::Policies(error))
    }

    /// The agents whose tools the set in force does not fit.
    fn left_out(&self) -> BTreeSet<String> {
        match &*self.now() {
            Force::Set(set) => set.left_out.clone(),
            Force::Nothing | Force::Broken(_) => BTreeSet::new(),
        }
    }

    /// Puts a set in force that was read.
    fn swap(&self, draft: SetDraft, loaded_ms: u64) {
        let SetDraft { text, set, world, left_out, stale } = draft;
        self.put(Force::Set(Set { text, set, world, loaded_ms, left_out, stale }));
    }

    /// Puts a set in force that somebody loaded: one that is made anew meanwhile from what was there before does not take its place.
    pub(crate) fn load(&self, draft: SetDraft, loaded_ms: u64) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        self.swap(draft, loaded_ms);
        *self.missing() = None;
        // It was read against what was known a moment ago.
        *built = Revisions { toolset: u64::MAX, people: u64::MAX, tools: u64::MAX };
    }

    /// No set is in force any more, and none is missing.
    pub(crate) fn unload(&self) {
        let _built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(Force::Nothing);
        *self.missing() = None;
    }

    /// The file is not there of the set of that digest, which was in force.
    pub(crate) fn misses(&self, digest: &Digest) {
        let what = format!(
            "the set {} was in force, and nobody took it out, but its file is gone: no policies are in force",
            hex(digest)
        );
        let remedy = "put the policies in force again, or take them out, which ends this warning".to_owned();
        *self.missing() = Some(Finding { file: POLICY_FILE.to_owned(), place: None, policy: None, what, remedy });
    }

    /// Whether there is no file of the set that was in force before a start.
    pub(crate) fn is_missing(&self) -> bool {
        self.missing().is_some()
    }

    /// The names that are known of one kind.
    pub(crate) fn names(&self, kind: Kind) -> Vec<String> {
        self.toolset().names(kind)
    }

    /// What is said once where labels begin to decide, since there is a set; nothing where each tool is cleared for more than public
    /// data.
    pub(crate) fn label_start(&self) -> Option<Finding> {
        let (uncleared, all) = self.toolset().uncleared();
        if uncleared == 0 {
            return None;
        }
        let what = format!(
            "labels decide too from now on, and {uncleared} of the {all} tools that are known may be given public data alone"
        );
        let remedy = "write `clearance` for those that may be given more, in `[[tools]]` of the configuration or in \
                      `tools.SERVER.profiles` of the agent file"
            .to_owned();
        Some(Finding { file: POLICY_FILE.to_owned(), place: None, policy: None, what, remedy })
    }

    /// Takes an agent that runs here.
    pub(crate) fn take_own(&self, agent: &AgentRef) {
        self.toolset().take_agent(agent);
    }

    /// Takes an agent's tools as their servers list them.
    pub(crate) fn take_tools<'a>(
        &self,
        agent: &AgentRef,
        tools: impl Iterator<Item = (&'a str, &'a Value, ToolProfile)>,
    ) {
        let mut toolset = self.toolset();
        toolset.take_agent(agent);
        toolset.take_listed(&agent.id.to_string(), tools);
    }

    /// An agent of this node acts, by its id, version and publisher: what policies read of it in this request alone.
    pub(crate) fn act(&self, (agent, version, publisher): (&str, &str, &str)) -> Option<Entry> {
        self.toolset().act(agent, version, publisher)
    }

    /// Takes a tool that has a definition, of an agent of this node.
    pub(crate) fn take_tool(&self, agent: &str, tool: &str, profile: ToolProfile) {
        self.toolset().take_tool(agent, tool, profile);
    }

    /// A model is asked, or given to an agent: what policies read of it in this request alone.
    pub(crate) fn take_model(&self, name: &str, clearance: ModelClearance) -> Option<Entry> {
        self.toolset().take_model(name, clearance)
    }

    /// How far a model is cleared; nothing of one that nobody was given.
    pub(crate) fn clearance_of(&self, model: &str) -> Option<ModelClearance> {
        self.toolset().clearance_of(model)
    }

    /// The profile of a tool that an agent calls so; nothing of one that nobody has.
    pub(crate) fn profile_of(&self, agent: &str, tool: &str) -> Option<ToolProfile> {
        self.toolset().profile_of(agent, tool)
    }

    /// Takes an agent of this node's owner, by its id.
    pub(crate) fn take_own_id(&self, agent: &AgentId) {
        self.toolset().take_own(agent, "");
    }

    /// An agent is named that may run on another node, the owner's other ones too: what policies read of it in this request; nothing
    /// where they know it already. Its version is empty where nobody says it.
    pub(crate) fn take_named(&self, agent: &AgentId, version: &str) -> Option<Entry> {
        self.toolset().take_named(&agent.to_string(), version, &agent.publisher().to_string())
    }

    /// The same of a node, by its id.
    pub(crate) fn take_node(&self, id: &str) -> Entry {
        self.toolset().take_node(id)
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
                (Statement::Deny(format!("{UNREADABLE}: {why}")), None)
            }
            Force::Set(set) if request.gate == Gate::UseTool && set.left_out.contains(&request.principal.id) => {
                let why = "the owner's policies do not fit the tools of this agent, which are denied: rename its servers of tools, or \
                           load policies that fit them";
                (Statement::Deny(why.to_owned()), None)
            }
            Force::Set(set) => {
                let verdict = set.set.decide(&set.world, &request.as_request());
                (statement(&verdict, request), Some(verdict))
            }
        })
    }

    /// Makes the set anew where tools, agents or people are there now that it was not made for. One that cannot be made stays as
    /// it was: what it was not checked for is denied.
    fn refresh(&self, (people, changes): &PeopleNow) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let toolset = {
            let toolset = self.toolset();
            (toolset.revision(), toolset.tools_revision())
        };
        let wanted = Revisions { toolset: toolset.0, people: *changes, tools: toolset.1 };
        if *built == wanted {
            return;
        }
        let has_other_tools = built.tools != wanted.tools;
        *built = wanted;
        let now = self.now();
        let Force::Set(set) = &*now else { return };
        let read = match has_other_tools {
            true => self.read(&set.text, people),
            false => self.anew(set, people),
        };
        match read {
            Ok(draft) => self.swap(draft, set.loaded_ms),
            Err(error) => {
                tracing::error!(%error, "the policies do not fit the tools that are there now; those are denied");
                self.stay(set, people, error);
            }
        }
    }

    /// The set in force with what it reads now, where no tool changed: whoever else there is, its policies are checked against tools
    /// alone, and are not read again for each stranger.
    fn anew(&self, old: &Set, people: &People) -> Result<SetDraft, ChangeError> {
        let (entries, own) = {
            let toolset = self.toolset();
            (entries(&toolset, people, &old.left_out), toolset.own_entries(&old.left_out))
        };
        let world = old.world.anew(&entries)?.with_own(&own);
        let (text, set) = (old.text.clone(), old.set.clone());
        Ok(SetDraft { text, set, world, left_out: old.left_out.clone(), stale: old.stale.clone() })
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
        match self.anew(old, people) {
            Ok(draft) => self.swap(SetDraft { stale, ..draft }, old.loaded_ms),
            Err(_) => self.breaks(stale),
        }
    }

    /// How often something changed for which what policies read is made anew.
    #[cfg(test)]
    pub(crate) fn revision(&self) -> u64 {
        self.toolset().revision()
    }

    fn put(&self, force: Force) {
        *self.force.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(force);
    }

    fn missing(&self) -> MutexGuard<'_, Option<Finding>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Arc<Force> {
        self.force.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn toolset(&self) -> MutexGuard<'_, Toolset> {
        self.toolset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with a set, or should be looked at, with these people.
fn linted(set: &PolicySet, world: &World, stale: &[Finding], people: &People) -> Vec<Finding> {
    let found = althing_policy::lint(POLICY_FILE, set, world);
    let unsigned = set.sign_offs().filter_map(|(policy, count, role)| {
        let able = people.able(role);
        (able < usize::try_from(count).unwrap_or(usize::MAX)).then(|| Finding {
            file: POLICY_FILE.to_owned(),
            place: set.place_of(policy),
            policy: Some(policy.to_owned()),
            what: format!("it wants a sign-off of {count} with the role {role}, and {able} who can answer have it"),
            remedy: "give more people that role, each with a key; until then what it asks about is not done".to_owned(),
        })
    });
    stale.iter().cloned().chain(found).chain(unsigned).collect()
}

/// What a set says, as a rule among others.
fn statement(verdict: &Verdict, request: &PolicyRequest) -> Statement {
    match &verdict.answer {
        Answer::Permit => Statement::Permit,
        Answer::Ask(demands) => Statement::Ask(wants(demands.iter())),
        Answer::Deny => Statement::Deny(denial(verdict, request)),
    }
}

/// The policies that decided.
pub(crate) fn deciding(verdict: Option<&Verdict>) -> Vec<String> {
    verdict.into_iter().flat_map(|verdict| verdict.policies.iter().cloned()).collect()
}

/// Whether a reason for which a call failed is that policies deny it, as its text says: of a call that another node refuses, nothing
/// else is known.
#[must_use]
pub fn is_policy_denial(reason: &str) -> bool {
    [UNDECIDED, UNPERMITTED, FORBIDDEN, UNREADABLE].iter().any(|beginning| reason.contains(beginning))
}

fn denial(verdict: &Verdict, request: &PolicyRequest) -> String {
    if let Some(error) = verdict.errors.first() {
        return format!("{UNDECIDED}, and what they cannot decide is denied: {error}");
    }
    let sought = sought(request);
    if verdict.policies.is_empty() {
        return format!("{UNPERMITTED}: {sought}");
    }
    format!("{FORBIDDEN} ({}): {sought}", deciding(Some(verdict)).join(", "))
}

/// What policies were asked about, by the names that they use; others chose some of these.
fn sought(PolicyRequest { principal, gate, resource, .. }: &PolicyRequest) -> String {
    let named = |name: &EntityName| format!("{}::\"{}\"", name.kind.word(), escaped(&name.id, NAMED_CHARS));
    format!("Action::\"{}\" by {} on {}", gate.word(), named(principal), named(resource))
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

/// Reads a set against what is known, without the tools of some agents.
fn read_without(
    toolset: &Toolset,
    text: &str,
    people: &People,
    left_out: BTreeSet<String>,
) -> Result<SetDraft, ChangeError> {
    let schema = toolset.schema(&left_out);
    let set = Arc::new(PolicySet::read(POLICY_FILE, text, &schema, &Bounds::default())?);
    let entries = entries(toolset, people, &left_out);
    let world = World::new(&schema, &entries)?.with_own(&toolset.own_entries(&left_out));
    Ok(SetDraft { text: Arc::from(text), set, world, left_out, stale: Vec::new() })
}

/// That a set does not fit the tools of an agent.
fn unfit(agent: &str, error: &ReadError) -> Finding {
    let why = error.findings.first().map(ToString::to_string).unwrap_or_default();
    Finding {
        file: POLICY_FILE.to_owned(),
        place: None,
        policy: None,
        what: format!("it does not fit the tools of {agent}, which are denied: {why}"),
        remedy: "rename the servers of tools of that agent, or load policies that fit them too".to_owned(),
    }
}

fn entries(toolset: &Toolset, people: &People, left_out: &BTreeSet<String>) -> Vec<Entry> {
    let person = |(name, roles): (&str, std::collections::BTreeSet<&str>)| Entry::Person {
        id: name.to_owned(),
        roles: roles.into_iter().map(str::to_owned).collect(),
    };
    toolset.entries(left_out).into_iter().chain(people.roles().into_iter().map(person)).collect()
}

#[cfg(test)]
mod tests;
