//! Percentiles, and how figures are printed beside their goals.

use std::time::Duration;

/// The share `at` (0 to 1) of sorted times lies below the result.
pub fn percentile(times: &mut [Duration], at: f64) -> Duration {
    times.sort_unstable();
    let last = times.len().saturating_sub(1);
    // A position in a list that fits into memory.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "see above"
    )]
    let index = (last as f64 * at).round() as usize;
    times[index]
}

/// The middle of some ratios.
pub fn median(mut ratios: Vec<f64>) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// What became of the goals of a benchmark.
#[derive(Debug, Default)]
pub struct Goals {
    missed: usize,
}

impl Goals {
    /// Judges a figure that must not be higher; what is printed beside it.
    pub fn at_most(&mut self, figure: f64, most: f64) -> String {
        self.judged(figure <= most, &format!("at most {most}"))
    }

    /// Judges a figure that must not be lower.
    pub fn at_least(&mut self, figure: f64, least: f64) -> String {
        self.judged(figure >= least, &format!("at least {least}"))
    }

    fn judged(&mut self, is_met: bool, goal: &str) -> String {
        self.missed += usize::from(!is_met);
        format!("(goal: {goal}{})", if is_met { "" } else { ", missed" })
    }

    /// Whether all figures met theirs.
    pub fn are_met(&self) -> bool {
        self.missed == 0
    }
}

/// Microseconds.
pub fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// What it ran on.
pub fn machine() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("\t: unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {cores} cores,{}", model.trim_start_matches(['\t', ':']));
}
