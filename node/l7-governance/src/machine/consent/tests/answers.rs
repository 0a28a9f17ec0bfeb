use proptest::prelude::*;

use super::*;

const APPROVED: Result<QuestionState, ConsentError> = Ok(QuestionState::Approved);
const OPEN: Result<QuestionState, ConsentError> = Ok(QuestionState::Open);

fn not_asked(result: Result<QuestionState, ConsentError>) -> bool {
    matches!(result, Err(ConsentError::NotAsked { .. }))
}

#[test]
fn a_yes_counts_once_and_for_what_was_asked() {
    let mut asks = asked(consent_of("ada"));
    assert_eq!(asks.take(&ID, &call(), &people(), NOW_MS + 1), Err(ConsentError::Waits));
    let yes = (AnswerWord::Approve, END_MS);
    assert_eq!(asks.answer(&ID, yes, Speaker::Local, &people(), NOW_MS + 1), APPROVED, "the owner needs no key");
    for (what, other) in other_calls() {
        assert_eq!(asks.take(&ID, &other, &people(), NOW_MS + 2), Err(ConsentError::Differs(what)));
    }
    assert_eq!(asks.take(&ID, &call(), &people(), NOW_MS + 2), Ok(()));
    assert_eq!(asks.take(&ID, &call(), &people(), NOW_MS + 2), Err(ConsentError::Used));
    assert_eq!(asks.take(&[2; 16], &call(), &people(), NOW_MS + 2), Err(ConsentError::Unknown));
}

#[test]
fn only_who_is_asked_consents() {
    let mut asks = asked(consent_of("grace"));
    assert!(not_asked(asks.answer(&ID, (AnswerWord::Approve, END_MS), Speaker::Local, &people(), NOW_MS)));
    assert!(not_asked(answer(&mut asks, EVE, AnswerWord::Deny)), "nobody else denies either");
    assert!(matches!(answer(&mut asks, 99, AnswerWord::Approve), Err(ConsentError::Stranger(_))));
    assert_eq!(answer(&mut asks, GRACE, AnswerWord::Approve), APPROVED);
    let question = asks.get(&ID).expect("it was asked");
    assert!(question.answers()[0].signature.is_some() && question.answers().len() == 1);
}

#[test]
fn the_owner_answers_what_was_asked_by_a_name_that_the_file_of_people_has_no_more() {
    let key = STANDARD.encode(wire_key(ADA));
    let treasurer = |name: &str| format!("  {name}: {{ keys: [\"ssh-ed25519 {key}\"], roles: [treasurer] }}\n");
    let nobody_else = People::default();
    let mut renamed = Asks::default();
    renamed.open(ask(), consent_of("owner"), true, &nobody_else).expect("it can be asked");
    let grace = People::read(&format!("owner: grace\npeople:\n{}", treasurer("grace"))).expect("a good file");
    let question = renamed.get(&ID).expect("it was asked");
    assert!(question.is_for("grace", &grace) && !question.is_for("owner", &grace));
    assert_eq!(renamed.answer(&ID, (AnswerWord::Approve, END_MS), Speaker::Local, &grace, NOW_MS + 1), APPROVED);
    assert_eq!(renamed.take(&ID, &call(), &grace, NOW_MS + 2), Ok(()));

    // Who signs off is somebody else than the owner, by whichever name.
    let before = People::read(&format!("people:\n{}", treasurer("ada"))).expect("a good file");
    let need = Need::SignOff { role: "treasurer".to_owned(), count: 1, but_for: "owner".to_owned() };
    let mut signed_off = Asks::default();
    signed_off.open(ask(), need, true, &before).expect("it can be asked");
    assert!(not_asked(signed_off.answer(&ID, (AnswerWord::Approve, END_MS), Speaker::Local, &grace, NOW_MS + 1)));
}

