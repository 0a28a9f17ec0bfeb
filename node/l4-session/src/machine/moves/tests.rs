use a2a::{Message, Part, Role, TaskState};
use althing_protocol::{CallerId, PublisherId};
use chrono::DateTime;

use super::*;
use crate::machine::record::Scope;

const NETWORK: &str = "testnet";

fn signer(seed: u8) -> Signer {
    Signer { key: SecretKey::from_seed(&[seed; 32]), network: NETWORK.into() }
}

fn node(seed: u8) -> PublicKey {
    signer(seed).node()
}

fn agent() -> AgentId {
    AgentId::new(PublisherId::from_digest([1; 32]), "echo").expect("a name")
}

/// A move that the first node signs.
fn moved(from: u8, to: u8, fence: u64) -> Authored<TaskMove> {
    let body = TaskMove::new(agent(), "t", node(to), fence, [0; 32]);
    object::sign(body, NETWORK, "", &signer(from).key).expect("a good move")
}

fn record(state: TaskState, fence: u64) -> Record {
    let at = DateTime::UNIX_EPOCH;
    let message = Message::new(Role::User, vec![Part::text("hi")]);
    let mut task = task::submitted("t".to_owned(), "c".to_owned(), message, at);
    task::set_status(&mut task, state, None, at);
    let scope = Scope::of(CallerId::Node(node(9)));
    Record { fence, ..Record::new(task, "echo", scope) }
}

fn row(record: &Record) -> Vec<u8> {
    let mut row = Vec::new();
    ciborium::into_writer(record, &mut row).expect("memory takes any");
    row
}

/// What node 1 hands over to node 2.
fn packed(record: &Record) -> TaskPack {
    pack(&signer(1), &agent(), node(2), (record, row(record)), vec![b"a row".to_vec()]).expect("it is packed")
}

fn unpacked(pack: &TaskPack) -> Result<Record, MoveError> {
    unpack(pack, &agent(), node(1), &signer(2))
}

/// P-205
#[test]
fn a_home_with_a_higher_fence_is_believed_if_the_known_one_names_it() {
    let at = |seed: u8, fence| Home { node: node(seed), fence };
    let me = node(9);
    let next = |known, from: u8, moved: &Authored<TaskMove>| next_home(known, me, node(from), moved);
    // Where nothing is known, and from the home that is.
    assert_eq!(next(None, 1, &moved(1, 2, 1)), Ok(at(2, 1)));
    assert_eq!(next(Some(at(1, 0)), 1, &moved(1, 2, 1)), Ok(at(2, 1)));
    assert_eq!(next(Some(at(2, 1)), 2, &moved(2, 1, 2)), Ok(at(1, 2)), "and back");
    assert_eq!(next(Some(at(2, 1)), 2, &moved(2, 3, 7)), Ok(at(3, 7)), "moves that this caller did not see");
    // A signature of another one, also of the one that gains by it.
    for signer in [2, 3] {
        let expected = MoveError::Signer { signer: node(signer), expected: node(1) };
        assert_eq!(next(Some(at(1, 0)), 1, &moved(signer, 2, 1)), Err(expected));
    }
    // An equal or lower fence of the home itself.
    for fence in [1, 2] {
        let expected = MoveError::Older { fence, known: 2 };
        assert_eq!(next(Some(at(1, 2)), 1, &moved(1, 2, fence)), Err(expected));
    }
    // Somebody who is not the home leads nowhere, and an old home to where the task is known to be.
    let expected = MoveError::NotItsHome { known: node(1), from: node(3) };
    assert_eq!(next(Some(at(1, 0)), 3, &moved(3, 4, 9)), Err(expected));
    assert_eq!(next(Some(at(3, 2)), 1, &moved(1, 2, 1)), Ok(at(3, 2)));
    // This node's own mark counts, unless it is the older one.
    assert_eq!(next(Some(at(2, 1)), 9, &moved(9, 3, 3)), Ok(at(3, 3)));
    assert_eq!(next(Some(at(3, 4)), 9, &moved(9, 2, 3)), Ok(at(3, 4)));
}

/// P-205
#[test]
fn a_proof_is_read_as_it_was_written_and_anything_else_is_refused() {
    let proof = moved(1, 2, 1);
    let text = text_of(&proof.bytes);
    assert_eq!(read(&text, NETWORK), Ok(proof));
    assert_eq!(read(&format!("{text}="), NETWORK), Err(MoveError::Text));
    assert!(matches!(read("hA", NETWORK), Err(MoveError::Proof(_))));
    assert!(matches!(read(&text, "othernet"), Err(MoveError::Proof(_))), "of another network");
    let last = text.len() / 2;
    let other = if text.as_bytes()[last] == b'A' { "B" } else { "A" };
    let changed = format!("{}{other}{}", &text[..last], &text[last + 1..]);
    assert!(read(&changed, NETWORK).is_err(), "one letter is another");
}

