//! What the owner signs is sent to registries here: the receipt is kept, and can be shown later without the registry.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use althing_protocol::AgentId;
use althing_protocol::object::{Kind, ObjectError};
use althing_protocol::registry::{Submission, VerifiedRelease, Version};
use althing_protocol::tlog::{LogProofError, NoteKey, leaf_hash};
use althing_registry_client::{Accepted, RegistryClient, Said, Watched};

use super::receipts::{Place, ReceiptRow};
use super::{Registries, RegistriesError};

/// Receipts of one answer.
const FOUND_MAX: usize = 100;

/// Which receipts are wanted; all that is given must match.
#[derive(Debug, Clone, Default)]
pub struct WantedReceipts {
    /// Of this release: of the release itself, of approvals of it, and of marks on it.
    pub release: Option<(AgentId, Version)>,
    /// Of this entry of the log.
    pub entry: Option<u64>,
}

/// Receipts that are kept of one registry.
#[derive(Debug, Clone)]
pub struct KeptReceipts {
    /// The registry.
    pub registry: String,
    /// The key of its log.
    pub key: String,
    /// Those that are wanted, the newest entry first; at most a hundred.
    pub found: Vec<FoundReceipt>,
}

/// What is kept of one entry.
#[derive(Debug, Clone)]
pub struct FoundReceipt {
    /// The index of the entry.
    pub index: u64,
    /// The receipt, if it holds.
    pub receipt: Result<KeptReceipt, ReceiptError>,
}

/// A receipt that was verified again: the registry's log had the entry.
#[derive(Debug, Clone)]
pub struct KeptReceipt {
    /// What the owner signed.
    pub said: Said,
    /// When the registry accepted it, Unix milliseconds; a part of the entry.
    pub accepted_ms: u64,
    /// Entries of the log under the checkpoint of the proof.
    pub entries: u64,
    /// How many of the witnesses that the owner wants of the registry cosigned the checkpoint.
    pub cosigned: usize,
    /// The bytes of the entry, which the proof is of.
    pub entry: Vec<u8>,
    /// The signed bytes that the entry names.
    pub statement: Vec<u8>,
    /// What the entry is salted with, if the statement is not for everybody.
    pub salt: Option<[u8; 16]>,
    /// The proof (C2SP tlog-proof).
    pub proof: String,
}

/// Why something that is kept as a receipt proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReceiptError {
    /// It is none, or one of another entry.
    #[error(
        "what is kept here is no receipt of this entry: something else than the node changed its store. A release that you \
         publish once more has a receipt again"
    )]
    Damaged,
    /// The proof does not hold under the key of the registry.
    #[error(
        "it does not prove that the registry's log had the entry: {0}. Something else than the node changed it. A release that \
         you publish once more has a receipt again"
    )]
    Proof(#[from] LogProofError),
    /// The entry is of something else than a statement for this network.
    #[error("the entry names no statement for this node's network: {0}. Was the node in another network then?")]
    Statement(#[from] ObjectError),
}

/// What receipts of a registry are verified by.
struct By<'a> {
    log: &'a NoteKey,
    witnesses: &'a [NoteKey],
    network: &'a str,
}

impl By<'_> {
    fn verify(&self, place: Place, row: &[u8]) -> Result<KeptReceipt, ReceiptError> {
        let row: ReceiptRow = minicbor::decode(row).map_err(|_| ReceiptError::Damaged)?;
        if row.place()? != place {
            return Err(ReceiptError::Damaged);
        }
        let ReceiptRow { kind, logged } = row;
        let checkpoint = logged.verify(kind, self.log)?;
        Ok(KeptReceipt {
            said: Said::signed(kind, &logged.statement, self.network)?,
            accepted_ms: logged.at_ms,
            entries: checkpoint.head.size,
            cosigned: checkpoint.cosigned_by(self.witnesses),
            entry: logged.entry(kind)?.encode(),
            statement: logged.statement.to_vec(),
            salt: logged.salt.as_deref().copied(),
            proof: logged.proof,
        })
    }
}

