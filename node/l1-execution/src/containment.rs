//! How a program is contained, and what it was refused, as people are told.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_keeper::job::Bounds;
use althing_keeper::machine::gaps;
use althing_keeper::{Gap, Level, Refusal};
use althing_td::{ContainmentLevel, Demand, Sandbox};

use crate::needs::{Advice, Needs};

/// Refusals that are kept of one program; its keeper tells as many.
const REFUSALS_MAX: usize = 64;
/// Folders that are named of those that a program is not given.
const WITHHELD_MAX: usize = 4;

/// How a program is enclosed and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enclosed {
    /// How strongly.
    pub level: Level,
    /// Why not more strongly, and what of the node's own it may reach nevertheless; empty where nothing is stronger.
    pub why: String,
    /// How it is held to its limits.
    pub bounds: Bounds,
    /// The number of its account, where it has one of its own.
    pub account: Option<u32>,
    /// The version of Landlock (its ABI) that encloses it, alone or with namespaces; 0: none does.
    pub landlock: u8,
    /// Folders that it may read and does not reach: they hold too much to be searched for sockets, or too many of them.
    pub withheld: Vec<PathBuf>,
}

/// How a program is contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// The level.
    pub level: Level,
    /// Why it is no higher one, what the level leaves open on this kernel, and what of the node's own it may reach nevertheless; empty
    /// where there is nothing to say, or its file says so.
    pub why: String,
    /// What an older Landlock leaves open of what Landlock alone is to hold.
    pub gaps: Vec<Gap>,
    /// The number of its account, where it has one of its own.
    pub account: Option<u32>,
    /// Whether its file turns the sandbox off.
    pub is_off: bool,
    /// Folders that its file or its arguments name, or what lies in them, which are kept from it since nobody knows which sockets
    /// are in there, or too many are.
    pub withheld: Vec<PathBuf>,
    /// What nothing bounds of what it takes of the machine, and why; empty where all is bounded.
    pub unbounded: String,
    /// What it was refused so far.
    pub lacks: Lacks,
}

/// What a program was refused, and what it needs therefore.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lacks {
    /// Each once, with what can be done about it.
    pub refused: Vec<Advice>,
    /// Whether it was refused more than that.
    pub more: bool,
    /// All that can be granted of it, as one block of its file.
    pub needs: Needs,
}

impl Lacks {
    /// On one line, at most that many by name, and the block; none if it was refused nothing.
    #[must_use]
    pub fn summary(&self, most: usize) -> Option<String> {
        if self.refused.is_empty() {
            return None;
        }
        let named: Vec<String> = self.refused.iter().take(most).map(Advice::words).collect();
        let more = if self.more || self.refused.len() > most { ", and more" } else { "" };
        let block =
            if self.needs.is_empty() { String::new() } else { format!("; its file would grant it by {}", self.needs) };
        Some(format!("{}{more}{block}", named.join(", ")))
    }
}

impl Containment {
    /// Of a program that runs.
    #[must_use]
    pub fn of(sandbox: &Sandbox, enclosed: Enclosed) -> Containment {
        let Enclosed { level, why, bounds, account, landlock, withheld } = enclosed;
        let (is_off, unbounded) = (sandbox.demand == Demand::None, bounds.missing().unwrap_or_default());
        // With namespaces it has files, processes and a network of its own, whatever Landlock knows of.
        let version = (level == Level::Landlock).then_some(landlock);
        let gaps = version.map(gaps::gaps).unwrap_or_default();
        let told = Some(why).filter(|why| !why.is_empty()).into_iter().chain(version.and_then(gaps::summary));
        let why = told.collect::<Vec<_>>().join("; ");
        Containment { level, why, gaps, account, is_off, withheld, unbounded, lacks: Lacks::default() }
    }

    /// The same, with what the program was refused by now, and what it needs by what is on this machine now.
    #[must_use]
    pub fn with(self, refusals: &Refusals) -> Containment {
        Containment { lacks: refusals.lacks(), ..self }
    }

    /// What the description of its agent says of it.
    #[must_use]
    pub fn described(&self) -> ContainmentLevel {
        match (self.is_off, self.level) {
            (true, _) | (false, Level::None) => ContainmentLevel::Not,
            (false, Level::Account) => ContainmentLevel::Account,
            (false, Level::Landlock) => match self.gaps.first() {
                None => ContainmentLevel::Landlock,
                Some(Gap::Signals) => ContainmentLevel::LandlockV4,
                Some(Gap::Network) => ContainmentLevel::LandlockV3,
                Some(Gap::Truncation) => ContainmentLevel::LandlockV1,
                Some(Gap::Files) => ContainmentLevel::Not,
            },
            (false, Level::Namespaces) => ContainmentLevel::Wholly,
        }
    }

