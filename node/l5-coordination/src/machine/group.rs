//! A group: executes the batches of its log, in their order.

pub mod admission;
pub mod comparison;
mod costs;
pub(crate) mod owners;
pub(crate) mod permits;
pub(crate) mod withdrawal;
mod writing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::group::{
    Author, Batch, Charter, Command, Declaration, Endorsed, Founding, GroupId, Invitation, Join, KeyLogs, StateMark,
};
use althing_protocol::keylog::Relation;
use althing_protocol::object::{Membership, Statement};
use althing_protocol::{Authored, CallerId, KeyLog, ObjectError, PublicKey, PublisherId};
use minicbor::bytes::ByteVec;

use super::agents::Agents;
use super::members::{Admission, Members, RULES_FIRST, older};
use super::outcome::{Outcome, Refusal, Reply};
use super::proposals::Proposals;
use super::sessions::{NODES_MAX, Sessions, Turn};
use super::shares::{Moment, Sharers};
use super::values::Values;
use super::work::{Asker, Steps, Work};
use super::workflow::Flows;

/// Expelled nodes that are remembered.
pub(super) const EXPELLED_MAX: usize = 1_024;
/// Charters of one group, one after the other.
pub(super) const CHARTERS_MAX: usize = 256;
/// Used invitations that are in force: each is remembered until its end, which is a week away at most.
pub(super) const USED_MAX: usize = 4_096;

/// The state of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub(crate) id: GroupId,
    pub(crate) network: String,
    /// None before its founding.
    pub(crate) charter: Option<Charter>,
    /// All charters as they were signed, the first one first, and when each took effect.
    pub(crate) charters: Vec<(Endorsed, u64)>,
    /// The owners by any of them, whose signatures prove them, and who was invited under them. Follows from the charters, whose
    /// signatures would have to be verified to read them again.
    pub(crate) all_owners: BTreeSet<PublisherId>,
    pub(crate) epoch: u64,
    /// How its owners ended it.
    pub(crate) dissolution: Option<Endorsed>,
    /// The highest time of an entry so far, Unix milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) members: Members,
    /// The key logs of its owners, and of its members' owners.
    pub(crate) logs: KeyLogs,
    pub(crate) sessions: Sessions,
    pub(crate) values: Values,
    /// Which deployments of agents are the last ones.
    pub(crate) agents: Agents,
    pub(crate) work: Work,
    pub(crate) flows: Flows,
    /// The invitations that were used, and until when each is valid.
    pub(crate) used: BTreeMap<[u8; 16], u64>,
    /// The nodes that were expelled last, each with the epoch that this ended.
    pub(crate) expelled: BTreeMap<PublicKey, u64>,
    /// What owners are asked to sign.
    pub(crate) proposals: Proposals,
    /// The version of the rules by which it executes its log.
    pub(crate) rules: u32,
    /// The last digests of this state, the last one last.
    pub(crate) marks: Vec<StateMark>,
}

impl Group {
    /// The state before the first entry.
    #[must_use]
    pub fn new(id: GroupId, network: &str) -> Group {
        Group {
            id,
            network: network.to_owned(),
            charter: None,
            charters: Vec::new(),
            all_owners: BTreeSet::new(),
            epoch: 0,
            dissolution: None,
            now_ms: 0,
            members: Members::default(),
            logs: KeyLogs::new(),
            sessions: Sessions::default(),
            values: Values::default(),
            agents: Agents::default(),
            work: Work::default(),
            flows: Flows::default(),
            used: BTreeMap::new(),
            expelled: BTreeMap::new(),
            proposals: Proposals::default(),
            rules: RULES_FIRST,
            marks: Vec::new(),
        }
    }

    /// The group.
    #[must_use]
    pub fn id(&self) -> GroupId {
        self.id
    }

    /// Its charter, once it is founded.
    #[must_use]
    pub fn charter(&self) -> Option<&Charter> {
        self.charter.as_ref()
    }

