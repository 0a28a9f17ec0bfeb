//! The state of a group as rows: how a snapshot is stored and sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use althing_protocol::group::{Author, Charter, Dissolution, Endorsed, GroupId, Invitation, RULES, StateMark};
use althing_protocol::limits::{CLOCK_SKEW_MAX_MS, FRAME_BYTES_MAX, GROUP_MEMBERS_MAX, INVITATION_LIFE_MAX_MS};
use althing_protocol::{KeyLog, PublicKey, PublisherId, cbor};
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::agents::Last;
use super::group::{CHARTERS_MAX, EXPELLED_MAX, Group, USED_MAX, owners};
use super::members::{MARKS_KEPT, Member, Members, RECENT_VOTERS, RULES_FIRST, older};
use super::proposals::Proposal;
use super::sessions::{AuthorSessions, NODES_MAX, SESSIONS_MAX, Sessions, Window};
use super::shown_logs::ShownLogs;
use super::values::{self, VALUES_BYTES_MAX, Value, Values};
use super::work::WorkRow;
use super::workflow::{FlowRow, Reading};

/// A part of the state.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) enum Row {
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
    Value(#[n(0)] String, #[n(1)] ByteVec, #[n(2)] u64, #[n(3)] PublisherId),
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
    /// The last deployment of an agent by an owner.
    #[n(13)]
    Agent(#[n(0)] String, #[n(1)] PublisherId, #[n(2)] Last),
}

#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub(super) struct Head {
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
    /// Up to when the deployments were made that are not remembered.
    #[n(9)]
    forgotten_ms: u64,
    /// The version of the rules by which the log is executed.
    #[n(10)]
    rules: u32,
    /// The last digests of the state, the last one last.
    #[n(11)]
    pub(super) marks: Vec<StateMark>,
}

/// What a group counts is at most this, so that it can go on counting.
const COUNT_MAX: u64 = u64::MAX / 2;

