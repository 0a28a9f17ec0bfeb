//! A group: executes the batches of its log, in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use althing_protocol::group::{
    Amendment, Author, Batch, Charter, Command, Dissolution, Endorsed, Expulsion, Founding, GroupId, Invitation, Join,
    KeyLogs, Rule,
};
use althing_protocol::object::{Membership, Statement};
use althing_protocol::{Authored, KeyLog, ObjectError, PublicKey, PublisherId};
use minicbor::bytes::ByteVec;

use super::members::{Admission, Members};
use super::outcome::{Outcome, Refusal, Reply};
use super::sessions::{Sessions, Turn};
use super::values::Values;
use super::work::{Asker, Work};
use super::workflow::Flows;

/// Expelled nodes that are remembered.
const EXPELLED_MAX: usize = 1_024;
/// Charters of one group, one after the other.
const CHARTERS_MAX: usize = 256;

/// The state of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub(crate) id: GroupId,
    pub(crate) network: String,
    /// None before its founding.
    pub(crate) charter: Option<Charter>,
    /// All charters as they were signed, the first one first, and when each took effect.
    pub(crate) charters: Vec<(Endorsed, u64)>,
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
    pub(crate) work: Work,
    pub(crate) flows: Flows,
    /// The invitations that were used, and until when each is valid.
    pub(crate) used: BTreeMap<[u8; 16], u64>,
    /// The nodes that were expelled last, each with the epoch that this ended.
    pub(crate) expelled: BTreeMap<PublicKey, u64>,
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
            epoch: 0,
            dissolution: None,
            now_ms: 0,
            members: Members::default(),
            logs: KeyLogs::new(),
            sessions: Sessions::default(),
            values: Values::default(),
            work: Work::default(),
            flows: Flows::default(),
            used: BTreeMap::new(),
            expelled: BTreeMap::new(),
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

    /// Whether this may be a later state than `earlier`: its charters begin with those, and neither epoch nor time falls.
    #[must_use]
    pub fn follows(&self, earlier: &Group) -> bool {
        self.charters.starts_with(&earlier.charters) && self.epoch >= earlier.epoch && self.now_ms >= earlier.now_ms
    }

    /// Its members.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Its values.
    #[must_use]
    pub fn values(&self) -> &Values {
        &self.values
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

    /// Executes one batch, whose signature was checked; `at_ms` is the time of the leader that accepted it.
    pub fn apply(&mut self, at_ms: u64, batch: &Result<Authored<Batch>, ObjectError>) -> Reply {
        self.advance(at_ms);
        match self.admit(batch) {
            Ok(Some(batch)) => {
                let outcomes = batch.commands.iter().map(|command| Outcome::of(self.execute(batch.author, command)));
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
        self.flows.advance(&mut self.work, now_ms);
    }

    /// The batch, if it is executed; none if it was executed before.
    fn admit<'a>(&mut self, batch: &'a Result<Authored<Batch>, ObjectError>) -> Result<Option<&'a Batch>, Refusal> {
        let Authored { body, signer, .. } = batch.as_ref().map_err(|error| Refusal::Invalid(error.to_string()))?;
        self.check(body, *signer)?;
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

    /// Whether a batch would be executed now, apart from its turn.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, batch: &Batch, signer: PublicKey) -> Result<(), Refusal> {
        if self.dissolution.is_some() {
            return Err(Refusal::Dissolved);
        }
        let alone = |command: &Command| matches!(command, Command::Found(_) | Command::Join(_));
        let introduces = batch.commands.iter().any(alone);
        if introduces && batch.commands.len() != 1 {
            return Err(Refusal::Invalid("a founding and a join are alone in their batch".to_owned()));
        }
        if batch.epoch != self.epoch {
            return Err(Refusal::Epoch { signed: batch.epoch, current: self.epoch });
        }
        match batch.author {
            Author::Node(node) if node != signer => Err(Refusal::Author(format!("{signer} signed for {node}"))),
            Author::Node(_) if introduces && self.sessions.has(batch.author, batch.session, batch.sequence) => Ok(()),
            Author::Node(node) if introduces => self.check_introduction(&batch.commands[0], node),
            Author::Node(node) if self.members.get(&node).is_some() => Ok(()),
            Author::Node(node) => Err(Refusal::NotAMember(node)),
            Author::Publisher(publisher) => {
                // Earlier owners are known too, but not obeyed.
                if !self.is_heard(publisher) {
                    return Err(Refusal::NotPermitted(batch.author.to_string()));
                }
                let unknown = || Refusal::Author(format!("the group does not know the publisher {publisher}"));
                let log = self.logs.get(&publisher).ok_or_else(unknown)?;
                log.accepts(signer, self.now_ms).map_err(|error| Refusal::Author(error.to_string()))
            }
        }
    }

    pub(crate) fn execute(&mut self, author: Author, command: &Command) -> Result<Option<u64>, Refusal> {
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
        match (command, author) {
            (Command::Found(founding), Author::Node(node)) => self.found(founding, node),
            (Command::Join(join), Author::Node(node)) => self.join(join, node),
            (Command::Leave, Author::Node(node)) => self.remove(node),
            (Command::Addresses(addresses), Author::Node(node)) => self.members.moved(node, addresses).map(|()| None),
            (Command::Found(_) | Command::Join(_) | Command::Leave | Command::Addresses(_), Author::Publisher(_)) => {
                Err(Refusal::Author("only the node itself can found, join, leave or move".to_owned()))
            }
            (Command::Expel(endorsed), _) => self.expel(endorsed),
            (Command::Amend(amendment), _) => self.amend(amendment),
            (Command::Dissolve(endorsed), _) => self.dissolve(endorsed),
            (Command::Keys(events), _) => self.keys(events),
            (Command::Set(set), _) => {
                self.may_write(author)?;
                self.values.set(set).map(Some)
            }
            (Command::Remove(remove), _) => {
                self.may_write(author)?;
                self.values.remove(remove).map(Some)
            }
            (command, _) => {
                let (is_owner, may_write) = (self.is_owner(author), self.may_write(author));
                let asker = Asker { author, is_owner, may_write, members: &self.members, now_ms: self.now_ms };
                self.flows.execute(&asker, &mut self.work, command)
            }
        }
    }

    /// Whether a founding or a join would succeed, as far as its invitation goes: strangers must not fill the log.
    fn check_introduction(&self, command: &Command, node: PublicKey) -> Result<(), Refusal> {
        match command {
            Command::Found(_) if self.charter.is_some() => Err(Refusal::Charter),
            Command::Join(join) => self.invited(join, node).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether `publisher` is an owner of the group, or of one of its members.
    fn is_heard(&self, publisher: PublisherId) -> bool {
        self.charter.as_ref().is_some_and(|charter| charter.owners.contains(&publisher))
            || self.members.iter().any(|(_, member)| member.owner == publisher)
    }

    fn founded(&self) -> Result<&Charter, Refusal> {
        self.charter.as_ref().ok_or(Refusal::NotFounded)
    }

    fn is_owner(&self, author: Author) -> bool {
        let owners = self.charter.as_ref().map_or(&[][..], |charter| &charter.owners);
        matches!(author, Author::Publisher(publisher) if owners.contains(&publisher))
    }

    fn may_write(&self, author: Author) -> Result<(), Refusal> {
        match self.founded()?.policy.write {
            Rule::Owners if !self.is_owner(author) => Err(Refusal::NotPermitted(author.to_string())),
            Rule::Owners | Rule::Members => Ok(()),
        }
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
        self.logs = logs;
        self.charters.push((founding.charter.clone(), self.now_ms));
        self.charter = Some(charter);
        self.epoch = 1;
        Ok(Some(self.epoch))
    }

    fn join(&mut self, join: &Join, node: PublicKey) -> Result<Option<u64>, Refusal> {
        let invitation = self.invited(join, node)?;
        let voters_max = self.founded()?.policy.voters_max;
        let owner = join.owner.owner();
        let log = Arc::new(read_log(self.logs.get(&owner).map(Arc::as_ref), &join.log)?);
        let logs = KeyLogs::from([(log.publisher(), log.clone())]);
        let (owner, _) = owner_of(&self.network, self.now_ms, &join.owner, node, &logs)?;
        let admission = Admission { invitation: join.invitation.clone(), at_ms: self.now_ms };
        self.members.join(node, owner, join.addresses.clone(), Some(admission), voters_max)?;
        self.used.insert(invitation.nonce, invitation.not_after_ms);
        self.logs.insert(owner, log);
        Ok(None)
    }

    /// The invitation by which `node` may join now.
    fn invited(&self, join: &Join, node: PublicKey) -> Result<Invitation, Refusal> {
        let present = self.founded()?.digest();
        let invitation: Invitation = self.verify(&join.invitation)?;
        let refused = |why: &str| Err(Refusal::Invitation(why.to_owned()));
        if invitation.node != node {
            return refused("it is for another node");
        }
        if invitation.group != self.id || invitation.charter != present {
            return refused("it was made for another group, or under an earlier charter");
        }
        invitation.in_force(self.now_ms).map_err(|error| Refusal::Invitation(error.to_string()))?;
        if self.used.contains_key(&invitation.nonce) {
            return refused("it was used before");
        }
        match self.expelled.get(&node) {
            Some(at) if invitation.epoch <= *at => refused("the node was expelled after it was made"),
            _ => Ok(invitation),
        }
    }

    /// A node is no member any more.
    fn remove(&mut self, node: PublicKey) -> Result<Option<u64>, Refusal> {
        let voters_max = self.founded()?.policy.voters_max;
        self.members.remove(node, voters_max)?;
        self.work.leave(node);
        Ok(Some(self.next_epoch()))
    }

    fn expel(&mut self, endorsed: &Endorsed) -> Result<Option<u64>, Refusal> {
        let expulsion: Expulsion = self.verify(endorsed)?;
        if expulsion.group != self.id {
            return Err(Refusal::Endorsement("it is of another group".to_owned()));
        }
        if expulsion.epoch != self.epoch {
            return Err(Refusal::Epoch { signed: expulsion.epoch, current: self.epoch });
        }
        let done = self.remove(expulsion.node)?;
        // Invitations that it holds yet are not worth anything any more.
        self.expelled.insert(expulsion.node, expulsion.epoch);
        forget_oldest(&mut self.expelled);
        Ok(done)
    }

    fn amend(&mut self, amendment: &Amendment) -> Result<Option<u64>, Refusal> {
        let charter: Charter = self.verify(&amendment.charter)?;
        if !charter.continues(self.id, self.founded()?) {
            return Err(Refusal::Charter);
        }
        if self.charters.len() == CHARTERS_MAX {
            return Err(Refusal::Full(format!("it had {CHARTERS_MAX} charters")));
        }
        self.logs = with_new_owners(&self.logs, amendment, &charter)?;
        self.members.choose_voters(charter.policy.voters_max);
        self.charters.push((amendment.charter.clone(), self.now_ms));
        self.charter = Some(charter);
        Ok(Some(self.next_epoch()))
    }

    fn dissolve(&mut self, endorsed: &Endorsed) -> Result<Option<u64>, Refusal> {
        let dissolution: Dissolution = self.verify(endorsed)?;
        if dissolution.group != self.id || dissolution.charter != self.founded()?.digest() {
            return Err(Refusal::Charter);
        }
        self.dissolution = Some(endorsed.clone());
        (self.values, self.work, self.flows) = Default::default();
        Ok(Some(self.next_epoch()))
    }

    fn keys(&mut self, events: &[ByteVec]) -> Result<Option<u64>, Refusal> {
        let log = read_log(None, events)?;
        let Some(known) = self.logs.get(&log.publisher()) else {
            return Err(Refusal::KeyLog(format!("the group does not know the publisher {}", log.publisher())));
        };
        let log = read_log(Some(known.as_ref()), events)?;
        self.logs.insert(log.publisher(), Arc::new(log));
        Ok(None)
    }

    /// Begins the next epoch: forgets who is not needed any more.
    fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        let known = publishers(&self.network, self.id, &self.charters, &self.members);
        self.logs.retain(|publisher, _| known.contains(publisher));
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

/// The publishers whose key logs are needed: members' owners, and all owners that there were, whose signatures prove the
/// charters, and who was invited under them.
fn publishers(network: &str, id: GroupId, charters: &[(Endorsed, u64)], members: &Members) -> BTreeSet<PublisherId> {
    let id = id.to_string();
    let read = charters
        .iter()
        .enumerate()
        .filter_map(|(at, (endorsed, _))| endorsed.read::<Charter>(network, if at == 0 { "" } else { &id }).ok());
    read.flat_map(|charter| charter.owners).chain(members.iter().map(|(_, member)| member.owner)).collect()
}

/// The logs with those of the owners that a later charter adds. What is known is extended by `Command::Keys` only.
fn with_new_owners(known: &KeyLogs, amendment: &Amendment, charter: &Charter) -> Result<KeyLogs, Refusal> {
    let mut logs = known.clone();
    for events in &amendment.logs {
        let log = read_log(None, events)?;
        logs.entry(log.publisher()).or_insert_with(|| Arc::new(log));
    }
    match charter.owners.iter().find(|owner| !logs.contains_key(owner)) {
        Some(owner) => Err(Refusal::KeyLog(format!("the group knows none of the new owner {owner}"))),
        None => Ok(logs),
    }
}

/// Forgets the nodes that were expelled first, when there are too many.
fn forget_oldest(expelled: &mut BTreeMap<PublicKey, u64>) {
    while expelled.len() > EXPELLED_MAX {
        let oldest = expelled.iter().min_by_key(|(_, epoch)| **epoch).map(|(node, _)| *node);
        oldest.and_then(|node| expelled.remove(&node));
    }
}

fn read_log(known: Option<&KeyLog>, events: &[ByteVec]) -> Result<KeyLog, Refusal> {
    let wrong = |error: &dyn std::fmt::Display| Refusal::KeyLog(error.to_string());
    let log = KeyLog::verify_onto(known, &events.iter().map(|event| event.as_slice()).collect::<Vec<_>>())
        .map_err(|error| wrong(&error))?;
    if known.is_some_and(|known| !log.continues(known)) {
        return Err(Refusal::KeyLog("it does not extend the one that the group knows".to_owned()));
    }
    Ok(log)
}

#[cfg(test)]
mod tests;