    /// Its epoch: it rises when a member leaves and when the charter changes, so that what was signed before is refused.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How its owners ended it, if they did.
    #[must_use]
    pub fn dissolution(&self) -> Option<&Endorsed> {
        self.dissolution.as_ref()
    }

    /// What the owners signed, if it is valid at `now_ms` and under the present charter.
    #[must_use]
    pub fn verify_at<T: Statement + PartialEq>(&self, endorsed: &Endorsed, now_ms: u64) -> Option<T> {
        let charter = self.charter.as_ref()?;
        endorsed.verify(&self.network, &self.id.to_string(), charter, &self.logs, now_ms).ok()
    }

    /// The publishers whose key logs are needed: members' owners, and all owners that there were.
    pub(crate) fn needed_publishers(&self) -> BTreeSet<PublisherId> {
        self.all_owners.iter().copied().chain(self.members.iter().map(|(_, member)| member.owner)).collect()
    }

    /// Forgets the key logs of all others.
    fn forget_logs(&mut self) {
        let (owners, members) = (&self.all_owners, &self.members);
        self.logs.retain(|publisher, _| owners.contains(publisher) || members.owns(publisher));
    }

    /// Its members.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// What its owners are asked to sign.
    #[must_use]
    pub fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Which deployments of its agents are the last ones.
    #[must_use]
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// Its tasks.
    #[must_use]
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Its runs of workflows, and its schedules.
    #[must_use]
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// The owners of the group and of its members: who may submit tasks.
    #[must_use]
    pub fn publishers(&self) -> BTreeSet<PublisherId> {
        let owners = self.charter.iter().flat_map(|charter| &charter.owners).copied();
        owners.chain(self.members.iter().map(|(_, member)| member.owner)).collect()
    }

    /// In whose name the tasks of an author are done: its owner's, where it is a member's node.
    #[must_use]
    pub fn on_behalf_of(&self, author: Author) -> CallerId {
        match author {
            Author::Publisher(publisher) => CallerId::Publisher(publisher),
            Author::Node(node) => match self.members.get(&node) {
                Some(member) => CallerId::Publisher(member.owner),
                None => CallerId::Node(node),
            },
        }
    }

    /// Executes one batch, whose signature was checked; `at_ms` is the time of the leader that accepted it. A mark that is due
    /// is taken before ([`Group::mark_before`]).
    pub fn apply(&mut self, at_ms: u64, batch: &Result<Authored<Batch>, ObjectError>) -> Reply {
        self.advance(at_ms);
        match self.admit(batch) {
            Ok(Some(batch)) => {
                if let Author::Node(node) = batch.author {
                    self.members.hear(&node);
                }
                let steps = Steps::default();
                let outcomes = batch
                    .commands
                    .iter()
                    .map(|command| Outcome::of(self.execute_within(&steps, batch.author, command)));
                Reply::Executed(outcomes.collect())
            }
            Ok(None) => Reply::Duplicate,
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Time passes, never backwards.
    pub(crate) fn advance(&mut self, at_ms: u64) {
        self.now_ms = self.now_ms.max(at_ms);
        let now_ms = self.now_ms;
        self.used.retain(|_, until_ms| *until_ms >= now_ms);
        self.proposals.expire(now_ms);
        let moment = Moment { now_ms, sharers: Sharers::of(self.charter.as_ref(), &self.members) };
        self.flows.advance(&mut self.work, moment);
        // What time does, no batch pays for.
        self.work.take_cost();
    }

    /// The batch, if it is executed; none if it was executed before.
    fn admit<'a>(&mut self, batch: &'a Result<Authored<Batch>, ObjectError>) -> Result<Option<&'a Batch>, Refusal> {
        let Authored { body, signer, .. } = batch.as_ref().map_err(|error| Refusal::Invalid(error.to_string()))?;
        admission::check(self, body, *signer)?;
        if matches!(body.commands.as_slice(), [Command::Found(_)]) {
            // It is the first command of all, and refused later.
            return Ok(Some(body));
        }
        match self.sessions.take(body.author, body.session, body.sequence) {
            Turn::First => Ok(Some(body)),
            Turn::Again => Ok(None),
            Turn::Unknown => Err(Refusal::SessionEnded),
        }
    }

