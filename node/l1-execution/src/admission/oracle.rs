//! A hundred thousand random sets against another program's analysis, whose proofs are checked by machine
//! (`response-time-analysis`): never a promise that it does not make, and none refused that it makes.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use response_time_analysis::arrival::Sporadic;
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::{demand, edf, fixed_priority, wcet};

use crate::admission::edf::Edf;
use crate::admission::rm;
use crate::admission::task::{Policy, Preemption, RtTask};

const SETS: u64 = 100_000;
/// No busy period of these sets is longer.
const HORIZON: u64 = 100_000;

/// xorshift64: the same sets every time.
struct Chance(u64);

impl Chance {
    fn from(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + (self.0 >> 16) % (most - least + 1)
    }

    /// 2 to 6 tasks, together below 0.98 of a core.
    fn set(&mut self) -> Vec<RtTask> {
        let mut free = 980_000;
        let mut tasks = Vec::new();
        for _ in 0..self.from(2, 6) {
            let period_ns = self.from(4, 80);
            let wcet_ns = (period_ns * self.from(20_000, 500_000) / 1_000_000).max(1);
            let share = wcet_ns * 1_000_000 / period_ns;
            if share > free {
                continue;
            }
            free -= share;
            let deadline_ns = self.from(wcet_ns, period_ns + period_ns / 2);
            let section_ns = self.from(1, wcet_ns.min(6));
            tasks.push(RtTask { deadline_ns, section_ns, ..RtTask::new(wcet_ns, period_ns) });
        }
        tasks
    }
}

fn service(ns: u64) -> Service {
    Service::from(ns)
}

/// The oracle's response of each task, the most urgent first where priorities are fixed.
fn theirs(tasks: &[RtTask], policy: Policy, preemption: Preemption) -> Vec<Option<u64>> {
    let limit = Duration::from(HORIZON);
    let arrivals: Vec<Sporadic> =
        tasks.iter().map(|task| Sporadic::new_zero_jitter(Duration::from(task.period_ns))).collect();
    let costs: Vec<wcet::Scalar> = tasks.iter().map(|task| wcet::Scalar::new(service(task.wcet_ns))).collect();
    let rbfs: Vec<_> = arrivals.iter().zip(&costs).map(|(arrival, cost)| demand::RBF::new(arrival, cost)).collect();
    let deadlines: Vec<Duration> = tasks.iter().map(|task| Duration::from(task.deadline_ns)).collect();
    let one = |at: usize| {
        let others = || (0..tasks.len()).filter(move |other| *other != at);
        let blocking = tasks[at + 1..].iter().map(|task| task.section(preemption).saturating_sub(1)).max().unwrap_or(0);
        let blocking_bound = service(blocking);
        match (policy, preemption) {
            (Policy::Rm, Preemption::Full) => {
                fixed_priority::fully_preemptive::dedicated_uniproc_rta(&rbfs[at], &rbfs[..at], limit)
            }
            (Policy::Rm, Preemption::Limited) => {
                let own = fixed_priority::floating_nonpreemptive::TaskUnderAnalysis { rbf: &rbfs[at], blocking_bound };
                fixed_priority::floating_nonpreemptive::dedicated_uniproc_rta(&own, &rbfs[..at], limit)
            }
            (Policy::Rm, Preemption::None) => {
                let own = fixed_priority::fully_nonpreemptive::TaskUnderAnalysis {
                    wcet: costs[at],
                    arrivals: &arrivals[at],
                    blocking_bound,
                };
                fixed_priority::fully_nonpreemptive::dedicated_uniproc_rta(&own, &rbfs[..at], limit)
            }
            (Policy::Edf, Preemption::Full) => {
                let own = edf::fully_preemptive::TaskUnderAnalysis { rbf: &rbfs[at], deadline: deadlines[at] };
                let other =
                    |other| edf::fully_preemptive::InterferingTask { rbf: &rbfs[other], deadline: deadlines[other] };
                edf::fully_preemptive::dedicated_uniproc_rta(&own, &others().map(other).collect::<Vec<_>>(), limit)
            }
            (Policy::Edf, Preemption::Limited) => {
                let own = edf::floating_nonpreemptive::TaskUnderAnalysis { rbf: &rbfs[at], deadline: deadlines[at] };
                let other = |other: usize| edf::floating_nonpreemptive::InterferingTask {
                    rbf: &rbfs[other],
                    deadline: deadlines[other],
                    max_np_segment: service(tasks[other].section_ns),
                };
                edf::floating_nonpreemptive::dedicated_uniproc_rta(
                    &own,
                    &others().map(other).collect::<Vec<_>>(),
                    limit,
                )
            }
            (Policy::Edf, Preemption::None) => {
                let task = |at: usize| edf::fully_nonpreemptive::Task {
                    wcet: costs[at],
                    arrivals: &arrivals[at],
                    deadline: deadlines[at],
                };
                edf::fully_nonpreemptive::dedicated_uniproc_rta(
                    &task(at),
                    &others().map(task).collect::<Vec<_>>(),
                    limit,
                )
            }
        }
        .ok()
        .map(u64::from)
    };
    (0..tasks.len()).map(one).collect()
}

