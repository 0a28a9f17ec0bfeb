//! Any bytes as the row of an agent's versions: what is read is written as the same bytes, has one stable version that may answer, and
//! takes calls with what comes of them.
#![no_main]

use althing_verification::machine::rollout::{Call, Outcome, Plan, decode_row, encode_row};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(mut versions) = decode_row(data) else { return };
    assert_eq!(encode_row(&versions), data, "accepted bytes encode to themselves");
    assert!(versions.may_answer(versions.stable()));
    for number in 0..8_u64 {
        let task = number.to_string();
        let call = Call {
            task: &task,
            conversation: None,
            caller: Some("caller"),
            origin: Some("owner"),
            channel: None,
            group: None,
            now_ms: 1_700_000_000_000 + number,
        };
        let route = versions.route(&call);
        assert!(versions.may_answer(route.version));
        if let Some(ticket) = route.ticket {
            let outcome = Outcome { is_error: number % 2 == 0, ..Outcome::default() };
            versions.outcome(ticket, &outcome, call.now_ms);
        }
    }
    // Whatever was under way, what went back is not tried again.
    let gone = versions.reversals().keys().copied().next();
    if let Some(gone) = gone {
        assert!(versions.begin(Plan::of(gone), u64::MAX / 2).is_err());
    }
    if let Some(rollout) = versions.rollout() {
        assert!(rollout.behaves_alike().is_none_or(|alike| (0.0..=1.0 + 1e-9).contains(&alike)));
    }
});