    /// What it may read by its file and is not given, on one line, with the reason; none where that is nothing.
    #[must_use]
    pub fn withheld(&self) -> Option<String> {
        let named: Vec<String> = self.withheld.iter().take(WITHHELD_MAX).map(|folder| format!("{folder:?}")).collect();
        let more = if self.withheld.len() > WITHHELD_MAX { " and more" } else { "" };
        let why =
            "too many files to be searched for sockets, or too many sockets: name the folders in it that it needs";
        (!named.is_empty()).then(|| format!("{}{more} ({why})", named.join(", ")))
    }

    /// What it is contained by: what it reaches, not what it takes of the machine.
    #[must_use]
    pub fn reach(&self) -> String {
        match (self.is_off, self.level, self.why.as_str()) {
            (true, _, _) => "off (sandbox: none)".to_owned(),
            (_, Level::Namespaces, "") => "contained".to_owned(),
            (_, Level::Namespaces, why) => format!("contained ({why})"),
            (_, Level::Landlock, "") => "contained (Landlock only)".to_owned(),
            (_, Level::Landlock, why) => format!("contained (Landlock only: {why})"),
            (_, Level::Account, why) => {
                let number = self.account.map(|number| format!(", {number}")).unwrap_or_default();
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                format!("contained (an account of its own only{number}{why})")
            }
            (_, Level::None, "") => "not contained".to_owned(),
            (_, Level::None, why) => format!("not contained: {why}"),
        }
    }
}

/// What a program was refused, as its keeper names it: more is added while the program runs. Copies are of the same program.
#[derive(Debug, Clone, Default)]
pub struct Refusals {
    refused: Arc<Mutex<Refused>>,
    advise: Advise,
}

/// Decides what can be done about refusals, each by itself and all together.
type Decide = dyn Fn(&[Refusal]) -> (Vec<Advice>, Needs) + Send + Sync;

/// Who decides that; nobody can do anything about them if nobody does.
#[derive(Clone, Default)]
struct Advise(Option<Arc<Decide>>);

impl Advise {
    fn on(&self, refused: &[Refusal]) -> (Vec<Advice>, Needs) {
        match &self.0 {
            Some(decide) => decide(refused),
            None => {
                let why = || "nothing is known of where it runs".to_owned();
                let none = |refusal: &Refusal| Advice { refusal: refusal.clone(), remedy: Err(why()) };
                (refused.iter().map(none).collect(), Needs::default())
            }
        }
    }
}

impl fmt::Debug for Advise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Advise")
    }
}

#[derive(Debug, Default)]
struct Refused {
    named: Vec<Refusal>,
    more: bool,
}

impl Refusals {
    /// Those of a program of which that decides what can be done about them.
    pub(crate) fn judged(decide: impl Fn(&[Refusal]) -> (Vec<Advice>, Needs) + Send + Sync + 'static) -> Refusals {
        Refusals { advise: Advise(Some(Arc::new(decide))), ..Refusals::default() }
    }

    /// One of them with what to do about it, on one line.
    #[must_use]
    pub fn advice(&self, refusal: &Refusal) -> String {
        let (each, _) = self.advise.on(std::slice::from_ref(refusal));
        each.first().map_or_else(|| refusal.to_string(), Advice::to_string)
    }

    /// All of them by now.
    fn lacks(&self) -> Lacks {
        let (named, more) = {
            let refused = self.held();
            (refused.named.clone(), refused.more)
        };
        let (refused, needs) = self.advise.on(&named);
        Lacks { refused, more, needs }
    }

    /// Adds one; whether it is new, and named.
    pub fn add(&self, refusal: Refusal) -> bool {
        let mut refused = self.held();
        if refused.named.contains(&refusal) {
            return false;
        }
        let is_named = refused.named.len() < REFUSALS_MAX;
        if is_named {
            refused.named.push(refusal);
        } else {
            refused.more = true;
        }
        is_named
    }

    /// Notes that there are more than are told.
    pub(crate) fn add_more(&self) {
        self.held().more = true;
    }

