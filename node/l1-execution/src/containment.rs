//! How a program is contained, and what it was refused, as people are told.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use althing_keeper::job::Bounds;
use althing_keeper::{Level, Refusal};
use althing_td::{ContainmentLevel, Demand, Sandbox};

use crate::needs::{Advice, Needs};

/// Refusals that are kept of one program; its keeper tells as many.
const REFUSALS_MAX: usize = 64;

/// How a program is enclosed and bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enclosed {
    /// How strongly.
    pub level: Level,
    /// Why not more strongly; empty where nothing is stronger.
    pub why: String,
    /// How it is held to its limits.
    pub bounds: Bounds,
    /// The number of its account, where it has one of its own.
    pub account: Option<u32>,
}

/// How a program is contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containment {
    /// The level.
    pub level: Level,
    /// Why it is no higher one; empty where there is none, or its file says so.
    pub why: String,
    /// The number of its account, where it has one of its own.
    pub account: Option<u32>,
    /// Whether its file turns the sandbox off.
    pub is_off: bool,
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
    pub fn told(&self, most: usize) -> Option<String> {
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
        let Enclosed { level, why, bounds, account } = enclosed;
        let (is_off, unbounded) = (sandbox.demand == Demand::None, bounds.missing().unwrap_or_default());
        Containment { level, why, account, is_off, unbounded, lacks: Lacks::default() }
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
            (false, Level::Landlock) => ContainmentLevel::Landlock,
            (false, Level::Namespaces) => ContainmentLevel::Wholly,
        }
    }

    /// What it is contained by: what it reaches, not what it takes of the machine.
    #[must_use]
    pub fn reach(&self) -> String {
        match (self.is_off, self.level, self.why.as_str()) {
            (true, _, _) => "off (sandbox: none)".to_owned(),
            (_, Level::Namespaces, _) => "contained".to_owned(),
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
    pub fn told(&self, refusal: &Refusal) -> String {
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

    use super::*;

    fn enclosed() -> Enclosed {
        Enclosed { level: Level::Namespaces, why: String::new(), bounds: Bounds::default(), account: None }
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
    fn people_are_told_how_a_program_is_contained_and_why_not_better() {
        let best = Sandbox::default();
        let off = Sandbox { demand: Demand::None, ..Sandbox::default() };
        let why = "this machine makes no user namespaces";
        let cases = [
            (&best, Level::Namespaces, "", "contained"),
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
            let enclosed = Enclosed { level, why: why.to_owned(), bounds: Bounds::default(), account };
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
