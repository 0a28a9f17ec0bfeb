//! Governance of one node: what it goes by, how that is changed, and what runs beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use althing_call::chain;
use althing_policy::ReadError as PolicyReadError;
use althing_protocol::{AgentId, AgentRef};
use althing_store::{Batch, Durability, WriteError};
use serde_json::Value;
use tokio::sync::watch;

use crate::actor::Actor;
use crate::audit::{AuditConfig, AuditLog, AuditPorts};
use crate::config::Ports;
use crate::consent_book::ConsentBook;
use crate::consents::Consents;
use crate::decisions::{DecisionRecord, Decisions, NewestDecisions, PolicyDiff};
use crate::definitions::ToolDefinitions;
use crate::error::{ChangeError, OpenError};
use crate::files::{self, FileState, PEOPLE_FILE, POLICY_FILE};
use crate::leaves;
use crate::machine::consent::AskId;
use crate::machine::people::People;
use crate::machine::profile::{Statements, ToolProfile};
use crate::policies::{POLICY_BYTES_MAX, PeopleNow, Policies, PolicyStatus};
use crate::policy_row::{self, PolicyRow};
use crate::revision::Revision;
use crate::roster::{Roster, people_for, people_text};
use crate::toolset::Profiles;
use crate::turn_notes::TurnNotes;

/// Governance of one node. Clones are the same.
#[derive(Clone)]
pub struct Governance {
    inner: Arc<Inner>,
}

struct Inner {
    ports: Ports,
    audit: AuditLog,
    policies: Policies,
    decisions: Decisions,
    roster: Roster,
    book: ConsentBook,
    definitions: ToolDefinitions,
    turns: Mutex<TurnNotes>,
    /// Held by whoever changes what people were asked, policies or people, until that is on disk.
    writing: tokio::sync::Mutex<()>,
    revision: Revision,
}

impl Governance {
    /// Reads policies, people and rows, and denies what programs asked that cannot go on after a start. Without the files it
    /// decides by contracts, and asks whom these name.
    ///
    /// # Errors
    /// [`OpenError`]. Files that are there and cannot be read are no error: what they would decide is denied.
    pub async fn open(ports: Ports) -> Result<Governance, OpenError> {
        let audit = AuditLog::open(audit_ports(&ports), AuditConfig::default()).await?;
        let store = ports.store.as_ref();
        let consents = Consents::read(store)?;
        let definitions = ToolDefinitions::open(ports.store.clone())?;
        let decisions = Decisions::open(store)?;
        let roster = Roster::read(&ports);
        let policies = read_policies(&ports, &roster.now().0, PolicyRow::read(store)?);
        let inner = Inner {
            audit,
            policies,
            decisions,
            roster,
            book: ConsentBook::new(consents),
            definitions,
            turns: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            revision: Revision::default(),
            ports,
        };
        let governance = Governance { inner: Arc::new(inner) };
        restart(&governance).await?;
        let people = governance.people();
        policy_row::settle(governance.ports(), governance.policies(), governance.audit(), people.owner()).await?;
        Ok(governance)
    }

    /// How the policies are.
    #[must_use]
    pub fn policy(&self) -> PolicyStatus {
        self.policies().status(&self.people_now().0)
    }

    /// The text of the policies in force, if there are any.
    #[must_use]
    pub fn policy_text(&self) -> Option<String> {
        self.policies().text()
    }

    /// Puts another set of policies in force, as a whole or not at all. It is on disk, and on record, before it counts.
    ///
    /// # Errors
    /// [`ChangeError`]; the set that was in force stays.
    pub async fn load_policy(&self, text: &str, by: Actor) -> Result<PolicyStatus, ChangeError> {
        let person = owner_of(self, &by)?;
        let _writing = self.writing().lock().await;
        let draft = self.policies().read(text, &self.people_now().0)?;
        let before = self.policies().text().unwrap_or_default();
        let (labels_began, since_ms) = (!self.policies().labels_decide(), self.now_ms());
        let row = PolicyRow { digest: draft.set.digest().0, since_ms, is_gone: false }.batch(self.ports());
        record_change(self, "policies", &person, (before.as_str(), text), row).await?;
        files::write(self.ports().folder.clone(), POLICY_FILE, text.to_owned()).await?;
        self.policies().load(draft, since_ms);
        self.inner.revision.advance();
        let mut status = self.policy();
        status.findings.extend(labels_began.then(|| self.policies().label_start()).flatten());
        Ok(status)
    }

    /// Reads a set of policies against the tools that are bound now, and changes nothing.
    ///
    /// # Errors
    /// [`ChangeError::Policies`] or [`ChangeError::World`]: it could not be loaded.
    pub fn lint_policy(&self, text: &str) -> Result<Vec<althing_policy::Finding>, ChangeError> {
        let people = self.people_now().0;
        Ok(self.policies().read(text, &people)?.lint(&people))
    }

