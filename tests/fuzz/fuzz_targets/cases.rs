//! Any bytes as a file of cases: what is read is written back as it was, and is read again as the same; what is wrong is told with its
//! line, and what to do.
#![no_main]

use althing_verification::machine::cases::Cases;
use althing_verification::machine::report::{Observation, Scorer, judge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let cases = match Cases::read(data) {
        Ok(cases) => cases,
        Err(error) => {
            assert!(!error.problems.is_empty());
            return assert!(error.problems.iter().all(|one| !one.what.is_empty() && !one.remedy.is_empty()));
        }
    };
    let text = cases.text();
    assert_eq!(text.trim_end().as_bytes(), data.trim_ascii_end(), "lines are written back as they were");
    assert_eq!(Cases::read(text.as_bytes()).as_ref(), Ok(&cases));
    // Whatever a case wants, an answer is judged before the time limit of the run (`-timeout`).
    let nested = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let seen = Observation { answer: Some(Ok(nested)), ..Observation::default() };
    for case in &cases {
        judge(case, Scorer::default(), &seen);
    }
});
