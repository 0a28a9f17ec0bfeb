//! Proposals and silent voters (P-84), by hand and as vectors.

use althing_protocol::group::{
    Amendment, Command, Declaration, Endorse, Endorsed, Motion, Propose, Replace, StateMark,
};
use althing_protocol::keyring::Withdrawal;
use althing_protocol::object;
use serde_json::{Value, json};

use crate::group_tasks::command_by_hand;
use crate::groups::{batch_by_hand, batch_case, dissolution, expulsion, invitation, scope, second, signed};
use crate::support::*;
use crate::vector_cases::Case;
use crate::vector_runner::hex;

/// A statement with these authored objects.
fn endorsed(objects: &[Vec<u8>]) -> Vec<u8> {
    array(&objects.iter().map(|object| bstr(object)).collect::<Vec<_>>())
}

fn motion(number: u64, said: Vec<u8>) -> Vec<u8> {
    array(&[uint(number), array(&[said])])
}

fn proposing(motion: Vec<u8>) -> Vec<u8> {
    command_by_hand(31, &[map(&[(0, motion), (1, uint(NOW_MS + HOUR_MS))])])
}

/// A motion for the second charter, with these key logs.
fn amending(logs: &[Vec<u8>]) -> Vec<u8> {
    motion(0, map(&[(0, endorsed(&signed(&second(), &scope(), &[PUBLISHER]))), (1, array(logs))]))
}

fn endorsing(proposal: &[u8]) -> Vec<u8> {
    let object = &signed(&second(), &scope(), &[PUBLISHER])[0];
    command_by_hand(32, &[map(&[(0, bstr(proposal)), (1, bstr(object))])])
}

fn node() -> Vec<u8> {
    bstr(public(NODE).as_bytes())
}

fn replacing(members: &[(u64, Vec<u8>)]) -> Vec<u8> {
    command_by_hand(34, &[map(members)])
}

#[test]
fn proposals_built_by_hand_are_what_the_crate_builds() {
    // P-84
    let by = |object: &[Vec<u8>]| Endorsed::new(object.to_vec());
    let (charter, gone) = (signed(&second(), &scope(), &[PUBLISHER]), signed(&expulsion(), &scope(), &[PUBLISHER]));
    let (ended, invited) =
        (signed(&dissolution(), &scope(), &[PUBLISHER]), signed(&invitation(1), &scope(), &[PUBLISHER]));
    let propose = |motion| Command::Propose(Box::new(Propose { motion, expires_ms: NOW_MS + HOUR_MS }));
    let events = log().to_bytes().into_iter().map(Into::into).collect();
    let (voter, learner) = (public(NODE), public(OPENER));
    let expected = [
        (
            amending(&[array(&[bstr(&log().to_bytes()[0])])]),
            Motion::Amend(Amendment { charter: by(&charter), logs: vec![events] }),
        ),
        (motion(1, endorsed(&gone)), Motion::Expel(by(&gone))),
        (motion(2, endorsed(&ended)), Motion::Dissolve(by(&ended))),
        (motion(3, endorsed(&invited)), Motion::Invite(by(&invited))),
    ];
    for (by_hand, motion) in expected {
        assert_eq!(proposing(by_hand), minicbor::to_vec(propose(motion)).expect("it encodes"));
    }
    let object = charter[0].clone().into();
    let endorse = Command::Endorse(Endorse { proposal: second().digest(), signed: object });
    assert_eq!(endorsing(&second().digest()), minicbor::to_vec(endorse).expect("it encodes"));
    let silent = minicbor::to_vec(Command::Silent(voter)).expect("it encodes");
    assert_eq!(command_by_hand(33, &[node()]), silent);
    let replace = minicbor::to_vec(Command::Replace(Replace { voter, learner })).expect("it encodes");
    assert_eq!(replacing(&[(0, node()), (1, bstr(learner.as_bytes()))]), replace);
}

/// The publisher takes a node back.
fn withdrawal() -> Vec<u8> {
    object::sign(Withdrawal::new(log().publisher(), public(NODE), NOW_MS), "", "", &key(PUBLISHER))
        .expect("signed")
        .bytes
}

#[test]
fn a_withdrawal_built_by_hand_is_what_the_crate_builds() {
    // P-84, P-159
    let built = minicbor::to_vec(Command::Withdraw(withdrawal().into())).expect("it encodes");
    assert_eq!(command_by_hand(37, &[bstr(&withdrawal())]), built);
}

