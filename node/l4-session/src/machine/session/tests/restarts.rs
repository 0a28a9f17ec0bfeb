//! Turns that stopped and go on anew from a step.

use althing_execution::journal::{Checkpoint, Clock, Reading};

use super::*;
use crate::machine::session::row::{Row, RowBody};

/// What the owner says, as which agent the turn goes on.
const NEXT: (&str, &str) = ("2.0.0", "other hash");

fn read(disk: &[(u32, Vec<u8>)]) -> TurnRows {
    TurnRows::read(turn("one"), begin(), disk).expect("as it was written")
}

/// A turn of five steps: a request to a model, a call that must not be made twice, one that is made by a key, and two more.
fn stopped() -> (Vec<(u32, Vec<u8>)>, [u8; 32]) {
    let mut rows = TurnRows::new(turn("one"), begin());
    make(&mut rows, "models", Effect::Repeatable, &heard(json!("hi")));
    make(&mut rows, "bank/pay", Effect::Final, &heard(json!(1)));
    let keyed = make(&mut rows, "shop/order", Effect::Keyed, &heard(json!(2)));
    make(&mut rows, "models", Effect::Repeatable, &heard(json!("there")));
    make(&mut rows, "news/read", Effect::None, &heard(json!(3)));
    (written(&mut rows), keyed.key)
}

fn replayed(rows: &mut TurnRows, name: &str, effect: Effect) -> bool {
    matches!(rows.reach(call(name, effect)), Ok(Next::Replayed(_)))
}

#[test]
fn the_steps_before_are_told_again_and_those_after_are_made_anew_under_the_keys_that_they_had() {
    let (mut disk, key) = stopped();
    let mut rows = read(&disk);
    assert_eq!((rows.agent(), rows.began_ms()), (("1.0.0", "hash"), 5));
    rows.restart(2, NEXT, ("local", 900)).expect("nothing of that must not be made twice");
    disk.extend(written(&mut rows));
    // As on disk, so in memory.
    for mut rows in [rows, read(&disk)] {
        assert_eq!((rows.agent(), rows.began_ms()), (NEXT, 900));
        assert!(replayed(&mut rows, "models", Effect::Repeatable) && replayed(&mut rows, "bank/pay", Effect::Final));
        // It did something else before, and does what it did then later.
        assert_eq!(go(&mut rows, "news/list", Effect::None).expect("it is new").seq, 2);
        rows.finish(2, &heard(json!(9)), 950).expect("there is room");
        let again = go(&mut rows, "shop/order", Effect::Keyed).expect("it is made again");
        assert_eq!((again.seq, again.key), (3, key));
    }
    assert_eq!(read(&disk).size().0 as usize, disk.len());
}

#[test]
fn a_turn_that_goes_on_anew_is_read_again_with_what_it_did_since() {
    let (mut disk, _) = stopped();
    let mut rows = read(&disk);
    rows.restart(2, NEXT, ("local", 900)).expect("nothing of that must not be made twice");
    for _ in 0..2 {
        assert!(matches!(rows.reach(call("x", Effect::None)), Err(JournalError::Diverged { seq: 0, .. })));
    }
    assert!(replayed(&mut rows, "models", Effect::Repeatable) && replayed(&mut rows, "bank/pay", Effect::Final));
    make(&mut rows, "bank/pay", Effect::Final, &heard(json!(4)));
    disk.extend(written(&mut rows));
    let mut rows = read(&disk);
    // The call since is as final as others.
    let refused = rows.restart(2, NEXT, ("local", 990)).expect_err("it was made since");
    assert_eq!(refused, RestartError::Final { seq: 2, name: "bank/pay".to_owned() });
    let told = recorded(turn("one").session, &disk).expect("as it was written");
    let steps: Vec<(u32, &str)> = told.steps.iter().map(|step| (step.seq, step.name.as_str())).collect();
    assert_eq!(steps, [(0, "models"), (1, "bank/pay"), (2, "bank/pay")]);
    assert_eq!((told.version.as_str(), told.binding.as_str()), NEXT);
}

