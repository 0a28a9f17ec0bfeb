//! What was measured, as figures.

use althing_client::table;
use althing_execution::hrt::{JobRecord, Outcome};
use althing_execution::realtime::Lateness;
use serde_json::{Value, json};

/// Misses that a report lists.
const LISTED_MAX: usize = 100;
/// Slow jobs that a report lists.
const SLOWEST_MAX: usize = 10;

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Quantiles of times.
pub fn times(ns: Vec<u64>) -> Value {
    let all = Lateness::of(ns);
    json!({
        "n": all.len(),
        "p50": us(all.quantile(500)),
        "p99": us(all.quantile(990)),
        "p999": us(all.quantile(999)),
        "max": us(all.quantile(1_000)),
    })
}

/// One row: jobs of one kind.
pub struct Row {
    pub name: &'static str,
    pub jobs: Vec<JobRecord>,
    pub deadline_ns: u64,
}

impl Row {
    /// Jobs that missed their deadline, and those of them that no stall explains.
    pub fn misses(&self) -> (usize, usize) {
        let missed = self.jobs.iter().filter(|job| job.missed);
        (missed.clone().count(), missed.filter(|job| !job.explained).count())
    }

    /// 99 of 100 releases were noticed within this, µs.
    pub fn release_p99(&self) -> f64 {
        us(Lateness::of(self.releases()).quantile(990))
    }

    fn releases(&self) -> Vec<u64> {
        self.jobs.iter().map(|job| job.noticed_ns - job.release_ns).collect()
    }

    /// The longest response of a completed job, less the machine's own stalls, µs.
    pub fn response_max(&self) -> f64 {
        let done = self.jobs.iter().filter(|job| job.outcome == Outcome::Done);
        done.map(|job| us((job.end_ns - job.release_ns).saturating_sub(job.stalled_ns + job.stolen_ns)))
            .fold(0.0, f64::max)
    }

    /// Each job that missed its deadline, a hundred at most.
    pub fn misses_listed(&self) -> Vec<Value> {
        self.jobs.iter().filter(|job| job.missed).take(LISTED_MAX).map(whole).collect()
    }

    /// The jobs that took longest, stalls left out.
    pub fn slowest(&self) -> Vec<Value> {
        let mut done: Vec<&JobRecord> = self.jobs.iter().filter(|job| job.outcome == Outcome::Done).collect();
        done.sort_by_key(|job| {
            std::cmp::Reverse((job.end_ns - job.release_ns).saturating_sub(job.stalled_ns + job.stolen_ns))
        });
        done.into_iter().take(SLOWEST_MAX).map(whole).collect()
    }

    /// For the report.
    pub fn report(&self) -> Value {
        let (missed, unexplained) = self.misses();
        let responses = self.jobs.iter().filter(|job| job.outcome == Outcome::Done);
        json!({
            "name": self.name,
            "jobs": self.jobs.len(),
            "deadlineUs": us(self.deadline_ns),
            "releaseUs": times(self.releases()),
            "responseUs": times(responses.map(|job| job.end_ns - job.release_ns).collect()),
            "missed": missed,
            "unexplained": unexplained,
            "histogram": histogram(&self.releases()),
        })
    }
}

fn whole(job: &JobRecord) -> Value {
    json!({
        "job": job.number,
        "outcome": format!("{:?}", job.outcome).to_lowercase(),
        "releaseUs": us(job.noticed_ns.saturating_sub(job.release_ns)),
        "responseUs": us(job.end_ns.saturating_sub(job.release_ns)),
        "usedUs": us(job.used_ns),
        "stalledUs": us(job.stalled_ns),
        "stolenUs": us(job.stolen_ns),
        "faults": job.faults,
        "explained": job.explained,
    })
}

/// How many releases were noticed within 2^k µs, k = 0 … 20, and not within half of that.
fn histogram(ns: &[u64]) -> Vec<u64> {
    let mut counts = vec![0; 21];
    for late in ns {
        let place = (late / 1_000).checked_ilog2().map_or(0, |power| power as usize + 1);
        counts[place.min(20)] += 1;
    }
    counts
}

/// The report's rows for people.
pub fn table_of(report: &Value) -> String {
    let rows = report["rows"].as_array().cloned().unwrap_or_default();
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let time = |of: &str, which: &str| match row[of][which].as_f64() {
                Some(us) => format!("{us:.0}"),
                None => String::new(),
            };
            let text = |of: &str| match &row[of] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            vec![
                text("name"),
                text("jobs"),
                time("releaseUs", "p50"),
                time("releaseUs", "p99"),
                time("releaseUs", "max"),
                time("responseUs", "p99"),
                time("responseUs", "max"),
                text("missed"),
                text("unexplained"),
            ]
        })
        .collect();
    let head =
        ["jobs of 10 ms", "jobs", "release p50 us", "p99", "max", "response p99 us", "max", "missed", "unexplained"];
    table(&head, &cells)
}