impl Head {
    /// Whether a group can have counted that far.
    fn check(&self) -> Result<(), String> {
        if [self.epoch, self.now_ms, self.joined, self.last_version].iter().any(|count| *count > COUNT_MAX) {
            return Err("counts more than a group can have".to_owned());
        }
        if self.recent.len() > RECENT_VOTERS || self.marks.len() > MARKS_KEPT {
            return Err("names too many earlier sets of voters, or marks".to_owned());
        }
        if !(RULES_FIRST..=RULES).contains(&self.rules) {
            return Err(format!("cannot be used: {}", older(self.rules)));
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
        self.each_row().map(|row| minicbor::to_vec(row).expect("writing to a vector cannot fail")).collect()
    }

    /// The parts of the state, one after the other.
    pub(super) fn each_row(&self) -> impl Iterator<Item = Row> {
        let members = self.members.iter().map(|(node, member)| Row::Member(*node, member.clone()));
        let logs = self.logs.values().map(|log| Row::KeyLog(events(log)));
        let sessions = self.sessions.iter().flat_map(|(author, sessions)| session_rows(author, sessions));
        let values = self.values.iter();
        let values = values.map(|(key, it)| Row::Value(key.clone(), it.bytes.clone().into(), it.version, it.owner));
        let agents = self.agents.iter().map(|(agent, owner, last)| Row::Agent(agent.to_owned(), *owner, last));
        let used = self.used.iter().map(|(nonce, until_ms)| Row::Used(nonce.to_vec().into(), *until_ms));
        let charters = self.charters.iter().map(|(charter, at_ms)| Row::Charter(charter.clone(), *at_ms));
        let rows = std::iter::once(self.head()).chain(logs).chain(charters).chain(members).chain(sessions);
        let rows = rows.chain(values).chain(agents).chain(used);
        let expelled = self.expelled.iter().map(|(node, epoch)| Row::Expelled(*node, *epoch));
        let rows = rows.chain(expelled).chain(self.work.rows().map(Row::Work)).chain(self.flows.rows().map(Row::Flow));
        let proposals = self.proposals.iter().map(|(_, proposal)| Row::Proposal(proposal.clone()));
        let silent = self.members.silent().map(|(node, since_ms)| Row::Silent(*node, *since_ms));
        rows.chain(proposals).chain(silent)
    }

    fn head(&self) -> Row {
        Row::Head(Box::new(Head {
            group: self.id,
            epoch: self.epoch,
            dissolution: self.dissolution.clone(),
            now_ms: self.now_ms,
            voters: self.members.voters().iter().copied().collect(),
            joined: self.members.joined(),
            last_version: self.values.last_version(),
            recent: self.members.recent().map(|set| set.iter().copied().collect()).collect(),
            forgotten_ms: self.agents.forgotten_ms(),
            rules: self.rules,
            marks: self.marks.clone(),
        }))
    }

    /// The state that these rows are of.
    ///
    /// # Errors
    /// [`RowError`].
    pub fn restore(id: GroupId, network: &str, rows: &[Vec<u8>]) -> Result<Group, RowError> {
        let mut restoring = Restoring::new(id, network, needed(id, network, rows)?);
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

fn events(log: &KeyLog) -> Vec<ByteVec> {
    log.to_bytes().into_iter().map(ByteVec::from).collect()
}

fn session_rows<'a>(author: &'a Author, sessions: &'a AuthorSessions) -> impl Iterator<Item = Row> + 'a {
    let forgotten = sessions.forgotten.map(|until| Row::Forgotten(*author, until));
    let open = sessions.open.iter().map(|(session, window)| Row::Session(*author, *session, window.clone()));
    forgotten.into_iter().chain(open)
}

/// How the rows of charters and members begin: an array of two, of which the first is their kind.
const TELLING: [[u8; 2]; 2] = [[0x82, 8], [0x82, 1]];

/// The publishers whose key logs are needed by what charters and members say, though nothing proves these yet.
fn needed(id: GroupId, network: &str, rows: &[Vec<u8>]) -> Result<BTreeSet<PublisherId>, RowError> {
    let (mut needed, mut charters, mut members) = (BTreeSet::new(), 0, 0);
    for (at, bytes) in rows.iter().enumerate().filter(|(_, row)| TELLING.iter().any(|kind| row.starts_with(kind))) {
        let wrong = |why: String| RowError { at, why };
        match minicbor::decode::<Row>(bytes).map_err(|error| wrong(error.to_string()))? {
            Row::Charter(endorsed, _) => {
                let scope = if charters == 0 { String::new() } else { id.to_string() };
                charters += 1;
                // To read it, one of its signatures is enough.
                let one = Endorsed::new(endorsed.objects().take(1).map(<[u8]>::to_vec));
                let read = one.read::<Charter>(network, &scope);
                needed.extend(read.map_err(|error| wrong(format!("is no charter: {error}")))?.owners);
            }
            Row::Member(_, member) => {
                members += 1;
                needed.insert(member.owner);
            }
            _ => {}
        }
        if charters > CHARTERS_MAX || members > GROUP_MEMBERS_MAX {
            return Err(wrong("is one charter or member too many".to_owned()));
        }
    }
    Ok(needed)
}

struct Restoring {
    group: Group,
    shown: ShownLogs,
    flows: Reading,
    chain: Vec<Charter>,
    members: BTreeMap<PublicKey, Member>,
    voters: BTreeSet<PublicKey>,
    recent: VecDeque<BTreeSet<PublicKey>>,
    joined: u64,
    silent: BTreeMap<PublicKey, u64>,
    sessions: BTreeMap<Author, AuthorSessions>,
    values: Vec<(String, Value)>,
    values_bytes: usize,
    last_version: u64,
}

impl Restoring {
    fn new(id: GroupId, network: &str, needed: BTreeSet<PublisherId>) -> Restoring {
        Restoring {
            group: Group::new(id, network),
            shown: ShownLogs::of(needed),
            flows: Reading::default(),
            chain: Vec::new(),
            members: BTreeMap::new(),
            voters: BTreeSet::new(),
            recent: VecDeque::new(),
            joined: 0,
            silent: BTreeMap::new(),
            sessions: BTreeMap::new(),
            values: Vec::new(),
            values_bytes: 0,
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
                self.group.agents.forget(head.forgotten_ms);
                self.group.rules = head.rules;
                self.group.marks = head.marks;
            }
            Row::Charter(endorsed, at_ms) => self.charter(endorsed, at_ms)?,
            Row::Member(node, member) => {
                self.check_member(node, &member)?;
                self.members.insert(node, member);
            }
            Row::KeyLog(_) if !self.chain.is_empty() => return Err("is a key log behind a charter".to_owned()),
            Row::KeyLog(events) => self.shown.take(events)?,
            Row::Session(_, _, window) if !window.is_sound() => return Err("has a window of another size".to_owned()),
            Row::Session(author, session, window) => drop(self.sessions_of(author)?.open.insert(session, window)),
            Row::Forgotten(author, until) => self.sessions_of(author)?.forgotten = Some(until),
            Row::Value(key, bytes, version, owner) => {
                self.values_bytes += values::size(&key, &bytes);
                if self.values_bytes > VALUES_BYTES_MAX {
                    return Err("is a value for which there is no room".to_owned());
                }
                self.values.push((key, Value { bytes: bytes.into(), version, owner }));
            }
            Row::Agent(agent, owner, last) => self.group.agents.take(agent, owner, last)?,
            Row::Used(nonce, until_ms) => {
                let nonce = nonce.as_slice().try_into().map_err(|_| "has a nonce of another length".to_owned())?;
                let latest_ms = self.group.now_ms.saturating_add(INVITATION_LIFE_MAX_MS + CLOCK_SKEW_MAX_MS);
                if until_ms > latest_ms || self.group.used.len() == USED_MAX {
                    return Err("is a used invitation too many, or one that is valid for too long".to_owned());
                }
                self.group.used.insert(nonce, until_ms);
            }
            Row::Expelled(..) if self.group.expelled.len() == EXPELLED_MAX => {
                return Err("is one expelled node too many".to_owned());
            }
            Row::Expelled(_, epoch) if epoch >= self.group.epoch => {
                return Err("is a node that was expelled in an epoch that has not ended".to_owned());
            }
            Row::Expelled(node, epoch) => drop(self.group.expelled.insert(node, epoch)),
            Row::Proposal(proposal) => self.proposal(proposal)?,
            Row::Silent(node, since_ms) => drop(self.silent.insert(node, since_ms)),
            Row::Work(row) => self.group.work.take(row)?,
            Row::Flow(row) => self.flows.take(row)?,
        }
        Ok(())
    }

    /// The sessions of an author: a publisher of which there is a key log, or one of as many nodes as can have some.
    fn sessions_of(&mut self, author: Author) -> Result<&mut AuthorSessions, String> {
        let most = NODES_MAX + GROUP_MEMBERS_MAX + self.shown.needed();
        let is_known = match author {
            Author::Publisher(publisher) => self.shown.needs(&publisher),
            Author::Node(_) => self.sessions.len() < most || self.sessions.contains_key(&author),
        };
        if is_known { Ok(self.sessions.entry(author).or_default()) } else { Err("is of an author too many".to_owned()) }
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
        self.shown.verify(&before.unwrap_or(&read).owners, &mut self.group)?;
        let signed = endorsed.verify_past::<Charter>(&network, &scope, before.unwrap_or(&read), &self.group.logs);
        signed.map_err(|error| format!("is a charter that is not signed as it must be: {error}"))?;
        self.group.charters.push((endorsed, at_ms));
        self.group.all_owners.extend(&read.owners);
        self.chain.push(read);
        Ok(())
    }

    /// A member is the founder, or was invited by as many owners as the charter of that time demands.
    fn check_member(&mut self, node: PublicKey, member: &Member) -> Result<(), String> {
        let wrong = |why: &dyn std::fmt::Display| format!("names the member {node}, and {why}");
        let Some(admission) = &member.admission else {
            let is_founder = self.chain.first().is_some_and(|charter| charter.founder == node);
            return if is_founder { Ok(()) } else { Err(wrong(&"shows no invitation")) };
        };
        let scope = self.group.id.to_string();
        let said: Invitation = admission.invitation.read(&self.group.network, &scope).map_err(|error| wrong(&error))?;
        let under = self.chain.iter().find(|charter| charter.digest() == said.charter);
        let under = under.ok_or_else(|| wrong(&"it was invited under an unknown charter"))?;
        self.shown.verify(&under.owners, &mut self.group).map_err(|why| wrong(&why))?;
        let network = &self.group.network;
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
        match endorsed.verify_past::<Dissolution>(network, &scope, charter, &self.group.logs) {
            Ok(said) if said.group == self.group.id && said.charter == charter.digest() => Ok(()),
            Ok(_) => Err("shows the end of another group".to_owned()),
            Err(error) => Err(format!("says that it ended, and its owners did not: {error}")),
        }
    }

    fn finish(mut self) -> Result<Group, String> {
        if self.group.epoch > 0 && self.chain.is_empty() {
            return Err("is followed by no charter".to_owned());
        }
        self.shown.finish(&mut self.group)?;
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
        if self.group.agents.latest_ms() > self.group.now_ms.saturating_add(CLOCK_SKEW_MAX_MS) {
            return Err("has a deployment of a time that has not come".to_owned());
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
