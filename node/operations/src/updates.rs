//! Begins rollouts of newer releases of what was installed, where its owner wants that.
//!
//! Nobody is asked: a release that may do more than the one of now is left to the owner, and so is all that `update` would refuse.

use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_node::revocations::{InstalledRow, PassedRow, TrialRow, UpdateRule, remove_folder};
use althing_node::rollouts::{self, RolloutError, RolloutPhase, RolloutPlan, RolloutReport};
use althing_node::{Node, NodeError};
use althing_protocol::registry::Version;
use althing_protocol::{AgentId, CallerId};
use althing_td::SharedFile;
use althing_verification::machine::rollout::OrderError;
use tokio::time::timeout;

use crate::registries::{HeldRelease, Installing, Inventory, Registries, RegistriesError, UpdateTerms};

/// Between two looks at what became of what is tried.
const LOOK: Duration = Duration::from_secs(10);
/// So many looks are one for newer releases; where a log grew, it is looked at once.
const LOOKS: u64 = 6;
/// A release of which no rollout was begun is tried again after this: the cause may be gone.
const AGAIN_MS: u64 = 10 * 60 * 1_000;
/// No rest after releases that went back is longer.
const REST_MAX_MS: u64 = 24 * 60 * 60 * 1_000;

/// Tries newer releases of what was installed on a node.
pub(crate) struct Updates<'a> {
    node: &'a Node,
    inventory: &'a Inventory,
    releases: Installing<'a>,
}