    /// The decisions that another set would turn.
    ///
    /// # Errors
    /// [`ChangeError`]: it could not be loaded, or the decisions cannot be read.
    pub fn diff_policy(&self, text: &str) -> Result<PolicyDiff, ChangeError> {
        let draft = self.policies().read(text, &self.people_now().0)?;
        let diff = self.decision_log().diff(self.ports().store.as_ref(), &draft);
        diff.map_err(|error| ChangeError::Decisions(Box::new(error)))
    }

    /// One decision, by its number; nothing where it is forgotten.
    ///
    /// # Errors
    /// [`OpenError`]: the store fails, or its row is damaged.
    pub fn decision(&self, number: u64) -> Result<Option<DecisionRecord>, OpenError> {
        self.decision_log().get(self.ports().store.as_ref(), number)
    }

    /// The newest decisions, the newest first.
    ///
    /// # Errors
    /// [`OpenError::Read`].
    pub fn decisions(&self, most: usize) -> Result<NewestDecisions, OpenError> {
        self.decision_log().newest(self.ports().store.as_ref(), most)
    }

    /// The people as they are now.
    #[must_use]
    pub fn people(&self) -> Arc<People> {
        self.people_now().0
    }

    /// Why the file of people cannot be read; nothing where it can, or is not there. Until then the owner alone is known.
    #[must_use]
    pub fn people_fault(&self) -> Option<String> {
        self.inner.roster.fault()
    }

    /// Takes other people, as a whole or not at all: they count from the next call on.
    ///
    /// # Errors
    /// [`ChangeError`]; the people stay.
    pub async fn load_people(&self, text: &str, by: Actor) -> Result<Arc<People>, ChangeError> {
        let person = owner_of(self, &by)?;
        let people = Arc::new(people_for(self.ports().profile, text)?);
        let _writing = self.writing().lock().await;
        let before = people_text(self.ports());
        record_change(self, "people", &person, (before.as_str(), text), Batch::new()).await?;
        files::write(self.ports().folder.clone(), PEOPLE_FILE, text.to_owned()).await?;
        self.inner.roster.replace(people.clone());
        self.inner.revision.advance();
        self.book().tell();
        Ok(people)
    }

    /// The audit log.
    #[must_use]
    pub fn audit(&self) -> &AuditLog {
        &self.inner.audit
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.inner.ports
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.inner.policies
    }

    pub(crate) fn decision_log(&self) -> &Decisions {
        &self.inner.decisions
    }

    /// What is held by whoever changes what people were asked, policies or people, until that is on disk.
    pub(crate) fn writing(&self) -> &tokio::sync::Mutex<()> {
        &self.inner.writing
    }

    /// Counts up whenever a question is asked, answered or over, and whenever people change.
    #[must_use]
    pub fn asks_changed(&self) -> watch::Receiver<u64> {
        self.book().changes()
    }

    /// Counts up whenever policies are others, or the people of whom they speak: what runs without being called is decided anew.
    #[must_use]
    pub fn policy_changes(&self) -> watch::Receiver<u64> {
        self.inner.revision.changes()
    }

    /// Takes the tools of an agent as their servers list them: policies are checked against their arguments. `tools` has each
    /// (`server/tool`) with the schema of its arguments.
    pub fn take_tools(&self, agent: &AgentRef, tools: &BTreeMap<String, Value>, profiles: &Profiles) {
        let each = tools.iter().map(|(name, input)| (name.as_str(), input, profile(name, profiles)));
        self.policies().take_tools(agent, each);
    }

    /// Somebody added an agent, and agreed with that to the definitions that its tools have from now on.
    ///
    /// # Errors
    /// [`OpenError`]: what was known of them stays.
    pub async fn forget_definitions(&self, agent: &AgentId) -> Result<(), OpenError> {
        self.inner.definitions.forget(&agent.to_string()).await
    }

    pub(crate) async fn write(&self, batch: Batch, durability: Durability) -> Result<(), WriteError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.ports().store.write(batch, durability).await
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.ports().clock.now_ms()
    }

    pub(crate) fn people_now(&self) -> PeopleNow {
        self.inner.roster.now()
    }

    /// What people were asked and agreed to.
    pub(crate) fn book(&self) -> &ConsentBook {
        &self.inner.book
    }

    pub(crate) fn definitions(&self) -> &ToolDefinitions {
        &self.inner.definitions
    }

    pub(crate) fn turns(&self) -> MutexGuard<'_, TurnNotes> {
        self.inner.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often policies became others, or the people of whom they speak: what was decided under another number is decided anew.
pub(crate) fn revision(governance: &Governance) -> u64 {
    governance.inner.revision.now()
}

