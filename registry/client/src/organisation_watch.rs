//! Watches a log: reads every entry of it, checks that they are the ones under the checkpoint, and reads what they name.

use std::collections::BTreeMap;

use althing_fetch::Limits;
use althing_protocol::object::{self, Kind, ObjectError};
use althing_protocol::registry::{
    Attestation, DomainFinding, Entry, EntryKind, Logged, Mark, Quarantine, Release, ReleaseEvidence, Roster,
    SaltedStatement, Version,
};
use althing_protocol::tlog::{Checkpoint, leaf_hash, node_hash};
use althing_protocol::{AgentId, Digest, PublisherId, digest};

use crate::{RegistryClient, RegistryError, SUBMISSION_BYTES_MAX, TIME_MAX};

/// Entries of one tile.
const TILE: u64 = 256;
/// Bytes of a tile of entries.
const TILE_BYTES_MAX: usize = 256 * 130;
/// Entries of a log that is read as a whole.
pub const WATCHED_ENTRIES_MAX: u64 = 1 << 20;

/// What an entry says, as far as the registry shows it to whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A release, or an approval of one.
    Release(AgentId, Version, PublisherId),
    /// A mark on a release.
    Mark(AgentId, Version, &'static str),
    /// An attestation: its subject's agent if it has one, its name, who signs.
    Attestation(Option<AgentId>, String, PublisherId),
    /// A roster.
    Roster(PublisherId),
    /// What was found of a domain.
    Domain(Box<DomainFinding>),
    /// The operator hides an agent, or one version, for that reason; none: shows it again.
    Quarantine(AgentId, Option<Version>, Option<String>),
    /// Something else, such as keys.
    Other,
    /// The registry does not show it.
    Unseen,
}

impl Said {
    /// What a signed statement says; [`Said::Other`] of one that is about keys.
    ///
    /// # Errors
    /// [`ObjectError`]: it is no statement of that kind and network, or its signature does not verify.
    pub fn signed(kind: Kind, statement: &[u8], network: &str) -> Result<Said, ObjectError> {
        Ok(match kind {
            Kind::Release => {
                let body = object::open::<Release>(statement, network, "")?.body;
                Said::Release(body.agent, body.version, body.by)
            }
            Kind::Mark => {
                let body = object::open::<Mark>(statement, network, "")?.body;
                Said::Mark(body.agent, body.version, body.standing.name())
            }
            Kind::Attestation => {
                let body = object::open::<Attestation>(statement, network, "")?.body;
                Said::Attestation(body.agent, body.name, body.by)
            }
            Kind::Roster => Said::Roster(object::open::<Roster>(statement, network, "")?.body.organisation),
            _ => Said::Other,
        })
    }
}

/// An entry of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its index.
    pub index: u64,
    /// The entry.
    pub entry: Entry,
    /// What it says.
    pub said: Said,
}

impl Watched {
    /// Whether it is about a publisher: its agents, those of its members that its roster `names`, its roster, or its domain.
    #[must_use]
    pub fn is_about(&self, publisher: PublisherId, domain: Option<&str>, names: impl Fn(&AgentId) -> bool) -> bool {
        let is_its = |agent: &AgentId| agent.publisher() == publisher || names(agent);
        match &self.said {
            Said::Release(agent, _, by) => is_its(agent) || *by == publisher,
            Said::Mark(agent, ..) | Said::Quarantine(agent, ..) => is_its(agent),
            Said::Attestation(agent, _, by) => *by == publisher || agent.as_ref().is_some_and(is_its),
            Said::Roster(organisation) => *organisation == publisher,
            Said::Domain(finding) => finding.organisation == publisher || domain == Some(finding.domain.as_str()),
            Said::Other | Said::Unseen => false,
        }
    }

    /// Whether the registry does not show a release, a mark or an attestation whose entry has no salt, and which is thus of
    /// something for everybody: its operator hides that, it waits for approvals, or the registry keeps it back.
    #[must_use]
    pub fn is_kept_back(&self) -> bool {
        let for_everybody = [Kind::Release, Kind::Mark, Kind::Attestation].map(EntryKind::Signed);
        self.said == Said::Unseen && for_everybody.contains(&self.entry.kind)
    }
}

/// Reads the log of a registry.
pub struct LogReader<'a>(pub &'a RegistryClient);