#[test]
fn a_sign_off_takes_as_many_others_as_it_says() {
    let mut asks = asked(sign_off_of(2));
    let question = asks.get(&ID).expect("it was asked");
    let is_for = ["ada", "grace", "edsger", "eve"].map(|name| question.is_for(name, &people()));
    assert_eq!(is_for, [false, true, true, false], "nobody else is shown it");
    assert!(not_asked(answer(&mut asks, ADA, AnswerWord::Approve)), "the agent works for her");
    assert!(not_asked(answer(&mut asks, EVE, AnswerWord::Approve)), "she has no role");
    assert_eq!(answer(&mut asks, GRACE, AnswerWord::Approve), OPEN);
    assert!(not_asked(answer(&mut asks, GRACE, AnswerWord::Approve)), "one person counts once");
    assert_eq!(answer(&mut asks, EDSGER, AnswerWord::Approve), APPROVED);
    let demoted = people_where(|name| if name == "grace" { "" } else { "treasurer" });
    let lapsed = asks.take(&ID, &call(), &demoted, NOW_MS + 2);
    assert!(matches!(lapsed, Err(ConsentError::Lapsed(_))), "{lapsed:?}");
    assert_eq!(asks.take(&ID, &call(), &people(), NOW_MS + 2), Ok(()), "she has the role again");

    let mut one = asked(sign_off_of(2));
    let denied = Ok(QuestionState::Denied(DenialReason::Person));
    assert_eq!(answer(&mut one, GRACE, AnswerWord::Deny), denied, "one no suffices");
    assert!(matches!(answer(&mut one, EDSGER, AnswerWord::Approve), Err(ConsentError::Over(_))));
    assert!(matches!(one.take(&ID, &call(), &people(), NOW_MS), Err(ConsentError::Over(_))));
}

#[test]
fn what_nobody_can_answer_is_not_asked() {
    let mut asks = Asks::default();
    for need in [consent_of("mallory"), sign_off_of(3)] {
        let refused = asks.open(ask(), need, true, &people());
        assert!(matches!(refused, Err(ConsentError::Nobody(_))), "{refused:?}");
    }
    let endless = Ask { not_after_ms: u64::MAX, ..ask() };
    for (ask, need) in [(endless, consent_of("ada")), (ask(), sign_off_of(0))] {
        assert!(matches!(asks.open(ask, need, true, &people()), Err(ConsentError::Malformed(_))));
    }
    assert!(asks.pending().is_empty());
}

#[test]
fn a_sign_off_is_asked_for_where_enough_others_have_a_key_to_give_it_with() {
    let text = |key: &str| {
        let grace = STANDARD.encode(wire_key(GRACE));
        format!(
            "owner: ada\npeople:\n  ada: {{ roles: [treasurer] }}\n  grace: {{ keys: [\"ssh-ed25519 {grace}\"], roles: \
             [treasurer] }}\n  edsger: {{ keys: [{key}], roles: [treasurer] }}\n"
        )
    };
    let (mut asks, edsger) = (Asks::default(), format!("\"ssh-ed25519 {}\"", STANDARD.encode(wire_key(EDSGER))));
    let without = People::read(&text("")).expect("a good file");
    let refused = asks.open(ask(), sign_off_of(2), true, &without).expect_err("two must, and one can");
    let said = refused.to_string();
    assert!(matches!(refused, ConsentError::Nobody(_)) && said.contains("1 of the file of people can"), "{said}");
    assert!(said.ends_with("no key is there of \"edsger\"") && !said.contains("grace"), "{said}");
    assert!(asks.pending().is_empty(), "it does not wait for what nobody can give");
    let with = People::read(&text(&edsger)).expect("a good file");
    assert_eq!(asks.open(ask(), sign_off_of(2), true, &with), Ok(ID));
    // The owner needs none.
    let by_owner = Need::SignOff { role: "treasurer".to_owned(), count: 1, but_for: "grace".to_owned() };
    let ask = Ask { id: [7; 16], ..ask() };
    assert_eq!(asks.open(ask, by_owner, true, &without), Ok([7; 16]));
}

