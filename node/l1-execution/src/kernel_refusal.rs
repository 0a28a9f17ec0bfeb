//! Why hard real-time is refused, in words: how it is said decides nothing, so it is no part of the scheduler.

use std::fmt;

use crate::admission::{Hint, Reason, RtTask, share_ppm};
use crate::kernel::Refused;
use crate::realtime::show_ns;

/// The least budget that a contract may name, nanoseconds.
const BUDGET_NS_MIN: u64 = 10_000;

fn describe(task: &RtTask) -> String {
    format!("{} every {}, done within {}", show_ns(task.wcet_ns), show_ns(task.period_ns), show_ns(task.deadline_ns))
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |ppm: u64| format!("{:.3}", ppm as f64 / 1e6);
        writeln!(f, "its deadlines cannot be promised here")?;
        writeln!(f, "  asked for  {}", describe(&self.asked))?;
        let held: u64 = self.held.iter().map(|(_, task)| share_ppm(task)).sum();
        write!(f, "  core {}     {} of {} is promised", self.rejected.core, share(held), share(self.cap_ppm))?;
        for (name, task) in &self.held {
            // The id of a reservation is private to its holder.
            let name = if name.contains(' ') { "a reservation" } else { name };
            write!(f, "\n             {name}: {}", describe(task))?;
        }
        let shown =
            |name: &'static str, held: &'_ str| if held.contains(' ') { name.to_owned() } else { held.to_owned() };
        let whose =
            |place: usize| self.held.get(place).map_or("it".to_owned(), |(name, _)| shown("a reservation", name));
        let proof = match self.rejected.reason {
            Reason::Utilisation { wanted_ppm, cap_ppm } => {
                format!("together they want {} of the core, and {} may be given", share(wanted_ppm), share(cap_ppm))
            }
            Reason::Demand { at_ns, excess_ns } => format!(
                "in the {} after all are released at once, {} must be done: {} too much",
                show_ns(at_ns),
                show_ns(at_ns + excess_ns),
                show_ns(excess_ns)
            ),
            Reason::Response { task, deadline_ns, excess_ns } => format!(
                "{} may take {}, and its deadline is {}",
                whose(task),
                show_ns(deadline_ns + excess_ns),
                show_ns(deadline_ns)
            ),
            Reason::Jitter { task, bound_ns, wanted_ns } => {
                format!(
                    "the response of {} may vary by {}, and it bears {}",
                    whose(task),
                    show_ns(bound_ns),
                    show_ns(wanted_ns)
                )
            }
            Reason::TooComplex => "it would take too long, and nothing is admitted without a proof".to_owned(),
            Reason::NoCore => "this node keeps no core for hard real-time".to_owned(),
        };
        write!(f, "\n  proof      {proof}")?;
        let hint = match self.rejected.hint {
            Some(Hint::MaxWcetNs(most)) if most >= self.charged_ns + BUDGET_NS_MIN => {
                format!("a budget of at most {} µs is admitted", (most - self.charged_ns) / 1_000)
            }
            Some(Hint::MinPeriodNs(least)) => {
                let too = if self.asked.deadline_ns == self.asked.period_ns { ", as deadline too," } else { "" };
                format!("a period of at least {} µs{too} is admitted", least.div_ceil(1_000))
            }
            Some(Hint::MaxWcetNs(_)) | None => {
                "no budget and no period of it would be admitted; remove another agent".to_owned()
            }
        };
        write!(f, "\n  what now   {hint}")
    }
}