#[test]
fn a_declaration_built_by_hand_is_what_the_crate_builds() {
    // P-84
    let mark = StateMark { at: 2_833_333, digest: [9; 32] };
    for (mark, shown) in [(None, None), (Some(mark), Some(map(&[(0, uint(2_833_333)), (1, bstr(&[9; 32]))])))] {
        let built = minicbor::to_vec(Command::Declare(Declaration { rules: 1, mark })).expect("it encodes");
        let members: Vec<_> = [(0, uint(1))].into_iter().chain(shown.map(|mark| (1, mark))).collect();
        assert_eq!(command_by_hand(38, &[map(&members)]), built);
    }
}

pub fn vectors() -> [Vec<Case>; 2] {
    [good(), bad()]
}

fn good() -> Vec<Case> {
    let of = |name: &str, command: Vec<u8>| batch_case(name, &batch_by_hand(&[command]), None);
    let log = array(&[bstr(&log().to_bytes()[0])]);
    let gone = endorsed(&signed(&expulsion(), &scope(), &[PUBLISHER]));
    let ended = endorsed(&signed(&dissolution(), &scope(), &[PUBLISHER]));
    let invited = endorsed(&signed(&invitation(1), &scope(), &[PUBLISHER]));
    vec![
        of("proposing a charter", proposing(amending(&[log]))),
        of("proposing an expulsion", proposing(motion(1, gone))),
        of("proposing a dissolution", proposing(motion(2, ended))),
        of("proposing an invitation", proposing(motion(3, invited))),
        of("endorsing a proposal", endorsing(&second().digest())),
        of("a voter that is silent", command_by_hand(33, &[node()])),
        of("replacing a voter", replacing(&[(0, node()), (1, bstr(public(OPENER).as_bytes()))])),
        of("withdrawing a member", command_by_hand(37, &[bstr(&withdrawal())])),
    ]
}

fn bad() -> Vec<Case> {
    let of = |name: &str, commands: &[Vec<u8>]| batch_case(name, &batch_by_hand(commands), Some("ObjectError::Shape"));
    let gone = || endorsed(&signed(&expulsion(), &scope(), &[PUBLISHER]));
    let long = amending(&[array(&vec![bstr(&[0]); 209])]);
    // 16 and one signature, 16 logs of 208 events, which is 3,361; and a log of 208 events, 212; twice 212 is one too many.
    let many = amending(&vec![array(&vec![bstr(&[0]); 208]); 16]);
    let log = command_by_hand(6, &[array(&vec![bstr(&[0]); 208])]);
    let ticks = vec![command_by_hand(23, &[]); 24];
    let heavy = [vec![proposing(many), log.clone(), log], ticks].concat();
    vec![
        of("proposing with a key log of 209 events", &[proposing(long)]),
        of("proposing with 17 key logs", &[proposing(amending(&vec![array(&[]); 17]))]),
        of("a motion that does not exist", &[proposing(motion(4, gone()))]),
        of("a proposal that never ends", &[command_by_hand(31, &[map(&[(0, motion(1, gone()))])])]),
        of("proposals beyond the weight of a batch", &heavy),
        of("endorsing by a name of 31 bytes", &[endorsing(&[1; 31])]),
        of("a silent voter without a key", &[command_by_hand(33, &[bstr(&[1; 31])])]),
        of("replacing a voter by nobody", &[replacing(&[(0, node())])]),
        of("withdrawing without a withdrawal", &[command_by_hand(37, &[])]),
        of("a command that does not exist", &[command_by_hand(38, &[])]),
    ]
}

/// How the vectors show one of these commands.
pub fn command(command: &Command) -> Value {
    match command {
        Command::Propose(it) => json!({ "command": "propose", "motion": motion_name(&it.motion),
            "signed": it.motion.signed().objects().map(hex).collect::<Vec<_>>(),
            "logs": it.motion.logs().iter().map(|log| log.iter().map(|event| hex(event)).collect()).collect::<Vec<Vec<_>>>(),
            "expires_ms": it.expires_ms }),
        Command::Endorse(it) => {
            json!({ "command": "endorse", "proposal": hex(&it.proposal), "signed": hex(&it.signed) })
        }
        Command::Silent(voter) => json!({ "command": "silent", "voter": hex(voter.as_bytes()) }),
        Command::Replace(it) => json!({ "command": "replace", "voter": hex(it.voter.as_bytes()),
            "learner": hex(it.learner.as_bytes()) }),
        Command::Withdraw(signed) => json!({ "command": "withdraw", "withdrawal": hex(signed) }),
        Command::Declare(it) => json!({ "command": "declare", "rules": it.rules,
            "mark": it.mark.map(|mark| json!({ "at": mark.at, "digest": hex(&mark.digest) })) }),
        other => panic!("{other:?} is shown elsewhere"),
    }
}

fn motion_name(motion: &Motion) -> &'static str {
    match motion {
        Motion::Amend(_) => "amend",
        Motion::Expel(_) => "expel",
        Motion::Dissolve(_) => "dissolve",
        Motion::Invite(_) => "invite",
    }
}