impl<'a> Updates<'a> {
    /// Those of a node, from the registries that it follows.
    pub(crate) fn of(node: &'a Node, registries: &'a Registries) -> Updates<'a> {
        Updates { node, inventory: registries.inventory(), releases: registries.installing() }
    }

    /// Begins a rollout of each newer release that is to be tried, and notes what became of it, for as long as the node runs.
    pub(crate) async fn run(&self) {
        for look in 1_u64.. {
            let has_news = timeout(LOOK, self.inventory.news()).await.is_ok();
            let installed = self.node.revocations.installed_names();
            self.inventory.held().retain(&installed);
            for name in installed {
                if let Err(error) = self.settle(&name).await {
                    tracing::error!(agent = name, %error, "what became of a newer release is not noted yet");
                    continue;
                }
                if has_news || look.is_multiple_of(LOOKS) {
                    self.try_newer(&name).await;
                }
            }
        }
    }

    /// Begins a rollout of the newest release of what has that name, if there is a newer one that is to be tried.
    async fn try_newer(&self, name: &str) {
        let (node, held) = (self.node, self.inventory.held());
        let Some(row) = node.revocations.installed_row(name) else { return };
        // One that is under way, also one of the owner's, goes first.
        if row.update == UpdateRule::Asked || row.trial.is_some() || node.rollouts.versions(name).is_some() {
            return held.hold(name, None);
        }
        let version = match self.releases.above(&row).await {
            Ok(newer) => newer.map(|version| version.to_string()),
            Err(error) => return tracing::debug!(agent = name, %error, "newer releases could not be looked for"),
        };
        let now_ms = node.identity.clock().now_ms();
        let Some(version) = version.filter(|version| !row.is_passed(version)) else { return held.hold(name, None) };
        if let Some(passed) = row.passed.as_ref().filter(|passed| now_ms.abs_diff(passed.at_ms) < rest_ms(passed)) {
            let why = format!("{} releases went back one after the other, so that it is tried later", passed.reversals);
            return held.hold(name, Some(HeldRelease { version, why, needs_owner: false, at_ms: 0 }));
        }
        let before = held.last(name).filter(|held| held.version == version);
        if before.is_some_and(|held| !is_due(&held, now_ms)) {
            return;
        }
        match Box::pin(self.begin(name, row)).await {
            Ok(version) => {
                tracing::info!(agent = name, %version, "a rollout of a newer release was begun");
                held.hold(name, None);
            }
            Err(error) => {
                let (why, needs_owner) = (reason(&error), needs_owner(&error));
                held.hold(name, Some(HeldRelease { version, why, needs_owner, at_ms: now_ms }));
            }
        }
    }

    /// Begins a rollout of the newest release; gives its version.
    async fn begin(&self, name: &str, row: InstalledRow) -> Result<Version, RegistriesError> {
        let (node, terms) = (self.node, UpdateTerms::default());
        let offer = self.releases.look_for_update(&node.agents, name, terms, trusts(node)).await?;
        let _installing = self.inventory.lock().await;
        offer.admitted(&node.agents).await?;
        if node.revocations.installed_row(name).as_ref() != Some(&row) {
            return Err(RegistriesError::Changed);
        }
        if node.agents.file(name)?.1 != row.folder {
            return Err(RegistriesError::OtherFile(name.to_owned()));
        }
        let SharedFile::Agent(file) = &offer.file else { return Err(RegistriesError::BecameOther(name.to_owned())) };
        let folder = offer.write_files(node.data().ok_or(RegistriesError::NoFolder)?)?;
        // Before it runs: it must be known then whose release it is, and whose files these are.
        let trial = TrialRow { version: offer.version.to_string(), folder: folder.clone(), digest: None };
        node.revocations.set_installed(name, Some(InstalledRow { trial: Some(trial), ..row.clone() })).await?;
        let file = file.as_ref().clone();
        if let Err(error) = rollouts::begin_unasked(node, name, file, &folder, RolloutPlan::default()).await {
            if !row.folders().any(|known| *known == folder) {
                remove_folder(&folder);
            }
            // It may have been removed meanwhile.
            if node.revocations.installed_row(name).is_some() {
                node.revocations.set_installed(name, Some(row)).await?;
            }
            return Err(error.into());
        }
        self.note(name).await?;
        Ok(offer.version)
    }

    /// Notes what became of the release that is tried, ends its rollout if its publisher revoked it, and removes the files of
    /// releases of which nothing runs any more.
    async fn settle(&self, name: &str) -> Result<(), RegistriesError> {
        let node = self.node;
        let _installing = self.inventory.lock().await;
        // First, so that no rollout is ended that is another file's.
        self.note(name).await?;
        let Some(row) = node.revocations.installed_row(name) else { return Ok(()) };
        let Some(trial) = row.trial.filter(|_| node.rollouts.versions(name).is_some()) else { return Ok(()) };
        let agent: AgentId = row.agent.parse()?;
        let Some(why) = node.revocations.of(&agent, &trial.version) else { return Ok(()) };
        tracing::warn!(agent = name, why, "a rollout ends");
        rollouts::abort(node, name).await?;
        self.note(name).await
    }

    /// Called while nobody else installs.
    async fn note(&self, name: &str) -> Result<(), RegistriesError> {
        let node = self.node;
        let Some(row) = node.revocations.installed_row(name) else { return Ok(()) };
        if row.trial.is_none() && row.former.is_empty() {
            return Ok(());
        }
        // Of what is not there any more, nothing is left to note.
        let Ok((file, stable)) = node.agents.file(name) else { return Ok(()) };
        let report = rollouts::report(node, name).ok();
        let others = rollouts::stored_agents(node.store.as_ref())?.into_iter();
        let used: Vec<PathBuf> = others.filter(|one| one.file.name == name).map(|one| one.folder).collect();
        let now_ms = node.identity.clock().now_ms();
        let now = settled(row.clone(), (stable.as_path(), used.as_slice()), report.as_ref(), now_ms);
        let mut now = restored(now, (stable.as_path(), file.version.as_str()), report.as_ref(), now_ms);
        let is_used = |folder: &PathBuf| *folder == stable || used.contains(folder);
        let unused: Vec<PathBuf> = now.former.iter().filter(|folder| !is_used(folder)).cloned().collect();
        now.former.retain(|folder| is_used(folder));
        if now != row {
            node.revocations.set_installed(name, Some(now)).await?;
        }
        unused.iter().for_each(|folder| remove_folder(folder));
        Ok(())
    }
}