impl LogReader<'_> {
    /// All entries of the log under a checkpoint.
    ///
    /// # Errors
    /// [`RegistryError::Entries`]: they are not those under the checkpoint.
    pub async fn entries(&self, checkpoint: &Checkpoint) -> Result<Vec<Entry>, RegistryError> {
        let size = checkpoint.head.size;
        if size > WATCHED_ENTRIES_MAX {
            return Err(RegistryError::TooLong { size, max: WATCHED_ENTRIES_MAX });
        }
        let (mut entries, mut tree) = (Vec::new(), Vec::new());
        for number in 0..size.div_ceil(TILE) {
            let width = TILE.min(size - number * TILE);
            let limits = Limits { bytes: TILE_BYTES_MAX, time: TIME_MAX };
            let bytes = self.0.http.get(&tile_path(number, width), limits).await?;
            let cut = cut(&bytes).filter(|cut| cut.len() as u64 == width).ok_or(RegistryError::Entries)?;
            for bytes in cut {
                add(&mut tree, leaf_hash(bytes));
                entries.push(Entry::decode(bytes).ok_or(RegistryError::Entries)?);
            }
        }
        if root(tree) == checkpoint.head.root { Ok(entries) } else { Err(RegistryError::Entries) }
    }

    /// What the entries from `from` on say.
    ///
    /// # Errors
    /// See [`RegistryError`].
    pub async fn watch(
        &self,
        network: &str,
        checkpoint: &Checkpoint,
        from: u64,
    ) -> Result<Vec<Watched>, RegistryError> {
        let entries = self.entries(checkpoint).await?;
        let mut watched = Vec::new();
        for (index, entry) in (0..).zip(entries).filter(|(index, _)| *index >= from) {
            let said = self.said(network, index, &entry).await?;
            watched.push(Watched { index, entry, said });
        }
        Ok(watched)
    }

    async fn said(&self, network: &str, index: u64, entry: &Entry) -> Result<Said, RegistryError> {
        let signed = EntryKind::Signed;
        let kinds = [Kind::Release, Kind::Mark, Kind::Roster, Kind::Attestation].map(signed);
        if !kinds.contains(&entry.kind.plain())
            && !matches!(entry.kind, EntryKind::DomainFinding | EntryKind::Quarantine)
        {
            return Ok(Said::Other);
        }
        let limits = Limits { bytes: SUBMISSION_BYTES_MAX, time: TIME_MAX };
        let statement = match self.0.http.get(&format!("statements/{index}"), limits).await {
            // These are for everybody, whatever they say.
            Err(RegistryError::Refused { status: 404, .. })
                if matches!(entry.kind, EntryKind::DomainFinding | EntryKind::Signed(Kind::Roster)) =>
            {
                return Err(RegistryError::Withholds(index));
            }
            Err(RegistryError::Refused { status: 404, .. }) => return Ok(Said::Unseen),
            shown => shown?,
        };
        let (statement, salt) = match entry.kind {
            EntryKind::Salted(_) => {
                let shown = SaltedStatement::decode(&statement).ok_or(RegistryError::OtherStatement(index))?;
                (shown.statement.to_vec(), Some(shown.salt))
            }
            _ => (statement, None),
        };
        if !entry.names(&statement, salt.as_deref()) {
            return Err(RegistryError::OtherStatement(index));
        }
        let other = RegistryError::OtherStatement(index);
        Ok(match entry.kind.plain() {
            EntryKind::Signed(kind) => Said::signed(kind, &statement, network).map_err(|_| other)?,
            EntryKind::Quarantine => {
                let Quarantine { agent, version, reason, .. } = Quarantine::decode(&statement).ok_or(other)?;
                Said::Quarantine(agent, version, reason)
            }
            _ => Said::Domain(Box::new(DomainFinding::decode(&statement).ok_or(other)?)),
        })
    }

    /// Checks that the registry shows with each release all marks that its own log has on it.
    ///
    /// # Errors
    /// [`RegistryError::Hides`].
    pub async fn check_marks(&self, network: &str, watched: &[Watched]) -> Result<(), RegistryError> {
        let mut marks: BTreeMap<(&AgentId, &Version), Vec<&Watched>> = BTreeMap::new();
        for one in watched {
            if let Said::Mark(agent, version, _) = &one.said {
                marks.entry((agent, version)).or_default().push(one);
            }
        }
        for ((agent, version), marks) in marks {
            let limits = Limits { bytes: SUBMISSION_BYTES_MAX, time: TIME_MAX };
            let bytes = self.0.http.get(&format!("agents/{agent}/{version}"), limits).await?;
            let evidence = ReleaseEvidence::decode(&bytes)?;
            evidence.verify(network, agent, version, &self.0.key)?;
            let is_shown = |watched: &&&Watched| {
                let names = |mark: &Logged| watched.entry.names(&mark.statement, mark.salt.as_deref());
                evidence.marks.iter().any(names)
            };
            if let Some(hidden) = marks.iter().find(|watched| !is_shown(watched)) {
                let (agent, version, entry) = (agent.clone(), version.clone(), hidden.index);
                return Err(RegistryError::Hides { agent, version, entry });
            }
        }
        Ok(())
    }
}