/// How often sets of one kind are admitted and refused here.
#[derive(Default)]
struct Count {
    admitted: u64,
    refused: u64,
}

/// Where both differ, each with the set.
#[derive(Default)]
struct Judged {
    counts: BTreeMap<String, Count>,
    /// Admitted here only.
    promised_wrongly: Vec<String>,
    /// Admitted there only.
    refused_wrongly: Vec<String>,
    /// Other response times, where priorities are fixed: both are exact.
    responses: Vec<String>,
}

impl Judged {
    fn of(&mut self, number: u64, tasks: &[RtTask], policy: Policy, preemption: Preemption) {
        let (ours, own) = match policy {
            Policy::Edf => (Edf::new(tasks, preemption).and_then(|edf| edf.check()).is_ok(), None),
            Policy::Rm => {
                let responses = rm::responses(tasks, preemption).ok();
                (responses.is_some(), responses)
            }
        };
        let theirs = theirs(tasks, policy, preemption);
        let promised = theirs.iter().zip(tasks).all(|(r, task)| r.is_some_and(|r| r <= task.deadline_ns));
        let told = || format!("set {number}, {policy:?} {preemption:?}: {tasks:?}: {own:?} here, {theirs:?} there");
        match (ours, promised) {
            (true, false) => self.promised_wrongly.push(told()),
            (false, true) => self.refused_wrongly.push(told()),
            _ => {}
        }
        if own.as_ref().is_some_and(|own| !own.iter().copied().map(Some).eq(theirs.iter().copied())) {
            self.responses.push(told());
        }
        let count = self.counts.entry(format!("{policy:?} {preemption:?}")).or_default();
        let counted = if ours { &mut count.admitted } else { &mut count.refused };
        *counted += 1;
    }
}

/// All sets, once for all tests.
fn judged() -> &'static Judged {
    static JUDGED: OnceLock<Judged> = OnceLock::new();
    JUDGED.get_or_init(|| {
        let (mut chance, mut judged) = (Chance(0x5eed_0fac), Judged::default());
        let kinds = [Preemption::Full, Preemption::Limited, Preemption::None];
        let kinds: Vec<_> =
            [Policy::Edf, Policy::Rm].into_iter().flat_map(|policy| kinds.map(|kind| (policy, kind))).collect();
        for (number, (policy, preemption)) in (0..SETS).zip(kinds.iter().copied().cycle()) {
            let mut tasks = chance.set();
            if policy == Policy::Rm {
                tasks = rm::order(&tasks).into_iter().map(|place| tasks[place]).collect();
            }
            judged.of(number, &tasks, policy, preemption);
        }
        judged
    })
}

fn none(of: &[String]) {
    assert!(of.is_empty(), "{} of {SETS} sets: {:#?}", of.len(), &of[..of.len().min(3)]);
}

#[test]
fn nothing_is_promised_that_the_oracle_does_not_promise() {
    none(&judged().promised_wrongly);
    none(&judged().responses);
}

#[test]
fn nothing_is_refused_that_the_oracle_promises() {
    none(&judged().refused_wrongly);
    // Of each kind there is much to promise and much to refuse.
    for (kind, count) in &judged().counts {
        assert!(count.admitted > 3_000 && count.refused > 2_500, "{kind}: {} {}", count.admitted, count.refused);
    }
    assert_eq!(judged().counts.len(), 6);
}