    /// One command by itself.
    #[cfg(test)]
    pub(crate) fn execute(&mut self, author: Author, command: &Command) -> Result<Option<u64>, Refusal> {
        self.execute_within(&Steps::default(), author, command)
    }

    pub(crate) fn execute_within(
        &mut self,
        steps: &Steps,
        author: Author,
        command: &Command,
    ) -> Result<Option<u64>, Refusal> {
        if self.dissolution.is_some() {
            return Err(Refusal::Dissolved);
        }
        if let Author::Node(node) = author
            && !matches!(command, Command::Found(_) | Command::Join(_))
            && self.members.get(&node).is_none()
        {
            // It left by an earlier command of the same batch.
            return Err(Refusal::NotAMember(node));
        }
        if let Some(cost) = costs::of(self, command) {
            steps.check()?;
            steps.spend(cost);
        }
        match (command, author) {
            (Command::Found(founding), Author::Node(node)) => self.found(founding, node),
            (Command::Join(join), Author::Node(node)) => self.join(join, node),
            (Command::Leave, Author::Node(node)) => self.remove(node),
            (Command::Addresses(addresses), Author::Node(node)) => self.members.moved(node, addresses).map(|()| None),
            (Command::Declare(declaration), Author::Node(node)) => comparison::declare(self, node, *declaration),
            (
                Command::Found(_) | Command::Join(_) | Command::Leave | Command::Addresses(_) | Command::Declare(_),
                Author::Publisher(_),
            ) => Err(Refusal::Author("only the node itself can found, join, leave, move or declare".to_owned())),
            (Command::Expel(endorsed), _) => owners::expel(self, endorsed),
            (Command::Amend(amendment), _) => owners::amend(self, amendment),
            (Command::Dissolve(endorsed), _) => owners::dissolve(self, endorsed),
            (Command::Keys(events), _) => owners::keys(self, events),
            (Command::Propose(propose), _) => owners::propose(self, author, propose),
            (Command::Endorse(endorse), _) => owners::endorse(self, author, endorse),
            (Command::Silent(voter), _) => owners::silent(self, author, *voter),
            (Command::Withdraw(signed), _) => withdrawal::withdraw(self, signed),
            (Command::Replace(replace), _) => owners::replace(self, author, replace.voter, replace.learner),
            (Command::Set(_) | Command::Remove(_), _) => writing::execute(self, author, command),
            (command, _) => execute_work(self, steps, author, command),
        }
    }

    /// In whose room is what an author gives the group.
    fn owner_of_author(&self, author: Author) -> Result<PublisherId, Refusal> {
        match author {
            Author::Publisher(publisher) => Ok(publisher),
            Author::Node(node) => self.members.get(&node).map(|member| member.owner).ok_or(Refusal::NotAMember(node)),
        }
    }

    fn owns(&self, publisher: PublisherId) -> bool {
        self.charter.as_ref().is_some_and(|charter| charter.owners.contains(&publisher))
    }

    fn founded(&self) -> Result<&Charter, Refusal> {
        self.charter.as_ref().ok_or(Refusal::NotFounded)
    }

    fn is_owner(&self, author: Author) -> bool {
        matches!(author, Author::Publisher(publisher) if self.owns(publisher))
    }

    fn verify<T: Statement + PartialEq>(&self, endorsed: &Endorsed) -> Result<T, Refusal> {
        let (charter, scope) = (self.founded()?, self.id.to_string());
        let body = endorsed.verify(&self.network, &scope, charter, &self.logs, self.now_ms);
        body.map_err(|error| Refusal::Endorsement(error.to_string()))
    }