/// The address of a tile of entries (C2SP tlog-tiles): the number in groups of three digits, `x` before all but the last.
fn tile_path(number: u64, width: u64) -> String {
    let mut groups = vec![format!("{:03}", number % 1_000)];
    let mut rest = number / 1_000;
    while rest > 0 {
        groups.push(format!("x{:03}", rest % 1_000));
        rest /= 1_000;
    }
    groups.reverse();
    let partial = if width < TILE { format!(".p/{width}") } else { String::new() };
    format!("tile/entries/{}{partial}", groups.join("/"))
}

/// The entries of a tile, each after its length in two bytes.
fn cut(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        entries.push(entry);
        bytes = rest;
    }
    bytes.is_empty().then_some(entries)
}

/// Adds a leaf to the roots of the whole subtrees, each with its height.
fn add(tree: &mut Vec<(u32, Digest)>, leaf: Digest) {
    let (mut height, mut hash) = (0, leaf);
    while let Some((_, left)) = tree.pop_if(|(left, _)| *left == height) {
        (height, hash) = (height + 1, node_hash(&left, &hash));
    }
    tree.push((height, hash));
}

/// The root over them; of no leaf, the digest of nothing.
fn root(mut tree: Vec<(u32, Digest)>) -> Digest {
    let Some((_, mut hash)) = tree.pop() else { return digest(b"") };
    while let Some((_, left)) = tree.pop() {
        hash = node_hash(&left, &hash);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_members_publish_under_its_names_is_about_an_organisation() {
        let [organisation, member, stranger] = [1, 2, 3].map(|byte| PublisherId::from_digest([byte; 32]));
        let agent = |publisher, name| AgentId::new(publisher, name).expect("a name");
        let version: Version = "1.0.0".parse().expect("a version");
        let names = |agent: &AgentId| agent.publisher() == member && agent.name().starts_with("billing");
        let is_about = |said: Said| {
            let entry = Entry::of(EntryKind::Quarantine, b"statement", 0);
            Watched { index: 0, entry, said }.is_about(organisation, None, names)
        };
        for (publisher, name, wanted) in [
            (organisation, "echo", true),
            (member, "billing-eu", true),
            (member, "echo", false),
            (stranger, "billing", false),
        ] {
            let agent = agent(publisher, name);
            for said in [
                Said::Release(agent.clone(), version.clone(), publisher),
                Said::Mark(agent.clone(), version.clone(), "revoked"),
                Said::Attestation(Some(agent.clone()), "audit".to_owned(), stranger),
                Said::Quarantine(agent.clone(), None, None),
            ] {
                assert_eq!(is_about(said.clone()), wanted, "{said:?}");
            }
        }
        assert!(is_about(Said::Attestation(None, "blueprint".to_owned(), organisation)));
        assert!(!is_about(Said::Attestation(None, "blueprint".to_owned(), member)));
        assert!(!is_about(Said::Unseen));
    }

    #[test]
    fn tiles_are_named_as_the_specification_says() {
        assert_eq!(tile_path(0, 256), "tile/entries/000");
        assert_eq!(tile_path(1_234_067, 256), "tile/entries/x001/x234/067");
        assert_eq!(tile_path(273, 3), "tile/entries/273.p/3");
    }

    #[test]
    fn a_tile_is_cut_into_its_entries() {
        assert_eq!(cut(&[0, 1, 7, 0, 0, 0, 2, 8, 9]), Some(vec![&[7][..], &[], &[8, 9]]));
        assert_eq!(cut(&[0, 2, 7]), None);
        assert_eq!(cut(&[0]), None);
        assert_eq!(cut(&[]), Some(vec![]));
    }

    #[test]
    fn the_root_is_that_of_rfc_9162() {
        let leaves = [0, 1, 2, 3, 4].map(|byte| leaf_hash(&[byte]));
        let mut tree = Vec::new();
        assert_eq!(root(tree.clone()), digest(b""));
        leaves.iter().for_each(|leaf| add(&mut tree, *leaf));
        let pairs = node_hash(&node_hash(&leaves[0], &leaves[1]), &node_hash(&leaves[2], &leaves[3]));
        assert_eq!(root(tree), node_hash(&pairs, &leaves[4]));
    }
}