#[test]
fn no_row_of_a_call_that_must_not_be_made_twice_is_forgotten() {
    let (disk, _) = stopped();
    for from in [0, 1] {
        let mut rows = read(&disk);
        let refused = rows.restart(from, NEXT, ("local", 900)).expect_err("it would be forgotten");
        assert!(
            refused.to_string().starts_with("step 1 called \"bank/pay\"") && refused.to_string().contains("step 2")
        );
        assert!(written(&mut rows).is_empty() && rows.agent() == ("1.0.0", "hash"), "nothing changed");
    }
    assert_eq!(read(&disk).restart(6, NEXT, ("local", 900)), Err(RestartError::NoStep { from: 6, end: 5 }));
    assert_eq!(read(&disk).restart(5, NEXT, ("local", 900)), Ok(()), "all of them are told again");
    // One of which nobody knows whether it took place stays in doubt, or keeps the turn from going on before it.
    let (_, doubtful) = cut_off();
    assert!(matches!(read(&doubtful).restart(2, NEXT, ("local", 900)), Err(RestartError::Final { seq: 2, .. })));
    let mut rows = read(&doubtful);
    rows.restart(3, NEXT, ("local", 900)).expect("it is kept");
    assert_eq!(rows.doubts().len(), 1);
}

#[test]
fn a_forged_row_forgets_no_call_either() {
    let (mut disk, _) = stopped();
    let mut rows = read(&disk);
    rows.restart(2, NEXT, ("local", 900)).expect("nothing of that must not be made twice");
    let (number, restart) = written(&mut rows).remove(0);
    let mut row = Row::peek(&restart).expect("a row");
    let RowBody::Restart(body) = &mut row.body else { panic!("it is a restart") };
    body.step = 1;
    disk.push((number, row.encode()));
    let damage = TurnRows::read(turn("one"), begin(), &disk).expect_err("it forgets a payment");
    assert!(damage.what.contains("must not be made twice"), "{damage:?}");
}

#[test]
fn what_clocks_said_to_the_steps_that_are_forgotten_is_not_told_again() {
    let reading = |ns: u64| Reading { clock: Clock::Wall, ns };
    let mut rows = TurnRows::new(turn("one"), begin());
    for (ns, name) in [(5, "models"), (6, "news/read"), (7, "news/list")] {
        rows.note_readings(vec![reading(ns)]);
        make(&mut rows, name, Effect::Repeatable, &heard(json!(ns)));
    }
    let disk = written(&mut rows);
    assert_eq!(read(&disk).take_tape(), [5, 6, 7].map(reading));
    for from in 0..=3 {
        let mut rows = read(&disk);
        rows.restart(from, NEXT, ("local", 900)).expect("nothing of that must not be made twice");
        assert_eq!(rows.take_tape(), [5, 6, 7].map(reading)[..from as usize]);
    }
}

#[test]
fn a_checkpoint_stays_whole_and_what_follows_it_still_belongs_to_who_went_on() {
    let mut rows = TurnRows::new(turn("one"), begin());
    make(&mut rows, "models", Effect::Repeatable, &heard(json!("hi")));
    let state = Checkpoint { state: b"one".to_vec(), progress: Vec::new(), label: None };
    rows.save(&state, 30).expect("there is room");
    make(&mut rows, "news/read", Effect::None, &heard(json!(2)));
    let number = |key: Vec<u8>| u32::from_be_bytes(*key.last_chunk().expect("a key"));
    let mut disk: BTreeMap<u32, Vec<u8>> = written(&mut rows).into_iter().collect();
    let all = |disk: &BTreeMap<u32, Vec<u8>>| disk.iter().map(|(at, row)| (*at, row.clone())).collect::<Vec<_>>();
    let mut rows = read(&all(&disk));
    assert_eq!(rows.restart(0, NEXT, ("local", 900)), Err(RestartError::Checkpoint { since: 1 }));
    rows.restart(1, NEXT, ("local", 900)).expect("nothing of that must not be made twice");
    make(&mut rows, "news/list", Effect::None, &heard(json!(3)));
    rows.save(&state, 950).expect("there is room");
    for dropped in rows.dropped().map(number) {
        disk.remove(&dropped);
    }
    disk.extend(written(&mut rows));
    let again = read(&all(&disk));
    assert_eq!((again.agent(), again.began_ms(), again.next_step()), (NEXT, 900, 2));
}