    fn found(&mut self, founding: &Founding, node: PublicKey) -> Result<Option<u64>, Refusal> {
        if self.charter.is_some() {
            return Err(Refusal::Charter);
        }
        let (charter, logs, owner) = open_founding(&self.network, self.now_ms, self.id, founding, node)?;
        self.members.join(node, owner, founding.addresses.clone(), None, charter.policy.voters_max)?;
        self.charters.push((founding.charter.clone(), self.now_ms));
        self.all_owners.extend(&charter.owners);
        (self.logs, self.charter, self.epoch) = (logs, Some(charter), 1);
        self.forget_logs();
        let rules = founding.rules.map_or(RULES_FIRST, |rules| rules.max(RULES_FIRST));
        comparison::declare(self, node, Declaration { rules, mark: None })?;
        Ok(Some(self.epoch))
    }

    fn join(&mut self, join: &Join, node: PublicKey) -> Result<Option<u64>, Refusal> {
        let invitation = self.invited(join, node)?;
        let voters_max = self.founded()?.policy.voters_max;
        let log = Arc::new(read_log(self.logs.get(&join.owner.owner()).map(Arc::as_ref), &join.log)?);
        let logs = KeyLogs::from([(log.publisher(), log.clone())]);
        let (owner, _) = owner_of(&self.network, self.now_ms, &join.owner, node, &logs)?;
        let admission = Admission { invitation: join.invitation.clone(), at_ms: self.now_ms };
        self.members.join(node, owner, join.addresses.clone(), Some(admission), voters_max)?;
        self.members.declare(node, Declaration { rules: join.rules.unwrap_or(RULES_FIRST), mark: None })?;
        self.used.insert(invitation.nonce, invitation.not_after_ms);
        self.proposals.remove(&owners::name_of(&invitation));
        self.learn(log);
        Ok(None)
    }

    /// Knows a later key log. No key is lost with one that it displaces (P-48): that one has a single event after the fork, by
    /// the key that the last common event committed to, and the first event of the later one is by the same.
    fn learn(&mut self, log: Arc<KeyLog>) {
        self.logs.insert(log.publisher(), log);
    }

    /// The invitation by which `node` may join now.
    fn invited(&self, join: &Join, node: PublicKey) -> Result<Invitation, Refusal> {
        let invitation: Invitation = self.verify(&join.invitation)?;
        if invitation.node != node {
            return Err(Refusal::Invitation("it is for another node".to_owned()));
        }
        if join.rules.is_none_or(|rules| rules < self.rules) {
            return Err(Refusal::Invalid(older(self.rules)));
        }
        owners::check_invitation(self, &invitation)?;
        if self.used.len() >= USED_MAX || self.sessions.nodes() >= NODES_MAX {
            return Err(Refusal::Full(
                "as many nodes joined, or tried to, as it can remember; try again later".to_owned(),
            ));
        }
        Ok(invitation)
    }

    /// A node is no member any more.
    fn remove(&mut self, node: PublicKey) -> Result<Option<u64>, Refusal> {
        let voters_max = self.founded()?.policy.voters_max;
        self.members.remove(node, voters_max)?;
        self.work.leave(node);
        comparison::use_rules(self);
        Ok(Some(self.next_epoch()))
    }

    /// A node is removed by owners: invitations that it holds yet are not worth anything any more.
    fn expel(&mut self, node: PublicKey) -> Result<Option<u64>, Refusal> {
        let epoch = self.epoch;
        let done = self.remove(node)?;
        self.expelled.insert(node, epoch);
        forget_oldest(&mut self.expelled);
        Ok(done)
    }

    /// Begins the next epoch: forgets who is not needed any more.
    fn next_epoch(&mut self) -> u64 {
        self.epoch = self.epoch.saturating_add(1);
        self.proposals.end_expulsions();
        self.forget_logs();
        let (logs, members) = (&self.logs, &self.members);
        self.sessions.retain(|author| match author {
            Author::Publisher(publisher) => logs.contains_key(publisher),
            Author::Node(node) => members.get(node).is_some(),
        });
        self.epoch
    }
}