/// What is known of what was installed, once it is known which files the stable version has, and those beside it, and how the
/// rollout goes that is under way, or went that was the last.
fn settled(
    mut row: InstalledRow,
    (stable, beside): (&Path, &[PathBuf]),
    report: Option<&RolloutReport>,
    now_ms: u64,
) -> InstalledRow {
    let Some(trial) = row.trial.take() else { return row };
    if trial.folder == stable {
        row.version = trial.version;
        row.former.push(std::mem::replace(&mut row.folder, trial.folder));
        row.pass(None);
        return row;
    }
    // Else it is one of another file, which began after this one was not.
    let is_here = beside.contains(&trial.folder);
    if let Some(report) = report.filter(|report| is_here && report.phase == RolloutPhase::Running) {
        row.trial = Some(TrialRow { digest: Some(report.new.digest.clone()), ..trial });
        return row;
    }
    let of_this = report.filter(|report| trial.digest.as_ref() == Some(&report.new.digest));
    let why = of_this.and_then(|report| match &report.phase {
        RolloutPhase::WentBack(reason) => Some((format!("it went back: {reason}"), 1)),
        RolloutPhase::Aborted => Some(("its rollout was aborted".to_owned(), 0)),
        RolloutPhase::Running | RolloutPhase::Promoted { .. } | RolloutPhase::PromotedElsewhere(_) => None,
    });
    // Where the node ended before the rollout was begun, it is begun anew.
    if let Some((why, more)) = why {
        let reversals = row.passed.as_ref().map_or(0, |passed| passed.reversals).saturating_add(more);
        row.pass(Some(PassedRow { version: trial.version, why, digest: trial.digest, at_ms: now_ms, reversals }));
    }
    row.former.push(trial.folder);
    row
}

/// What is known of what was installed where the release that stayed went back after all, as on another node of the owner: the one
/// before it, of that version, is stable again.
fn restored(
    mut row: InstalledRow,
    (stable, version): (&Path, &str),
    report: Option<&RolloutReport>,
    now_ms: u64,
) -> InstalledRow {
    if row.folder == stable || !row.former.iter().any(|folder| folder == stable) {
        return row;
    }
    let told = report.and_then(|report| match &report.phase {
        RolloutPhase::WentBack(reason) => Some((report.new.digest.clone(), reason.clone())),
        _ => None,
    });
    let (digest, reason) = told.unzip();
    let why = format!("it went back: {}", reason.as_deref().unwrap_or("another node of its owner sent it back"));
    let gone = std::mem::replace(&mut row.version, version.to_owned());
    let reversals = row.passed.as_ref().map_or(0, |passed| passed.reversals).saturating_add(1);
    row.pass(Some(PassedRow { version: gone, why, digest, at_ms: now_ms, reversals }));
    row.former.retain(|folder| folder != stable);
    row.former.push(std::mem::replace(&mut row.folder, stable.to_owned()));
    row
}

/// For how long nothing is tried after a release, milliseconds: the first that goes back is no reason to wait, and whoever publishes
/// one bad release after the other has ever fewer of them tried.
fn rest_ms(passed: &PassedRow) -> u64 {
    let doublings = passed.reversals.checked_sub(2);
    doublings.map_or(0, |doublings| (AGAIN_MS << doublings.min(8)).min(REST_MAX_MS))
}

/// Whether a release of which no rollout was begun is to be tried again. The clock may have been set back meanwhile.
fn is_due(held: &HeldRelease, now_ms: u64) -> bool {
    !held.needs_owner && now_ms.abs_diff(held.at_ms) >= AGAIN_MS
}

/// Why no rollout was begun, for people.
fn reason(error: &RegistriesError) -> String {
    match error {
        RegistriesError::Node(node) if matches!(node.as_ref(), NodeError::Wider(_)) => {
            "it may do more than was agreed to".to_owned()
        }
        error => error.to_string(),
    }
}

/// Whether time alone changes nothing of that.
fn needs_owner(error: &RegistriesError) -> bool {
    match error {
        RegistriesError::Node(node) => match node.as_ref() {
            // It can be begun when the older versions are over.
            NodeError::Rollout(RolloutError::Order(OrderError::Draining { .. })) => false,
            NodeError::Wider(_)
            | NodeError::Rollout(
                RolloutError::Order(_) | RolloutError::HardRealTime(_) | RolloutError::SoftLoop { .. },
            ) => true,
            _ => false,
        },
        RegistriesError::Uncontained { .. }
        | RegistriesError::OtherFile(_)
        | RegistriesError::BecameOther(_)
        | RegistriesError::NoRollouts { .. }
        | RegistriesError::Holder(_) => true,
        _ => false,
    }
}

/// Whom the owner trusts, and the owner.
fn trusts(node: &Node) -> impl Fn(CallerId) -> bool + use<> {
    let (trusted, own) = (node.trust.ids(), CallerId::Publisher(node.owner().id()));
    move |id| id == own || trusted.contains(&id)
}

#[cfg(test)]
mod tests {
    use althing_node::rollouts::{RolloutUnit, VersionReport};

    use super::*;