/// P-205
#[test]
fn a_move_of_another_task_or_agent_says_nothing() {
    let of = moved(1, 2, 1).body;
    let other = AgentId::new(PublisherId::from_digest([2; 32]), "echo").expect("a name");
    assert_eq!(check_subject(&of, &agent(), Some("t")), Ok(()));
    assert_eq!(check_subject(&of, &agent(), None), Ok(()), "no task was named");
    let refused = || Err(MoveError::OtherTask { task: "t".to_owned(), agent: agent() });
    assert_eq!(check_subject(&of, &agent(), Some("u")), refused());
    assert_eq!(check_subject(&of, &other, Some("t")), refused());
}

/// P-204
#[test]
fn what_is_handed_over_is_taken_as_it_was() {
    for state in [TaskState::InputRequired, TaskState::AuthRequired, TaskState::Completed] {
        let record = record(state, 3);
        assert_eq!(unpacked(&packed(&record)), Ok(record));
    }
}

/// P-204
#[test]
fn a_pack_is_taken_with_its_own_proof_from_who_signed_it_and_by_whom_it_is_for() {
    let record = record(TaskState::InputRequired, 1);
    let pack = packed(&record);
    let other = AgentId::new(PublisherId::from_digest([1; 32]), "other").expect("a name");
    let refused = unpack(&pack, &agent(), node(3), &signer(2));
    assert_eq!(refused, Err(MoveError::Signer { signer: node(1), expected: node(3) }));
    let refused = unpack(&pack, &agent(), node(1), &signer(3));
    assert_eq!(refused, Err(MoveError::OtherNode { to: node(2) }));
    let refused = unpack(&pack, &other, node(1), &signer(2));
    assert_eq!(refused, Err(MoveError::OtherTask { task: "t".to_owned(), agent: agent() }));
    let abroad = Signer { network: "othernet".into(), ..signer(2) };
    assert!(matches!(unpack(&pack, &agent(), node(1), &abroad), Err(MoveError::Proof(_))));

    let changed = |change: &dyn Fn(&mut TaskPack)| {
        let mut pack = pack.clone();
        change(&mut pack);
        unpacked(&pack)
    };
    assert_eq!(changed(&|pack| pack.version = 2), Err(MoveError::Version { version: 2 }));
    assert!(matches!(changed(&|pack| pack.proof.clear()), Err(MoveError::Proof(_))));
    assert_eq!(changed(&|pack| pack.record.push(0)), Err(MoveError::Contents));
    assert_eq!(changed(&|pack| pack.push.clear()), Err(MoveError::Contents));
    assert_eq!(changed(&|pack| pack.push[0].push(0)), Err(MoveError::Contents));
    let another = packed(&self::record(TaskState::InputRequired, 2));
    assert_eq!(changed(&|pack| pack.proof.clone_from(&another.proof)), Err(MoveError::Contents));
    let huge = |pack: &mut TaskPack| pack.record = vec![0; RECORD_BYTES_MAX + 1];
    assert!(matches!(changed(&huge), Err(MoveError::Record { .. })));
    let many = |pack: &mut TaskPack| pack.push = vec![Vec::new(); PUSH_ROWS_MAX + 1];
    assert!(matches!(changed(&many), Err(MoveError::Record { .. })));
}

/// P-204: the signature is good, and what it is of is no task.
#[test]
fn rows_that_are_no_task_at_rest_are_not_taken() {
    let good = record(TaskState::InputRequired, 1);
    let with = |rows: Vec<u8>| {
        let pack = pack(&signer(1), &agent(), node(2), (&good, rows), Vec::new()).expect("it is packed");
        unpacked(&pack)
    };
    let is_refused = |rows: Vec<u8>| matches!(with(rows), Err(MoveError::Record { .. }));
    assert_eq!(with(row(&good)), Ok(good.clone()));
    assert!(is_refused(Vec::new()) && is_refused(b"no CBOR".to_vec()));
    assert!(is_refused([row(&good), vec![0]].concat()), "something comes after it");
    assert!(is_refused(row(&record(TaskState::Working, 1))), "it is at work");
    assert!(is_refused(row(&record(TaskState::InputRequired, 2))), "of another move");
    assert!(is_refused(row(&Record { agent: "other".to_owned(), ..good.clone() })));
    assert!(is_refused(row(&Record { departed: Some("hA".to_owned()), ..good.clone() })));
    let mut renamed = good.clone();
    renamed.task.id = "u".to_owned();
    assert!(is_refused(row(&renamed)));
}

/// P-204
#[test]
fn a_task_arrives_once_and_comes_back_only_where_it_went_away() {
    let (first, second) = (record(TaskState::InputRequired, 1), record(TaskState::InputRequired, 2));
    let gone = |record: &Record| Record { departed: Some("hA".to_owned()), ..record.clone() };
    assert_eq!(may_arrive(None, &first), Ok(()));
    assert_eq!(may_arrive(Some(&first), &first), Err(MoveError::Older { fence: 1, known: 1 }), "twice");
    assert_eq!(may_arrive(Some(&gone(&second)), &first), Err(MoveError::Older { fence: 1, known: 2 }), "it went on");
    assert_eq!(may_arrive(Some(&gone(&first)), &second), Ok(()), "it comes back");
    assert_eq!(may_arrive(Some(&first), &second), Err(MoveError::Here));
    let elses = Record { agent: "other".to_owned(), ..gone(&first) };
    assert_eq!(may_arrive(Some(&elses), &second), Err(MoveError::Here));
}
