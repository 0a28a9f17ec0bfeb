//! The state of a group as rows: how a snapshot is stored and sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use althing_protocol::group::{Author, Charter, Dissolution, Endorsed, GroupId, Invitation};
use althing_protocol::limits::{FRAME_BYTES_MAX, GROUP_MEMBERS_MAX};
use althing_protocol::{KeyLog, PublicKey, cbor};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::group::{Group, owners};
use super::members::{Member, Members, RECENT_VOTERS};
use super::proposals::Proposal;
use super::sessions::{AuthorSessions, SESSIONS_MAX, Sessions, Window};
use super::values::{Value, Values};
use super::work::WorkRow;
use super::workflow::{FlowRow, Reading};

/// A part of the state.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
enum Row {
    /// The first row.
    #[n(0)]
    Head(#[n(0)] Box<Head>),
    #[n(1)]
    Member(#[n(0)] PublicKey, #[n(1)] Member),
    #[n(2)]
    KeyLog(#[n(0)] Vec<ByteVec>),
    #[n(3)]
    Session(#[n(0)] Author, #[n(1)] u64, #[n(2)] Window),
    #[n(4)]
    Forgotten(#[n(0)] Author, #[n(1)] u64),
    #[n(5)]
    Value(#[n(0)] String, #[n(1)] ByteVec, #[n(2)] u64),
    #[n(6)]
    Used(#[n(0)] ByteVec, #[n(1)] u64),
    /// The charters, the first one first, each with the signatures and the time that it took effect.
    #[n(8)]
    Charter(#[n(0)] Endorsed, #[n(1)] u64),
    /// A node that was expelled, and the epoch that this ended.
    #[n(9)]
    Expelled(#[n(0)] PublicKey, #[n(1)] u64),
    #[n(7)]
    Work(#[n(0)] WorkRow),
    #[n(10)]
    Flow(#[n(0)] FlowRow),
    /// What owners are asked to sign.
    #[n(11)]
    Proposal(#[n(0)] Proposal),
    /// A member that is silent, and since when.
    #[n(12)]
    Silent(#[n(0)] PublicKey, #[n(1)] u64),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
struct Head {
    #[n(0)]
    group: GroupId,
    #[n(2)]
    epoch: u64,
    #[n(3)]
    dissolution: Option<Endorsed>,
    #[n(4)]
    now_ms: u64,
    #[n(5)]
    voters: Vec<PublicKey>,
    #[n(6)]
    joined: u64,
    #[n(7)]
    last_version: u64,
    /// Earlier sets of voters, the newest last.
    #[n(8)]
    recent: Vec<Vec<PublicKey>>,
}

/// What a group counts is at most this, so that it can go on counting.
const COUNT_MAX: u64 = u64::MAX / 2;

impl Head {
    /// Whether a group can have counted that far.
    fn check(&self) -> Result<(), String> {
        if [self.epoch, self.now_ms, self.joined, self.last_version].iter().any(|count| *count > COUNT_MAX) {
            return Err("counts more than a group can have".to_owned());
        }
        if self.recent.len() > RECENT_VOTERS {
            return Err("names too many earlier sets of voters".to_owned());
        }
        Ok(())
    }
}

/// Why rows are no state of a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {at} of the snapshot {why}")]
pub struct RowError {
    /// Which row.
    pub at: usize,
    /// What is wrong.
    pub why: String,
}

impl Group {
    /// The rows, of which each is below the size of a frame.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<u8>> {
        let head = Row::Head(Box::new(Head {
            group: self.id,
            epoch: self.epoch,
            dissolution: self.dissolution.clone(),
            now_ms: self.now_ms,
            voters: self.members.voters().iter().copied().collect(),
            joined: self.members.joined(),
            last_version: self.values.last_version(),
            recent: self.members.recent().map(|set| set.iter().copied().collect()).collect(),
        }));
        let members = self.members.iter().map(|(node, member)| Row::Member(*node, member.clone()));
        let events = |log: &Arc<KeyLog>| log.to_bytes().into_iter().map(ByteVec::from).collect();
        let logs = self.logs.values().map(|log| Row::KeyLog(events(log)));
        let sessions = self.sessions.iter().flat_map(|(author, sessions)| session_rows(author, sessions));
        let values = self.values.iter().map(|(key, it)| Row::Value(key.clone(), it.bytes.clone().into(), it.version));
        let used = self.used.iter().map(|(nonce, until_ms)| Row::Used(nonce.to_vec().into(), *until_ms));
        let charters = self.charters.iter().map(|(charter, at_ms)| Row::Charter(charter.clone(), *at_ms));
        let rows =
            std::iter::once(head).chain(logs).chain(charters).chain(members).chain(sessions).chain(values).chain(used);
        let expelled = self.expelled.iter().map(|(node, epoch)| Row::Expelled(*node, *epoch));
        let rows = rows.chain(expelled).chain(self.work.rows().map(Row::Work)).chain(self.flows.rows().map(Row::Flow));
        let proposals = self.proposals.iter().map(|(_, proposal)| Row::Proposal(proposal.clone()));
        let silent = self.members.silent().map(|(node, since_ms)| Row::Silent(*node, *since_ms));
        let rows = rows.chain(proposals).chain(silent);
        rows.map(|row| minicbor::to_vec(row).expect("writing to a vector cannot fail")).collect()
    }

    /// The state that these rows are of.
    ///
    /// # Errors
    /// [`RowError`].
    pub fn restore(id: GroupId, network: &str, rows: &[Vec<u8>]) -> Result<Group, RowError> {
        let mut restoring = Restoring::new(id, network);
        for (at, bytes) in rows.iter().enumerate() {
            let wrong = |why: String| RowError { at, why };
            cbor::check(bytes, FRAME_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
            let row: Row = minicbor::decode(bytes).map_err(|error| wrong(error.to_string()))?;
            if matches!(row, Row::Head(_)) != (at == 0) {
                return Err(wrong("is out of order".to_owned()));
            }
            restoring.take(row).map_err(wrong)?;
        }
        if rows.is_empty() {
            return Err(RowError { at: 0, why: "is missing".to_owned() });
        }
        restoring.finish().map_err(|why| RowError { at: 0, why })
    }
}

fn session_rows<'a>(author: &'a Author, sessions: &'a AuthorSessions) -> impl Iterator<Item = Row> + 'a {
    let forgotten = sessions.forgotten.map(|until| Row::Forgotten(*author, until));
    let open = sessions.open.iter().map(|(session, window)| Row::Session(*author, *session, window.clone()));
    forgotten.into_iter().chain(open)
}

struct Restoring {
    group: Group,
    flows: Reading,
    chain: Vec<Charter>,
    members: BTreeMap<PublicKey, Member>,
    voters: BTreeSet<PublicKey>,
    recent: VecDeque<BTreeSet<PublicKey>>,
    joined: u64,
    silent: BTreeMap<PublicKey, u64>,
    sessions: BTreeMap<Author, AuthorSessions>,
    values: Vec<(String, Value)>,
    last_version: u64,
}

impl Restoring {
    fn new(id: GroupId, network: &str) -> Restoring {
        Restoring {
            group: Group::new(id, network),
            flows: Reading::default(),
            chain: Vec::new(),
            members: BTreeMap::new(),
            voters: BTreeSet::new(),
            recent: VecDeque::new(),
            joined: 0,
            silent: BTreeMap::new(),
            sessions: BTreeMap::new(),
            values: Vec::new(),
            last_version: 0,
        }
    }

    fn take(&mut self, row: Row) -> Result<(), String> {
        match row {
            Row::Head(head) if head.group != self.group.id => return Err(format!("is of the group {}", head.group)),
            Row::Head(head) => {
                head.check()?;
                self.group.epoch = head.epoch;
                self.group.dissolution = head.dissolution;
                self.group.now_ms = head.now_ms;
                self.voters = head.voters.into_iter().collect();
                self.recent = head.recent.into_iter().map(|set| set.into_iter().collect()).collect();
                self.joined = head.joined;
                self.last_version = head.last_version;
            }
            Row::Charter(endorsed, at_ms) => self.charter(endorsed, at_ms)?,
            Row::Member(node, member) => {
                self.check_member(node, &member)?;
                self.members.insert(node, member);
            }
            Row::KeyLog(events) => {
                let log = KeyLog::verify(&events.iter().map(|event| event.as_slice()).collect::<Vec<_>>())
                    .map_err(|error| error.to_string())?;
                self.group.logs.insert(log.publisher(), Arc::new(log));
            }
            Row::Session(_, _, window) if !window.is_sound() => return Err("has a window of another size".to_owned()),
            Row::Session(author, session, window) => {
                let known = self.sessions.entry(author).or_default();
                known.open.insert(session, window);
            }
            Row::Forgotten(author, until) => self.sessions.entry(author).or_default().forgotten = Some(until),
            Row::Value(key, bytes, version) => self.values.push((key, Value { bytes: bytes.into(), version })),
            Row::Used(nonce, until_ms) => {
                let nonce = nonce.as_slice().try_into().map_err(|_| "has a nonce of another length".to_owned())?;
                self.group.used.insert(nonce, until_ms);
            }
            Row::Expelled(node, epoch) => drop(self.group.expelled.insert(node, epoch)),
            Row::Proposal(proposal) => self.proposal(proposal)?,
            Row::Silent(node, since_ms) => drop(self.silent.insert(node, since_ms)),
            Row::Work(row) => self.group.work.take(row)?,
            Row::Flow(row) => self.flows.take(row)?,
        }
        Ok(())
    }

    /// A proposal with signatures that are valid, though of whom is not decided before it is executed.
    fn proposal(&mut self, proposal: Proposal) -> Result<(), String> {
        let (network, scope) = (&self.group.network, self.group.id.to_string());
        let id = owners::name_of_motion(network, &scope, &proposal.motion);
        let id = id.map_err(|error| format!("is no proposal: {error}"))?;
        if !self.chain.last().is_some_and(|charter| charter.owners.contains(&proposal.proposer)) {
            return Err("is a proposal of nobody who owns the group".to_owned());
        }
        self.group.proposals.put(id, proposal).map_err(|refusal| refusal.to_string())
    }

    /// The next charter of the chain, with as many signatures as the one before it demands.
    fn charter(&mut self, endorsed: Endorsed, at_ms: u64) -> Result<(), String> {
        let (id, network) = (self.group.id, self.group.network.clone());
        let before = self.chain.last();
        let scope = before.map_or_else(String::new, |_| id.to_string());
        let read: Charter = endorsed.read(&network, &scope).map_err(|error| format!("is no charter: {error}"))?;
        let follows = before.map_or_else(|| GroupId::of(&read) == id, |before| read.continues(id, before));
        if !follows {
            return Err("is no charter of this group".to_owned());
        }
        let signed = endorsed.verify_past::<Charter>(&network, &scope, before.unwrap_or(&read), &self.group.logs);
        signed.map_err(|error| format!("is a charter that is not signed as it must be: {error}"))?;
        self.group.charters.push((endorsed, at_ms));
        self.chain.push(read);
        Ok(())
    }

    /// A member is the founder, or was invited by as many owners as the charter of that time demands.
    fn check_member(&self, node: PublicKey, member: &Member) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("names the member {node}, and {why}");
        let Some(admission) = &member.admission else {
            let is_founder = self.chain.first().is_some_and(|charter| charter.founder == node);
            return if is_founder { Ok(()) } else { Err(wrong(&"shows no invitation")) };
        };
        let (network, scope) = (&self.group.network, self.group.id.to_string());
        let said: Invitation = admission.invitation.read(network, &scope).map_err(|error| wrong(&error))?;
        let under = self.chain.iter().find(|charter| charter.digest() == said.charter);
        let under = under.ok_or_else(|| wrong(&"it was invited under an unknown charter"))?;
        let signed = admission.invitation.verify_past::<Invitation>(network, &scope, under, &self.group.logs);
        signed.map_err(|error| wrong(&error))?;
        said.in_force(admission.at_ms).map_err(|error| wrong(&error))?;
        if said.node != node || said.group != self.group.id {
            return Err(wrong(&"its invitation is for another"));
        }
        Ok(())
    }

    /// The group ended only if its owners signed that.
    fn check_end(&self) -> Result<(), String> {
        let Some(endorsed) = &self.group.dissolution else { return Ok(()) };
        let charter = self.group.charter.as_ref().ok_or("says that it ended, and has no charter")?;
        let (network, scope) = (&self.group.network, self.group.id.to_string());
        let signed = endorsed.verify_past::<Dissolution>(network, &scope, charter, &self.group.logs);
        match signed {
            Ok(said) if said.group == self.group.id && said.charter == charter.digest() => Ok(()),
            Ok(_) => Err("shows the end of another group".to_owned()),
            Err(error) => Err(format!("says that it ended, and its owners did not: {error}")),
        }
    }

    fn finish(mut self) -> Result<Group, String> {
        if self.group.epoch > 0 && self.chain.is_empty() {
            return Err("is followed by no charter".to_owned());
        }
        self.group.charter = self.chain.pop();
        self.check_end()?;
        let crowded = self.sessions.values().any(|sessions| sessions.open.len() > SESSIONS_MAX);
        if crowded || self.members.len() > GROUP_MEMBERS_MAX {
            return Err("has more sessions or members than a group can have".to_owned());
        }
        let later = |(_, value): &(String, Value)| value.version > self.last_version;
        if self.values.iter().any(later) || self.members.values().any(|member| member.order >= self.joined) {
            return Err("counts fewer joins or versions than its members and values have".to_owned());
        }
        if !self.voters.iter().all(|voter| self.members.contains_key(voter)) {
            return Err("names a voter that is no member".to_owned());
        }
        self.group.work.complete_rows()?;
        self.group.flows = self.flows.finish(&mut self.group.work)?;
        let mut sessions = Sessions::default();
        self.sessions.into_iter().for_each(|(author, of)| sessions.insert(author, of));
        if !self.silent.keys().all(|node| self.members.contains_key(node)) {
            return Err("names a silent member that is none".to_owned());
        }
        let members = Members::restore(self.members, self.voters, self.recent, self.joined, self.silent);
        let values = Values::restore(self.values, self.last_version);
        Ok(Group { members, sessions, values, ..self.group })
    }
}