    /// What is installed in version 1.0.0, while 1.1.0 is tried.
    fn tried(digest: Option<&str>) -> InstalledRow {
        let trial = TrialRow { version: "1.1.0".to_owned(), folder: "/new".into(), digest: digest.map(str::to_owned) };
        InstalledRow {
            version: "1.0.0".to_owned(),
            folder: "/old".into(),
            update: UpdateRule::Rollout,
            trial: Some(trial),
            ..InstalledRow::default()
        }
    }

    fn report(digest: &str, phase: RolloutPhase) -> RolloutReport {
        let version =
            |digest: &str| VersionReport { version: None, digest: digest.to_owned(), share_percent: 0, failure: None };
        RolloutReport {
            phase,
            stable: version("0a"),
            new: version(digest),
            steps: Vec::new(),
            by: RolloutUnit::Call,
            calls: 0,
            calls_min: 50,
            one_in: 1.0,
            limit: 20.0,
            signals: Vec::new(),
            left_out: [(0, 0); 2],
            shadow: None,
            cases: None,
            effects: Vec::new(),
            reversals: Vec::new(),
        }
    }

    fn settle(row: InstalledRow, stable: &str, report: Option<&RolloutReport>) -> InstalledRow {
        settled(row, (Path::new(stable), [PathBuf::from("/new")].as_slice()), report, 5_000)
    }

    #[test]
    fn a_release_that_was_promoted_is_the_one_that_is_installed() {
        let promoted = report("0b", RolloutPhase::Promoted { by_owner: false });
        let row = settle(tried(Some("0b")), "/new", Some(&promoted));
        assert_eq!((row.version.as_str(), row.folder.as_path()), ("1.1.0", Path::new("/new")));
        assert_eq!((&row.trial, &row.passed), (&None, &None));
        assert_eq!(row.former, [PathBuf::from("/old")], "conversations of the older one go on");
    }

    #[test]
    fn a_release_that_did_not_stay_is_not_tried_again() {
        let went_back = report("0b", RolloutPhase::WentBack("it crashed".to_owned()));
        for (ended, why) in [(went_back, "it crashed"), (report("0b", RolloutPhase::Aborted), "aborted")] {
            let row = settle(tried(Some("0b")), "/old", Some(&ended));
            assert_eq!((row.version.as_str(), row.trial.is_none()), ("1.0.0", true));
            assert_eq!(row.former, [PathBuf::from("/new")]);
            assert!(row.is_passed("1.1.0") && !row.is_passed("1.2.0"));
            assert!(row.passed.is_some_and(|passed| passed.why.contains(why)), "{why}");
        }
    }

    #[test]
    fn a_release_that_stayed_and_went_back_on_another_node_is_installed_no_more_and_not_tried_again() {
        let promoted = report("0b", RolloutPhase::PromotedElsewhere("did:key:z1".to_owned()));
        let row = settle(tried(Some("0b")), "/new", Some(&promoted));
        assert_eq!(restored(row.clone(), (Path::new("/new"), "1.1.0"), Some(&promoted), 6_000), row);
        assert_eq!(restored(row.clone(), (Path::new("/own"), "3.0.0"), None, 6_000), row, "its owner put that there");
        let went_back = report("0b", RolloutPhase::WentBack("it crashed".to_owned()));
        for (report, digest) in [(Some(&went_back), Some("0b".to_owned())), (None, None)] {
            let row = restored(row.clone(), (Path::new("/old"), "1.0.0"), report, 6_000);
            assert_eq!((row.version.as_str(), row.folder.as_path()), ("1.0.0", Path::new("/old")));
            assert_eq!(row.former, [PathBuf::from("/new")]);
            assert!(row.is_passed("1.1.0"));
            let passed = row.passed.expect("it did not stay");
            assert_eq!((passed.digest, passed.reversals, passed.at_ms), (digest, 1, 6_000));
            assert!(passed.why.starts_with("it went back: "), "{}", passed.why);
        }
    }

    #[test]
    fn a_rollout_that_was_not_begun_is_begun_anew_and_one_under_way_goes_on() {
        let other = report("0c", RolloutPhase::WentBack("it crashed".to_owned()));
        for earlier in [None, Some(&other)] {
            let row = settle(tried(None), "/old", earlier);
            assert!(row.trial.is_none() && !row.is_passed("1.1.0"), "the node ended before it was begun: {row:?}");
        }
        let running = report("0b", RolloutPhase::Running);
        assert_eq!(settle(tried(None), "/old", Some(&running)), tried(Some("0b")));
        // Its owner began one of another file before anybody looked.
        let own = [PathBuf::from("/own")];
        let row = settled(tried(None), (Path::new("/old"), own.as_slice()), Some(&running), 5_000);
        assert_eq!((row.trial, row.passed), (None, None), "that rollout says nothing of the release");
    }