/// The charter of a founding by `node`, its owners' key logs, and the founder's owner.
fn open_founding(
    network: &str,
    now_ms: u64,
    id: GroupId,
    founding: &Founding,
    node: PublicKey,
) -> Result<(Charter, KeyLogs, PublisherId), Refusal> {
    let logs = founding.logs.iter().map(|events| read_log(None, events));
    let logs: KeyLogs = logs.map(|log| log.map(|log| (log.publisher(), Arc::new(log)))).collect::<Result<_, _>>()?;
    let malformed = |error: &dyn std::fmt::Display| Refusal::Endorsement(error.to_string());
    let charter: Charter = founding.charter.read(network, "").map_err(|error| malformed(&error))?;
    if GroupId::of(&charter) != id || charter.founder != node || charter.sequence != 0 {
        return Err(Refusal::Charter);
    }
    let verified = founding.charter.verify::<Charter>(network, "", &charter, &logs, now_ms);
    verified.map_err(|error| malformed(&error))?;
    if let Some(owner) = charter.owners.iter().find(|owner| !logs.contains_key(owner)) {
        return Err(Refusal::KeyLog(format!("there is none of the owner {owner}")));
    }
    let (owner, _) = owner_of(network, now_ms, &founding.owner, node, &logs)?;
    Ok((charter, logs, owner))
}

/// The owner that a node proves, by its key log in `logs`.
fn owner_of(
    network: &str,
    now_ms: u64,
    proof: &althing_protocol::OwnerProof,
    node: PublicKey,
    logs: &KeyLogs,
) -> Result<(PublisherId, Membership), Refusal> {
    let wrong = |error: &dyn std::fmt::Display| Refusal::Author(error.to_string());
    let verified = proof.verify(network).map_err(|error| wrong(&error))?;
    let Authored { body, signer, .. } = verified.membership;
    if body.node != node {
        return Err(Refusal::Author(format!("the membership is of {}, not of {node}", body.node)));
    }
    body.in_force(now_ms).map_err(|error| wrong(&error))?;
    let log = logs.get(&body.owner).ok_or_else(|| Refusal::Author(format!("no key log of {}", body.owner)))?;
    log.accepts(signer, now_ms).map_err(|error| wrong(&error))?;
    Ok((body.owner, body))
}

/// A command about tasks, runs or schedules.
fn execute_work(group: &mut Group, steps: &Steps, author: Author, command: &Command) -> Result<Option<u64>, Refusal> {
    if costs::by_tasks(command) {
        steps.check()?;
    }
    let (is_owner, permit) = (group.is_owner(author), permits::check(group, author, command));
    let (owner, now_ms) = (group.owner_of_author(author)?, group.now_ms);
    let moment = Moment { now_ms, sharers: Sharers::of(group.charter.as_ref(), &group.members) };
    let asker = Asker { author, owner, is_owner, permit, members: &group.members, steps, moment };
    let done = group.flows.execute(&asker, &mut group.work, command);
    steps.spend(group.work.take_cost());
    done
}

/// Forgets the nodes that were expelled first, when there are too many.
fn forget_oldest(expelled: &mut BTreeMap<PublicKey, u64>) {
    while expelled.len() > EXPELLED_MAX {
        let oldest = expelled.iter().min_by_key(|(_, epoch)| **epoch).map(|(node, _)| *node);
        oldest.and_then(|node| expelled.remove(&node));
    }
}

/// Whether a key log is the one that is known, or takes its place (P-48).
pub(crate) fn is_later(log: &KeyLog, known: &KeyLog) -> bool {
    matches!(log.relation(known), Relation::Same | Relation::Continues | Relation::Displaces)
}

fn read_log(known: Option<&KeyLog>, events: &[ByteVec]) -> Result<KeyLog, Refusal> {
    let wrong = |error: &dyn std::fmt::Display| Refusal::KeyLog(error.to_string());
    let log = KeyLog::verify_onto(known, &events.iter().map(|event| event.as_slice()).collect::<Vec<_>>())
        .map_err(|error| wrong(&error))?;
    if known.is_some_and(|known| !is_later(&log, known)) {
        return Err(Refusal::KeyLog("it neither extends nor displaces the one that the group knows".to_owned()));
    }
    Ok(log)
}

#[cfg(test)]
mod tests;
