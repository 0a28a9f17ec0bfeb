//! Percentiles, and how figures are printed.

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