impl WantedReceipts {
    /// Whether a receipt is wanted. One that does not hold is, whatever it was of.
    fn is_met(&self, receipt: &Result<KeptReceipt, ReceiptError>) -> bool {
        let Some((wanted, number)) = &self.release else { return true };
        match receipt.as_ref().map(|receipt| &receipt.said) {
            Ok(Said::Release(agent, version, _) | Said::Mark(agent, version, _)) => {
                (agent, version) == (wanted, number)
            }
            Ok(_) => false,
            Err(_) => true,
        }
    }
}

/// Sends what the owner signs, and keeps the receipts.
pub struct ReceiptBook<'a>(pub(super) &'a Registries);

impl ReceiptBook<'_> {
    /// Sends a statement of the owner's, with the description that it names; waits until the registry proves that its log has it,
    /// and keeps the receipt. Gives how many entries the log has under that proof.
    pub(super) async fn send(
        &self,
        (at, client): (&str, &RegistryClient),
        kind: Kind,
        statement: Vec<u8>,
        description: Option<Vec<u8>>,
    ) -> Result<u64, RegistriesError> {
        let submission = Submission {
            key_log: self.0.identity.owner().log.to_bytes().into_iter().map(Into::into).collect(),
            statements: vec![statement.into()],
            descriptions: description.into_iter().map(Into::into).collect(),
        };
        let Accepted { logged, checkpoint } = client.submit_for_proofs(&submission, &[kind]).await?;
        let entries = checkpoint.head.size;
        // What is kept is under a checkpoint that goes on from those before it.
        self.0.accept(at, client, checkpoint).await?;
        for logged in logged {
            self.0.receipts.keep(client.key(), &ReceiptRow { kind, logged }).await?;
        }
        Ok(entries)
    }

    /// Keeps a receipt of a release of the owner's that was accepted before, if there is none: another node of the owner's
    /// published it, or this one could not write. The release is as good without one.
    pub(super) async fn keep_of(&self, (at, client): (&str, &RegistryClient), released: &VerifiedRelease) {
        let (release, description) = (&released.release.bytes, &released.description.bytes);
        let kept = match self.0.receipts.has(client.key(), Kind::Release, release) {
            Ok(false) => self.send((at, client), Kind::Release, release.clone(), Some(description.clone())).await.err(),
            Ok(true) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = kept {
            tracing::warn!(registry = at, %error, "no receipt of a release is kept");
        }
    }

    /// The receipts of what the owner sent to a registry, verified without asking it.
    ///
    /// # Errors
    /// [`RegistriesError::NoReceipt`] if something is wanted of which there is none, and those of the store.
    pub fn list(&self, wanted: &WantedReceipts, registry: Option<&str>) -> Result<KeptReceipts, RegistriesError> {
        let at = self.0.named(registry)?;
        let row =
            self.0.known().get(&at).cloned().ok_or_else(|| RegistriesError::Unknown(at.clone(), String::new()))?;
        let ((log, _), witnesses) = (row.read(&at)?, row.witness_keys(&at)?);
        let by = By { log: &log, witnesses: &witnesses, network: self.0.identity.network() };
        let mut found = Vec::new();
        self.0.receipts.look_through(&row.key, wanted.entry, |place, row| {
            let receipt = by.verify(place, row);
            if wanted.is_met(&receipt) {
                found.push(FoundReceipt { index: place.index(), receipt });
            }
            if found.len() < FOUND_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let what = wanted.release.as_ref().map(|(agent, version)| format!("{agent} {version}"));
        let what = what.or_else(|| wanted.entry.map(|entry| format!("entry {entry}")));
        match what {
            Some(what) if found.is_empty() => Err(RegistriesError::NoReceipt { at, what }),
            _ => Ok(KeptReceipts { registry: at, key: row.key, found }),
        }
    }

    /// What a registry proved that its log had, and does not have any more, of what was `kept` before its checkpoint was asked
    /// for; from the entry `from` on. `watched` are all entries from there on.
    pub(super) fn missing(
        &self,
        (at, log): (&str, &NoteKey),
        kept: &[Place],
        (from, watched): (u64, &[Watched]),
    ) -> Result<Vec<FoundReceipt>, RegistriesError> {
        let Some(row) = self.0.known().get(at).cloned() else { return Ok(Vec::new()) };
        let ((_, newest), witnesses) = (row.read(at)?, row.witness_keys(at)?);
        let by = By { log, witnesses: &witnesses, network: self.0.identity.network() };
        let mut missing = Vec::new();
        for place in lost(kept, (from, watched), newest.head.size).into_iter().take(FOUND_MAX) {
            let row = self.0.receipts.read(log, &place)?;
            // Meanwhile it may have made room for another.
            if let Some(row) = row {
                missing.push(FoundReceipt { index: place.index(), receipt: by.verify(place, &row) });
            }
        }
        Ok(missing)
    }
}

/// Which receipts are of entries that a log should have, and has not. Its newest checkpoint has `newest` entries, and `watched`
/// are those from `from` on under one that may be older.
fn lost(kept: &[Place], (from, watched): (u64, &[Watched]), newest: u64) -> Vec<Place> {
    let shown: BTreeSet<Place> =
        watched.iter().map(|one| Place::of(one.index, &leaf_hash(&one.entry.encode()))).collect();
    let end = watched.last().map_or(from, |last| last.index + 1);
    // What is not shown yet is there if the newest checkpoint covers it: it goes on from that of the receipt.
    let is_covered = |index: u64| (end..newest).contains(&index);
    let is_lost = |place: &&Place| place.index() >= from && !shown.contains(*place) && !is_covered(place.index());
    kept.iter().filter(is_lost).copied().collect()
}

#[cfg(test)]
mod tests {
    use althing_protocol::object;
    use althing_protocol::registry::{self, Audience, Entry, Logged, Release, Standing};
    use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKeyKind, node_hash};
    use althing_protocol::{PublisherId, SecretKey};

    use super::*;

    const NETWORK: &str = "net";

    fn secret(seed: u8) -> SecretKey {
        SecretKey::from_seed(&[seed; 32])
    }

    fn log(name: &str, seed: u8) -> NoteKey {
        NoteKey::new(name, NoteKeyKind::Note, secret(seed).public()).expect("a good name")
    }

    fn agent() -> AgentId {
        AgentId::new(PublisherId::from_digest([7; 32]), "echo").expect("a name")
    }

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    /// The receipt of a statement that a log of two entries has after another one.
    fn receipt(kind: Kind, statement: Vec<u8>, salt: Option<[u8; 16]>) -> ReceiptRow {
        let mut logged =
            Logged { statement: statement.into(), at_ms: 5, proof: String::new(), salt: salt.map(Into::into) };
        let entry = logged.entry(kind).expect("an entry");
        let first = leaf_hash(b"another entry");
        let head = Head { size: 2, root: node_hash(&first, &leaf_hash(&entry.encode())) };
        let checkpoint = Checkpoint::sign("r", head, &secret(1)).expect("a name").note().to_owned();
        logged.proof = LogProof { index: 1, hashes: vec![first], checkpoint }.to_string();
        ReceiptRow { kind, logged }
    }

    fn released(number: &str) -> ReceiptRow {
        let body = Release::new(agent(), version(number), [3; 32], Audience::public(), 4);
        receipt(Kind::Release, object::sign(body, NETWORK, "", &secret(2)).expect("signed").bytes, None)
    }

    fn verified(row: &ReceiptRow, key: &NoteKey) -> Result<KeptReceipt, ReceiptError> {
        let place = row.place().expect("it has one");
        By { log: key, witnesses: &[], network: NETWORK }.verify(place, &row.encode())
    }

    #[test]
    fn a_receipt_is_verified_without_the_registry() {
        let shown = verified(&released("1.0.0"), &log("r", 1)).expect("it holds");
        let said = Said::Release(agent(), version("1.0.0"), agent().publisher());
        assert_eq!((shown.said, shown.accepted_ms, shown.entries, shown.cosigned), (said, 5, 2, 0));
        // Anybody verifies it with what it shows.
        let proof: LogProof = shown.proof.parse().expect("a proof");
        assert!(proof.check(&shown.entry, &log("r", 1), &[], 0).is_ok());
        let entry = Entry::decode(&shown.entry).expect("an entry");
        assert!(entry.names(&shown.statement, None) && !entry.names(b"another", None));
        // So is one of a statement that is not for everybody, with its salt.
        let body = registry::Mark::new(agent(), version("1.0.0"), Standing::Yanked, "", 4);
        let mark = object::sign(body, NETWORK, "", &secret(2)).expect("signed").bytes;
        let shown = verified(&receipt(Kind::Mark, mark, Some([9; 16])), &log("r", 1)).expect("it holds");
        let entry = Entry::decode(&shown.entry).expect("an entry");
        assert!(entry.names(&shown.statement, shown.salt.as_ref()) && !entry.names(&shown.statement, None));
    }

    #[test]
    fn a_receipt_that_was_changed_is_refused() {
        let good = released("1.0.0");
        let key = log("r", 1);
        assert!(verified(&good, &key).is_ok());
        let changed = |change: &dyn Fn(&mut ReceiptRow)| {
            let mut row = good.clone();
            change(&mut row);
            verified(&row, &key)
        };
        let other = released("2.0.0").logged;
        for (what, receipt) in [
            ("its statement", changed(&|row| row.logged.statement = other.statement.clone())),
            ("its time", changed(&|row| row.logged.at_ms += 1)),
            ("its kind", changed(&|row| row.kind = Kind::Mark)),
            ("a salt", changed(&|row| row.logged.salt = Some([0; 16].into()))),
            ("its index", changed(&|row| row.logged.proof = row.logged.proof.replacen("index 1", "index 0", 1))),
            ("its size", changed(&|row| row.logged.proof = row.logged.proof.replacen("\nr\n2\n", "\nr\n3\n", 1))),
        ] {
            assert!(matches!(receipt, Err(ReceiptError::Proof(_))), "{what}: {receipt:?}");
        }
        for other in [log("r", 2), log("other", 1)] {
            assert!(matches!(verified(&good, &other), Err(ReceiptError::Proof(_))), "{other}");
        }
        let by = By { log: &key, witnesses: &[], network: "another" };
        let place = good.place().expect("it has one");
        assert!(matches!(by.verify(place, &good.encode()), Err(ReceiptError::Statement(_))), "another network's");
        let by = By { network: NETWORK, ..by };
        assert_eq!(by.verify(place, b"noise").err(), Some(ReceiptError::Damaged));
        let elsewhere = Place::of(2, &[0; 32]);
        assert_eq!(by.verify(elsewhere, &good.encode()).err(), Some(ReceiptError::Damaged));
    }

    #[test]
    fn receipts_are_wanted_by_what_they_are_of() {
        let of = |number: &str| WantedReceipts { release: Some((agent(), version(number))), entry: None };
        let receipt = verified(&released("1.0.0"), &log("r", 1));
        assert!(of("1.0.0").is_met(&receipt) && !of("1.0.1").is_met(&receipt));
        assert!(WantedReceipts::default().is_met(&receipt));
        assert!(of("9.9.9").is_met(&Err(ReceiptError::Damaged)), "what is wrong is shown");
    }

    #[test]
    fn what_a_log_had_and_does_not_show_any_more_is_lost() {
        let entry = |at_ms| Entry::of(Kind::Release, b"release", at_ms);
        let watched = |from: u64, to: u64| -> Vec<Watched> {
            (from..to).map(|index| Watched { index, entry: entry(index), said: Said::Unseen }).collect()
        };
        let place = |index, at_ms| Place::of(index, &leaf_hash(&entry(at_ms).encode()));
        let kept = [place(9, 9), place(4, 4), place(3, 77), place(1, 77)];
        let all = watched(0, 5);
        assert_eq!(lost(&kept, (0, &all), 10), [place(3, 77), place(1, 77)], "9 is under the newest checkpoint");
        assert_eq!(lost(&kept, (0, &all), 9), [place(9, 9), place(3, 77), place(1, 77)]);
        let some = watched(2, 5);
        assert_eq!(lost(&kept, (2, &some), 10), [place(3, 77)], "only from there on is looked at");
        assert_eq!(lost(&kept, (20, &[]), 10), []);
    }
}
