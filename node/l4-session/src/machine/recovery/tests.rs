use althing_execution::journal::Effect;
use althing_execution::tools::CallKind;
use althing_protocol::{AgentId, PublisherId};
use serde_json::Value;

use super::*;
use crate::machine::session::{Begin, Call, Next, SessionId, TurnId};

/// A turn that began at second 1, whose call was about to be made then, if there is one.
fn rows(effect: Option<Effect>) -> Result<TurnRows, Damage> {
    let agent = AgentId::new(PublisherId::from_digest([1; 32]), "clerk").expect("a name");
    let begin = Begin {
        task: "t".to_owned(),
        message: "m".to_owned(),
        agent: agent.to_string(),
        version: "1.0.0".to_owned(),
        binding: "hash".to_owned(),
        epoch: 0,
        principals: Vec::new(),
        extensions: Vec::new(),
        label: None,
        session: None,
        delegation: None,
        metadata: None,
        modes: None,
        history_length: None,
        within_ms: None,
        began_ms: 1_000,
        seed: [0; 32],
        caller: None,
        attempt: None,
    };
    let turn = TurnId::of(SessionId::of(&agent, "caller", "c"), "t", "m");
    let mut made = TurnRows::new(turn, begin.clone());
    if let Some(effect) = effect
        && let Ok(Next::Intend(seq)) = made.reach(Call::of(CallKind::Tool, "mail/send", &Value::Null, effect))
    {
        made.intend(seq, None, 1_000).expect("there is room");
    }
    let disk: Vec<(u32, Vec<u8>)> = (0..).zip(made.pending().map(|(_, row)| row.to_vec())).collect();
    TurnRows::read(turn, begin, &disk)
}

fn present(now_ms: u64) -> Present<'static> {
    Present { version: "1.0.0", binding: "hash", is_resumable: true, now_ms }
}

fn why(recovery: Recovery) -> String {
    match recovery {
        Recovery::Fail(failure) => failure.to_string(),
        other => panic!("it goes on: {other:?}"),
    }
}

#[test]
fn a_turn_goes_on_unless_a_call_is_in_doubt() {
    for effect in [None, Some(Effect::None), Some(Effect::Repeatable), Some(Effect::Keyed)] {
        assert_eq!(decide(&rows(effect), present(2_000)), Recovery::Resume, "{effect:?}");
    }
    let Recovery::Wait(doubts) = decide(&rows(Some(Effect::Final)), present(2_000)) else { panic!("it waits") };
    assert_eq!(doubts.iter().map(|doubt| doubt.seq).collect::<Vec<_>>(), [0]);
    let said = in_doubt_message(&doubts);
    assert!(said.starts_with("IN_DOUBT: ") && said.contains("mail/send") && said.contains("step 0"), "{said}");
    assert_eq!(patience_ms(&doubts, 2_000), DOUBT_MS_MAX - 1_000);
}

#[test]
fn a_doubt_ends_after_a_day() {
    let rows = rows(Some(Effect::Final));
    assert!(matches!(decide(&rows, present(DOUBT_MS_MAX + 999)), Recovery::Wait(_)));
    let why = why(decide(&rows, present(DOUBT_MS_MAX + 1_000)));
    assert!(why.starts_with("IN_DOUBT: ") && why.matches("mail/send").count() == 1, "{why}");
    assert_eq!(patience_ms(&rows.expect("rows").doubts(), u64::MAX), 0);
}

#[test]
fn an_agent_that_is_another_one_does_not_go_on_and_what_is_in_doubt_is_told_all_the_same() {
    let changed = [Present { version: "1.0.1", ..present(2_000) }, Present { binding: "other", ..present(2_000) }];
    for present in changed {
        let failed = why(decide(&rows(None), present));
        assert!(failed.starts_with("VERSION_CHANGED: "), "{failed}");
        let failed = why(decide(&rows(Some(Effect::Final)), present));
        assert!(failed.starts_with("VERSION_CHANGED: ") && failed.contains("mail/send"), "{failed}");
    }
    let failed = why(decide(&rows(None), Present { is_resumable: false, ..present(2_000) }));
    assert!(failed.starts_with("NOT_RESUMABLE: "), "{failed}");
}

#[test]
fn a_journal_that_is_damaged_fails_its_turn() {
    let damaged = Err(Damage { step: 3, what: "row 7: it is cut, or it is no row".to_owned() });
    let failed = why(decide(&damaged, present(2_000)));
    assert!(failed.starts_with("DAMAGED: ") && failed.contains("step 3"), "{failed}");
}

#[test]
fn whatever_ends_a_turn_names_each_call_that_it_did_not_hear_of_once() {
    let doubt = |seq: u32, name: &str| Doubt { seq, name: name.to_owned(), since_ms: 1 };
    assert_eq!(with_doubts(None, &[]), None);
    assert_eq!(with_doubts(Some("late".to_owned()), &[]).as_deref(), Some("late"));
    let alone = with_doubts(None, &[doubt(3, "bank/pay")]);
    let sentence = "Nobody knows whether this call took place, so look before the message is sent again: step";
    assert_eq!(alone, Some(format!("{sentence} 3 called \"bank/pay\"")));
    let told = JournalError::InDoubt { seq: 3, name: "bank/pay".to_owned() }.to_string();
    let both = with_doubts(Some(told), &[doubt(3, "bank/pay"), doubt(5, "mail/send")]).expect("a text");
    assert!(both.matches("bank/pay").count() == 1 && both.ends_with(": step 5 called \"mail/send\""), "{both}");
    let failure = Failure { reason: Reason::NotResumable, doubts: vec![doubt(3, "bank/pay")] }.to_string();
    let again = with_doubts(Some(failure.clone()), &[doubt(3, "bank/pay"), doubt(13, "bank/pay")]).expect("a text");
    let more = again.strip_prefix(&failure).expect("it is named already");
    assert_eq!(more, format!(". {sentence} 13 called \"bank/pay\""));
    let many: Vec<Doubt> = (0..20).map(|seq| doubt(seq, &"x".repeat(1_000))).collect();
    let cut = with_doubts(Some("ü".repeat(REASON_BYTES_MAX)), &many).expect("a text");
    assert!(cut.len() <= REASON_BYTES_MAX && cut.contains(": step 7 called"), "{cut}");
    assert!(cut.ends_with("So it is with 12 more"), "{cut}");
}

#[test]
fn a_turn_whose_caller_is_refused_fails_for_that_unless_it_fails_anyway_and_calls_in_doubt_are_named() {
    let doubts = || vec![Doubt { seq: 3, name: "bank/pay".to_owned(), since_ms: 1 }];
    let refused = || Reason::Caller("no".to_owned());
    assert_eq!(Recovery::Resume.failure(None), None);
    assert_eq!(Recovery::Wait(doubts()).failure(None), None);
    let alone = Failure { reason: refused(), doubts: Vec::new() };
    assert_eq!(Recovery::Resume.failure(Some(refused())), Some(alone));
    let named = Failure { reason: refused(), doubts: doubts() };
    assert_eq!(Recovery::Wait(doubts()).failure(Some(refused())), Some(named));
    let own = Failure { reason: Reason::NotResumable, doubts: doubts() };
    assert_eq!(Recovery::Fail(own.clone()).failure(Some(refused())), Some(own));
}
