//! Planted bugs, one file each: what the nodes do beside the product's machines and gates is rewritten, as if the program had the
//! bug. The product has no switch for any of them. Each must be caught by an invariant.

mod bound_ignored;
mod claim_believed;
mod clock_believed;
mod conversation_lost;
mod counted_twice;
mod decision_told_early;
mod decision_unsynced;
mod gate_skipped_streamed;
mod none;
mod older_adopted;
mod reversal_forgotten;
mod reversal_unwritten;
mod shadow_acts;
mod shadow_shown;
mod undecided_promoted;

use althing_store::Durability;
use althing_verification::machine::rollout::{Breach, Change, Plan, Versions};

use super::evidence::Course;

/// A planted bug. Without one, everything is as it should be.
pub trait Flaw: Send + Sync {
    /// As the command line and reports have it.
    fn name(&self) -> &'static str;

    /// What is known when a rollout is to begin.
    fn remembered(&self, versions: Versions) -> Versions {
        versions
    }

    /// What the owner wants of a rollout.
    fn plan(&self, plan: Plan) -> Plan {
        plan
    }

    /// How something is written; none if it is not. A change is what evidence, or the owner, decided of the version that is tried.
    fn durability(&self, _change: Option<Change>, durability: Durability) -> Option<Durability> {
        Some(durability)
    }

    /// Whether the follower is told what the leader decided before that is on disk.
    fn tells_first(&self) -> bool {
        false
    }

    /// Whether the follower takes all that the leader knew when it told something, in place of what it knows itself.
    fn adopts_all(&self) -> bool {
        false
    }

    /// When the conversation of a call began, Unix milliseconds, as far as that is noted.
    fn began(&self, noted: Option<u64>) -> Option<u64> {
        noted
    }

    /// What is noted of when a conversation began; `now_ms` is what the clock says.
    fn stamp(&self, began_ms: u64, _now_ms: u64) -> u64 {
        began_ms
    }

    /// Whether what is streamed is shown unjudged.
    fn skips_gate_of_streams(&self) -> bool {
        false
    }

    /// Whether a shadow changes something in the world.
    fn shadow_acts(&self) -> bool {
        false
    }

    /// Whether what a shadow answers is shown.
    fn shows_shadow(&self) -> bool {
        false
    }

    /// As what a call is counted that the gate makes this of, and of which its version says that.
    fn counted(&self, verdict: Course, _claim: Course) -> Course {
        verdict
    }

    /// What is counted one by one.
    fn breach(&self, breach: Option<Breach>) -> Option<Breach> {
        breach
    }

    /// How often a call is counted.
    fn times(&self) -> usize {
        1
    }
}

type Make = fn() -> Box<dyn Flaw>;

/// All planted bugs.
const ALL: &[Make] = &[
    || Box::new(bound_ignored::BoundBlindness),
    || Box::new(claim_believed::BelievedClaim),
    || Box::new(clock_believed::UncheckedClock),
    || Box::new(conversation_lost::LostConversation),
    || Box::new(counted_twice::SecondCount),
    || Box::new(decision_told_early::EarlyNews),
    || Box::new(decision_unsynced::UnsyncedDecision),
    || Box::new(gate_skipped_streamed::UngatedStream),
    || Box::new(older_adopted::OlderState),
    || Box::new(reversal_forgotten::ForgottenReversal),
    || Box::new(reversal_unwritten::UnwrittenReversal),
    || Box::new(shadow_acts::ActingShadow),
    || Box::new(shadow_shown::TalkingShadow),
    || Box::new(undecided_promoted::UndecidedPromotion),
];

/// The program as it is.
#[must_use]
pub fn none() -> Box<dyn Flaw> {
    Box::new(none::None)
}

/// The names of all planted bugs.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|make| make().name()).collect()
}

/// The planted bug of a name.
#[must_use]
pub fn named(name: &str) -> Option<Box<dyn Flaw>> {
    ALL.iter().map(|make| make()).find(|flaw| flaw.name() == name)
}