    fn held(&self) -> MutexGuard<'_, Refused> {
        self.refused.lock().expect("no holder of refusals panics")
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reach())?;
        if let Some(withheld) = self.withheld() {
            write!(f, "; not given: {withheld}")?;
        }
        match self.unbounded.as_str() {
            "" => Ok(()),
            what => write!(f, "; not bounded: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_keeper::job::Bound;
    use althing_keeper::{Access, Lack};
    use althing_td::ContainmentClaim;

    use super::*;

    fn enclosed() -> Enclosed {
        let (why, bounds, withheld) = (String::new(), Bounds::default(), Vec::new());
        Enclosed { level: Level::Namespaces, why, bounds, account: None, landlock: 7, withheld }
    }

    #[test]
    fn what_a_program_was_refused_is_kept_in_bounds() {
        let refusals = Refusals::default();
        let contained = || Containment::of(&Sandbox::default(), enclosed()).with(&refusals);
        let (last, count) = (|| contained().lacks.refused.pop(), || contained().lacks.refused.len());
        assert_eq!(count(), 0);
        let of = |n: usize| Refusal { access: Access::Read, path: format!("/{n}"), lack: Lack::NodesOwn };
        (0..REFUSALS_MAX).for_each(|n| assert!(refusals.clone().add(of(n))));
        assert!(!refusals.add(of(0)), "each once");
        assert_eq!((count(), contained().lacks.more), (REFUSALS_MAX, false));
        assert!(!refusals.add(of(REFUSALS_MAX)));
        assert_eq!((last().map(|last| last.refusal), contained().lacks.more), (Some(of(REFUSALS_MAX - 1)), true));
    }

    #[test]
    fn what_an_older_landlock_leaves_open_is_told_to_people_and_in_the_description() {
        let of = |level, landlock, why: &str| {
            Containment::of(&Sandbox::default(), Enclosed { level, landlock, why: why.to_owned(), ..enclosed() })
        };
        for version in 0..=7 {
            let alone = of(Level::Landlock, version, "no namespaces");
            let described = ContainmentClaim::new(alone.described(), false).words();
            let (words, closed): (Vec<&str>, Vec<&str>) =
                alone.gaps.iter().map(|gap| (gap.words(), gap.closed_by())).unzip();
            for linux in closed {
                assert!(alone.to_string().contains(&format!("(before Linux {linux})")), "{alone}");
            }
            match version {
                0 => assert_eq!(described, "not contained"),
                1..=5 => {
                    let open = format!("which leaves open: {}", words.join(", "));
                    assert!(described.ends_with(&open), "{described}");
                }
                _ => {
                    assert_eq!(alone.to_string(), "contained (Landlock only: no namespaces)");
                    assert_eq!(described, "contained by Landlock only");
                }
            }
            let wholly = of(Level::Namespaces, version, "");
            assert_eq!((wholly.to_string().as_str(), wholly.described()), ("contained", ContainmentLevel::Wholly));
        }
        let told = of(Level::Landlock, 3, "").to_string();
        let expected = "contained (Landlock only: version 3 of Landlock leaves open: the network (before Linux 6.7), signals \
                        (before Linux 6.12))";
        assert_eq!(told, expected);
    }

    #[test]
    fn a_folder_that_a_program_is_not_given_is_named_with_what_to_do() {
        let of = |count: usize| {
            let withheld = (0..count).map(|number| PathBuf::from(format!("/srv/{number}\n"))).collect();
            Containment::of(&Sandbox::default(), Enclosed { withheld, ..enclosed() }).to_string()
        };
        assert_eq!(of(0), "contained");
        let told = of(1);
        assert!(told.starts_with("contained; not given: \"/srv/0\\n\" (too many files"), "{told}");
        assert!(of(WITHHELD_MAX + 1).contains("\"/srv/3\\n\" and more ("), "{}", of(WITHHELD_MAX + 1));
    }

    #[test]
    fn people_are_told_how_a_program_is_contained_and_why_not_better() {
        let best = Sandbox::default();
        let off = Sandbox { demand: Demand::None, ..Sandbox::default() };
        let why = "this machine makes no user namespaces";
        let cases = [
            (&best, Level::Namespaces, "", "contained"),
            (&best, Level::Namespaces, "nobody knows what is mounted", "contained (nobody knows what is mounted)"),
            (&best, Level::Landlock, why, "contained (Landlock only: this machine makes no user namespaces)"),
            (&best, Level::Landlock, "", "contained (Landlock only)"),
            (&best, Level::Account, "", "contained (an account of its own only, 7)"),
            (
                &best,
                Level::Account,
                why,
                "contained (an account of its own only, 7: this machine makes no user namespaces)",
            ),
            (&best, Level::None, why, "not contained: this machine makes no user namespaces"),
            (&best, Level::None, "", "not contained"),
            (&off, Level::None, why, "off (sandbox: none)"),
        ];
        for (sandbox, level, why, told) in cases {
            let account = (level == Level::Account).then_some(7);
            let enclosed = Enclosed { level, why: why.to_owned(), account, ..enclosed() };
            let containment = Containment::of(sandbox, enclosed);
            assert_eq!(containment.to_string(), told);
            let is_contained = containment.described() != ContainmentLevel::Not;
            assert_eq!(is_contained, told.starts_with("contained"), "the description says the same");
        }
        let bounds = Bounds { processes: Bound::Nothing, why: "no control groups".to_owned(), ..Bounds::default() };
        let enclosed = Enclosed { bounds, ..enclosed() };
        let told = Containment::of(&best, enclosed).to_string();
        assert_eq!(told, "contained; not bounded: the number of its processes (no control groups)");
    }
}