    #[test]
    fn a_release_that_was_aborted_does_not_come_again_when_newer_ones_are_yanked() {
        let again = |row: InstalledRow, version: &str, stable: &str, phase: RolloutPhase| {
            let trial = tried(Some("0b")).trial.map(|trial| TrialRow { version: version.to_owned(), ..trial });
            settle(InstalledRow { trial, ..row }, stable, Some(&report("0b", phase)))
        };
        let aborted = again(tried(None), "1.3.0", "/old", RolloutPhase::Aborted);
        let went_back = again(aborted, "1.4.0", "/old", RolloutPhase::WentBack("it crashed".to_owned()));
        // Both are yanked, and an older one stays.
        let stays = again(went_back.clone(), "1.2.0", "/new", RolloutPhase::Promoted { by_owner: false });
        for row in [&went_back, &stays] {
            assert!(row.is_passed("1.3.0") && row.is_passed("1.4.0") && !row.is_passed("1.5.0"), "{row:?}");
        }
        assert_eq!((stays.version.as_str(), &stays.passed), ("1.2.0", &None));
        let mut row = stays;
        for number in 0..1_000 {
            row = again(row, &format!("2.{number}.0"), "/old", RolloutPhase::Aborted);
        }
        assert_eq!(row.passed_before.len(), 64);
        assert!(row.is_passed("2.999.0") && row.is_passed("2.940.0") && !row.is_passed("2.900.0"));
    }

    /// Whoever publishes a bad release every minute.
    #[test]
    fn the_more_releases_went_back_one_after_the_other_the_longer_nothing_is_tried() {
        let went_back = report("0b", RolloutPhase::WentBack("it crashed".to_owned()));
        let again = |row: InstalledRow, report: &RolloutReport| {
            settle(InstalledRow { trial: tried(Some("0b")).trial, ..row }, "/old", Some(report))
        };
        let rest = |row: &InstalledRow| row.passed.as_ref().map(rest_ms);
        let mut row = again(tried(None), &went_back);
        assert_eq!((rest(&row), row.passed.as_ref().map(|passed| passed.at_ms)), (Some(0), Some(5_000)), "the first");
        let mut rests = Vec::new();
        for _ in 0..12 {
            row = again(row, &went_back);
            rests.extend(rest(&row));
        }
        assert_eq!(rests[..3], [AGAIN_MS, 2 * AGAIN_MS, 4 * AGAIN_MS]);
        assert_eq!(rests[11], REST_MAX_MS);
        let aborted = again(row.clone(), &report("0b", RolloutPhase::Aborted));
        assert_eq!(rest(&aborted), Some(REST_MAX_MS), "whoever aborts one forgives none");
        let trial = tried(Some("0b")).trial;
        let promoted = report("0b", RolloutPhase::Promoted { by_owner: false });
        let stays = settle(InstalledRow { trial, ..row }, "/new", Some(&promoted));
        assert_eq!(rest(&stays), None, "one that stays ends it");
    }

    #[test]
    fn what_was_held_is_tried_again_also_where_the_clock_was_set_back() {
        let held = |needs_owner: bool| HeldRelease {
            version: "1.1.0".to_owned(),
            why: String::new(),
            needs_owner,
            at_ms: 1_000_000_000,
        };
        let soon = 1_000_000_000 + AGAIN_MS - 1;
        assert_eq!([soon, soon + 1, 1_000].map(|now_ms| is_due(&held(false), now_ms)), [false, true, true]);
        assert!(!is_due(&held(true), soon + 1), "that waits for its owner");
    }

    #[test]
    fn what_waits_for_the_owner_is_told_from_what_passes() {
        let wider = RegistriesError::from(NodeError::Wider("copy".to_owned()));
        assert!(needs_owner(&wider) && reason(&wider) == "it may do more than was agreed to");
        let gone = RegistriesError::NoFolder;
        assert!(!needs_owner(&gone) && reason(&gone) == gone.to_string());
    }
}