#[test]
fn silence_changes_and_a_restart_deny() {
    let reasons = |deny: &dyn Fn(&mut Asks) -> Vec<AskId>| {
        let mut asks = asked(consent_of("ada"));
        assert_eq!(deny(&mut asks), [ID]);
        assert!(deny(&mut asks).is_empty(), "once");
        assert!(matches!(asks.take(&ID, &call(), &people(), NOW_MS), Err(ConsentError::Over(_))));
        asks.get(&ID).expect("it is known for a while").state()
    };
    assert_eq!(reasons(&|asks: &mut Asks| asks.expire(END_MS + 1)), QuestionState::Denied(DenialReason::Silence));
    let (changed, agent) = (QuestionState::Denied(DenialReason::Changed), agent());
    let change = |now| ToolChange { agent: &agent, action: "bank/pay", now };
    for now in [Some(([9; 32], [3; 32])), Some(([2; 32], [9; 32])), None] {
        assert_eq!(reasons(&|asks: &mut Asks| asks.redefine(&change(now))), changed);
    }
    let mut asks = asked(consent_of("ada"));
    let same = change(Some(([2; 32], [3; 32])));
    let elsewhere = AgentId::new(PublisherId::from_digest([6; 32]), "echo").expect("a good name");
    assert!(asks.expire(END_MS).is_empty() && asks.redefine(&same).is_empty());
    for other in [ToolChange { action: "bank/lend", ..change(None) }, ToolChange { agent: &elsewhere, ..change(None) }]
    {
        assert!(!asks.has_pending_of(&other) && asks.redefine(&other).is_empty(), "{other:?}");
    }
    assert!(asks.has_pending_of(&change(None)));
    assert!(asks.restart().is_empty(), "its agent goes on where it was");
    let mut program = Asks::default();
    program.open(ask(), consent_of("ada"), false, &people()).expect("it can be asked");
    assert_eq!(program.restart(), [ID]);
    assert_eq!(program.get(&ID).expect("known").state(), QuestionState::Denied(DenialReason::NotResumable));
    assert!(program.forget(END_MS).is_empty());
    assert_eq!(program.forget(END_MS + 25 * HOUR_MS), [ID]);
    assert_eq!(program.row(&ID), None);
}

#[test]
fn a_yes_ends_with_its_question_and_with_what_was_signed() {
    let mut asks = asked(consent_of("grace"));
    let soon = NOW_MS + 10;
    let text = asks.get(&ID).expect("asked").text(AnswerWord::Approve, soon);
    let signature = signed(GRACE, &text);
    let speaker = Speaker::Signature(&signature);
    for (until_ms, at_ms) in [(soon, soon + 1), (END_MS + 1, NOW_MS)] {
        let refused = asks.answer(&ID, (AnswerWord::Approve, until_ms), speaker, &people(), at_ms);
        assert_eq!(refused, Err(ConsentError::Ended));
    }
    assert_eq!(asks.answer(&ID, (AnswerWord::Approve, soon), speaker, &people(), NOW_MS), APPROVED);
    assert!(matches!(asks.take(&ID, &call(), &people(), soon + 1), Err(ConsentError::Lapsed(_))));
    assert!(matches!(asks.take(&ID, &call(), &people(), END_MS + 1), Err(ConsentError::Over(_))));
    assert_eq!(asks.take(&ID, &call(), &people(), soon), Ok(()));
}

#[test]
fn what_is_asked_again_while_it_waits_is_one_question() {
    let mut asks = asked(consent_of("ada"));
    let again = Ask { id: [7; 16], asked_at_ms: NOW_MS + 5, not_after_ms: END_MS + 5, ..ask() };
    assert_eq!(asks.open(again.clone(), consent_of("ada"), true, &people()), Ok(ID));
    assert_eq!(asks.open(again, consent_of("grace"), true, &people()), Ok([7; 16]), "of another person");
    assert_eq!(asks.pending().len(), 2);
    let reused = Ask { terms: CallTerms { policy: None, ..call() }, ..ask() };
    assert!(matches!(asks.open(reused, consent_of("ada"), true, &people()), Err(ConsentError::Malformed(_))));
}

#[test]
fn rows_are_the_questions_again_and_nothing_else_is() {
    for need in [consent_of("grace"), sign_off_of(2)] {
        let mut asks = asked(need);
        answer(&mut asks, GRACE, AnswerWord::Approve).expect("it counts");
        let row = asks.row(&ID).expect("it was asked");
        let read = Asks::read([(ID, &row[..])]).expect("it is what was written");
        assert_eq!(read.get(&ID), asks.get(&ID));
        assert_eq!(Asks::read([([2; 16], &row[..])]).expect_err("of another question"), ([2; 16], RowError::Foreign));
        for length in 0..row.len() {
            assert_eq!(decode_row(&row[..length]), Err(RowError::Form), "{length} bytes");
        }
    }
    assert_eq!(decode_row(&vec![0; QUESTION_ROW_BYTES_MAX + 1]), Err(RowError::Form));
}

