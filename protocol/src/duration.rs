//! Times between two moments, in words.

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// A duration for people, in the largest unit of which it is about one: `1 day` for 86,399,994 ms.
pub fn words(ms: u64) -> String {
    // From eleven twelfths of it on, it is about one.
    let units = [(DAY_MS, "day"), (HOUR_MS, "hour"), (MINUTE_MS, "minute"), (1_000, "second")];
    let fits = |(unit, _): &&(u64, &str)| ms >= unit / 12 * 11;
    let Some((unit, name)) = units.iter().find(fits) else { return format!("{ms} ms") };
    let count = ms.saturating_add(unit / 2) / unit;
    if count == 1 { format!("1 {name}") } else { format!("{count} {name}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_said_in_the_unit_of_which_it_is_about_one() {
        for (ms, said) in [
            (0, "0 ms"),
            (7, "7 ms"),
            (999, "1 second"),
            (29_900, "30 seconds"),
            (58_000, "1 minute"),
            (299_994, "5 minutes"),
            (3_599_000, "1 hour"),
            (86_399_994, "1 day"),
            (3 * DAY_MS, "3 days"),
        ] {
            assert_eq!(words(ms), said);
        }
        assert!(words(u64::MAX).ends_with(" days"));
    }
}