/// Takes the policies out, also those that cannot be read: contracts decide alone from now on. It is on record before it counts.
///
/// # Errors
/// [`ChangeError`], such as [`ChangeError::NoPolicies`]; what was in force stays.
pub async fn unload_policy(governance: &Governance, by: Actor) -> Result<PolicyStatus, ChangeError> {
    let person = owner_of(governance, &by)?;
    let _writing = governance.writing().lock().await;
    if !governance.policies().is_loaded() && !governance.policies().is_missing() {
        return Err(ChangeError::NoPolicies);
    }
    let before = governance.policies().text().unwrap_or_default();
    let mut row = Batch::new();
    PolicyRow::forget(&mut row);
    record_change(governance, "policies", &person, (before.as_str(), ""), row).await?;
    files::remove(governance.ports().folder.clone(), POLICY_FILE).await?;
    governance.policies().unload();
    governance.inner.revision.advance();
    Ok(governance.policy())
}

/// The person on whose behalf a turn runs: the user of the owner's gateways who is behind it, or else who is accountable for agents
/// here, the owner. Who is a user of somebody else's node is a claim of that node, whatever their name is.
pub(crate) fn person_of(governance: &Governance, principals: &[String]) -> String {
    let (people, chain) = (governance.people_now().0, chain::read(principals));
    let user = chain::user_of(&chain, governance.ports().owner).and_then(|name| people.person_of(name));
    user.unwrap_or(people.owner()).to_owned()
}

/// The person who changes something, if they may.
fn owner_of(governance: &Governance, by: &Actor) -> Result<String, ChangeError> {
    let people = governance.people_now().0;
    match by {
        Actor::Owner => Ok(people.owner().to_owned()),
        Actor::Person { name, .. } => Err(ChangeError::NotOwner(name.clone())),
    }
}

async fn record_change(
    governance: &Governance,
    what: &str,
    person: &str,
    texts: (&str, &str),
    mut rows: Batch,
) -> Result<(), ChangeError> {
    rows.append(governance.audit().entry(leaves::changed(what, person, governance.now_ms(), texts))?);
    Ok(governance.write(rows, Durability::Synced).await?)
}

/// The rows of questions that nobody answers any more, and their entries in the log.
pub(crate) fn put_over(governance: &Governance, next: &Consents, over: &[AskId], batch: &mut Batch) {
    for id in over {
        next.put(id, batch);
        let Some((question, details)) = next.asks.get(id).zip(next.details.get(id)) else { continue };
        let leaf = leaves::answered(question, details, (None, None), governance.now_ms());
        match governance.audit().entry_at_least(leaf) {
            Ok(leaf) => {
                batch.append(leaf);
            }
            Err(error) => tracing::error!(%error, "a question that is over has no entry in the audit log"),
        }
    }
}

/// What programs asked before the node stopped is denied: they cannot go on.
async fn restart(governance: &Governance) -> Result<(), OpenError> {
    let mut next = (*governance.book().now()).clone();
    let over = next.asks.restart();
    if over.is_empty() {
        return Ok(());
    }
    let mut batch = Batch::new();
    put_over(governance, &next, &over, &mut batch);
    governance.write(batch, Durability::Synced).await?;
    governance.book().publish(next);
    Ok(())
}

/// The profile of a tool, of what the node and the agent's file say.
pub(crate) fn profile(tool: &str, said: &Profiles) -> ToolProfile {
    profile_where(tool, said, &said.here)
}

/// The same of a tool of which it turned out that its server tells others what it is given.
pub(crate) fn profile_elsewhere(tool: &str, said: &Profiles) -> ToolProfile {
    profile_where(tool, said, &BTreeSet::new())
}

fn profile_where(tool: &str, said: &Profiles, here: &BTreeSet<String>) -> ToolProfile {
    let ([node, file], [node_terms, file_terms]) = (&said.effects, &said.terms);
    ToolProfile::of(tool, Statements { effects: [node, file], terms: [node_terms, file_terms], here })
}

fn audit_ports(ports: &Ports) -> AuditPorts {
    AuditPorts {
        store: ports.store.clone(),
        clock: ports.clock.clone(),
        entropy: ports.entropy.clone(),
        node: ports.node,
        owner: ports.owner,
        sign: ports.sign.clone(),
    }
}

/// The policies of the file: none where it is not there, and nothing but denials where it cannot be read. They are in force since `row`
/// says so, if it is about them.
fn read_policies(ports: &Ports, people: &People, row: Option<PolicyRow>) -> Policies {
    let policies = Policies::none(ports.profile);
    match files::read(ports.folder.as_deref(), POLICY_FILE, POLICY_BYTES_MAX) {
        FileState::Absent => {}
        FileState::Unreadable(why) => policies.breaks_for(why),
        FileState::Text(text) => match policies.read(&text, people) {
            Ok(draft) => {
                let known = row.filter(|row| row.digest == draft.set.digest().0);
                policies.load(draft, known.map_or_else(|| ports.clock.now_ms(), |row| row.since_ms));
            }
            Err(ChangeError::Policies(PolicyReadError { findings })) => policies.breaks(findings),
            Err(other) => policies.breaks_for(other.to_string()),
        },
    }
    policies
}