/// 10^4 answers, each with a change of what was signed, of the signature, or of what it is used for.
#[test]
fn ten_thousand_changed_consents_are_refused() {
    let asks = asked(consent_of("grace"));
    let text = answer_text_of(&asks, AnswerWord::Approve);
    let good = sign_off::unarmor(&signed(GRACE, &text)).expect("a signature");
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        usize::try_from(dice % below as u64).expect("it is below")
    };
    for round in 0..10_000 {
        let mut asks = asks.clone();
        let mut blob = good.clone();
        let changed_text = match round % 3 {
            0 => {
                let at = next(blob.len());
                blob[at] ^= 1 << next(8);
                continue_with(&mut asks, &blob, round);
                continue;
            }
            1 => {
                let at = next(text.len());
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << next(7);
                bytes
            }
            _ => {
                let at = next(text.len());
                [&text.as_bytes()[..at], &text.as_bytes()[at + 1..]].concat()
            }
        };
        let signature = signed(GRACE, &String::from_utf8_lossy(&changed_text));
        let blob = sign_off::unarmor(&signature).expect("a signature");
        continue_with(&mut asks, &blob, round);
    }
}

/// The answer does not count, and nothing may be done with it.
fn continue_with(asks: &mut Asks, blob: &[u8], round: usize) {
    let armored = sign_off::armor(blob);
    let yes = (AnswerWord::Approve, END_MS);
    let answered = asks.answer(&ID, yes, Speaker::Signature(&armored), &people_once(), NOW_MS + 1);
    assert!(answered.is_err(), "round {round}: {answered:?}");
    assert_eq!(asks.take(&ID, &call(), &people_once(), NOW_MS + 1), Err(ConsentError::Waits), "round {round}");
}

/// The same people, read once.
fn people_once() -> People {
    static PEOPLE: std::sync::LazyLock<People> = std::sync::LazyLock::new(people);
    PEOPLE.clone()
}

/// What happens to a question.
#[derive(Debug, Clone)]
enum Event {
    Answer { seed: u8, approve: bool },
    Take { other: Option<usize> },
    Later { ms: u64 },
    Restart,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let seeds = prop_oneof![Just(ADA), Just(GRACE), Just(EDSGER), Just(EVE), Just(99)];
    let event = prop_oneof![
        4 => (seeds, prop::bool::weighted(0.8)).prop_map(|(seed, approve)| Event::Answer { seed, approve }),
        4 => prop::option::weighted(0.5, 0..8usize).prop_map(|other| Event::Take { other }),
        1 => (0..HOUR_MS).prop_map(|ms| Event::Later { ms }),
        1 => Just(Event::Restart),
    ];
    prop::collection::vec(event, 0..24)
}

proptest! {
    /// Whatever people answer, and wherever the node ends: at most one call is made, and only the one that was asked about, and
    /// only after enough people agreed.
    #[test]
    fn a_consent_is_never_used_twice_and_never_for_another_call(events in events(), count in 1..3u8) {
        let mut asks = asked(sign_off_of(count));
        let (mut now_ms, mut made, mut agreed) = (NOW_MS, 0, std::collections::BTreeSet::new());
        for event in events {
            match event {
                Event::Answer { seed, approve } => {
                    let word = if approve { AnswerWord::Approve } else { AnswerWord::Deny };
                    let signature = signed(seed, &answer_text_of(&asks, word));
                    let speaker = Speaker::Signature(&signature);
                    let counts = asks.answer(&ID, (word, END_MS), speaker, &people_once(), now_ms).is_ok();
                    prop_assert!(!counts || seed == GRACE || seed == EDSGER);
                    if counts && approve {
                        agreed.insert(seed);
                    }
                }
                Event::Take { other } => {
                    let wanted = other.map_or_else(call, |at| other_calls().swap_remove(at).1);
                    if asks.take(&ID, &wanted, &people_once(), now_ms).is_ok() {
                        prop_assert_eq!(&wanted, &call());
                        prop_assert!(agreed.len() >= usize::from(count) && now_ms <= END_MS);
                        made += 1;
                    }
                }
                Event::Later { ms } => {
                    now_ms += ms / 4;
                    asks.expire(now_ms);
                }
                Event::Restart => {
                    let row = asks.row(&ID).expect("it was asked");
                    asks = Asks::read([(ID, &row[..])]).expect("it is what was written");
                    asks.restart();
                }
            }
        }
        prop_assert!(made <= 1);
    }
}
