//! What a message of `/althing/raft/1` says, as the vectors show it.

use althing_protocol::group::SignedAppend;
use minicbor::data::Type;
use serde_json::{Value, json};

use super::super::*;
use crate::machine::outcome::{Outcome, Refusal};

/// The message of that name in these bytes, or why there is none.
pub fn read_and_show(message: &str, bytes: &[u8]) -> Result<Value, String> {
    match message {
        "append" => shown(bytes, Append::check, append),
        "appended" => shown(bytes, any, appended),
        "heartbeats" => shown(
            bytes,
            Beats::check,
            |it: &Beats| json!({ "leader": hex(it.leader.as_bytes()), "heartbeats": it.beats.iter().map(beat).collect::<Vec<_>>() }),
        ),
        "heard" => shown(bytes, any, |it: &BeatsHeard| it.heard.iter().map(heard).collect()),
        "elect" => shown(bytes, Elect::check, |it: &Elect| {
            json!({ "group": it.group.to_string(), "candidate": ballot(it.candidate), "last": position(it.last),
                "is_transfer": it.is_transfer })
        }),
        "elected" => shown(
            bytes,
            any,
            |it: &Elected| json!({ "ballot": ballot(it.ballot), "granted": it.granted, "last": position(it.last) }),
        ),
        "snapshot-part" => shown(bytes, SnapshotPart::check, snapshot_part),
        "snapshot-taken" => shown(bytes, any, |it: &SnapshotTaken| json!({ "ballot": it.ballot.map(ballot) })),
        "transfer" => shown(bytes, Transfer::check, |it: &Transfer| {
            json!({ "group": it.group.to_string(), "leader": ballot(it.leader), "to": hex(it.to.as_bytes()),
                "last": position(it.last) })
        }),
        "transferred" => shown(bytes, any, transferred),
        "submit" => shown(bytes, any, |it: &Submit| json!({ "group": it.group.to_string(), "batch": hex(&it.batch) })),
        "submitted" => shown(bytes, any, submitted),
        "barrier" => shown(bytes, any, |it: &Barrier| json!({ "group": it.group.to_string() })),
        "barred" => shown(bytes, any, barred),
        "report-to" => shown(bytes, |it: &ReportTo| it.report.check(), report_to),
        "fetch" => shown(
            bytes,
            any,
            |it: &Fetch| json!({ "group": it.group.to_string(), "digest": hex(&it.digest), "part": it.part }),
        ),
        "compare" => shown(bytes, Compare::check, |it| {
            json!({ "group": it.group.to_string(), "leader": hex(it.leader.as_bytes()), "term": it.term,
                "first": it.first, "digests": hex(&it.digests) })
        }),
        "compared" => shown(bytes, any, |it: &Compared| match it {
            Compared::Same => json!("same"),
            Compared::Differs(append) => json!({ "differs": signed_append(append) }),
        }),
        "accuse" => shown(bytes, any, |it: &Accuse| {
            json!({ "group": it.group.to_string(), "one": signed_append(&it.proof.one),
                "other": signed_append(&it.proof.other) })
        }),
        "accused" => shown(bytes, any, |it: &Accused| match it {
            Accused::Kept => json!("kept"),
            Accused::Unproven => json!("unproven"),
        }),
        "fetched" => shown(bytes, any, |it: &Fetched| match it {
            Fetched::Part(bytes) => json!({ "part": hex(bytes) }),
            Fetched::NotHeld => json!("not held"),
        }),
        "reported" => shown(bytes, any, |Reported::Taken| json!("taken")),
        "unserved" => shown(bytes, any, unserved),
        other => panic!("no message is called {other}"),
    }
}

fn any<T>(_: &T) -> Result<(), String> {
    Ok(())
}

fn shown<T: Encode<()> + for<'b> Decode<'b, ()>>(
    bytes: &[u8],
    check: impl Fn(&T) -> Result<(), String>,
    show: impl Fn(&T) -> Value,
) -> Result<Value, String> {
    let message: T = read(bytes)?;
    check(&message)?;
    assert_eq!(write(&message), bytes, "what is read is written in the same way");
    Ok(show(&message))
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hexes(keys: &[PublicKey]) -> Vec<String> {
    keys.iter().map(|key| hex(key.as_bytes())).collect()
}

fn sets(voters: &[Vec<PublicKey>]) -> Vec<Vec<String>> {
    voters.iter().map(|set| hexes(set)).collect()
}

fn position(at: Option<Position>) -> Value {
    at.map_or(Value::Null, |at| json!({ "term": at.term, "index": at.index }))
}

fn ballot(ballot: Ballot) -> Value {
    json!({ "term": ballot.term, "node": hex(ballot.node.as_bytes()), "elected": ballot.elected })
}

fn entry(entry: &EntryRecord) -> Value {
    let at = position(Some(entry.at));
    match &entry.payload {
        Payload::Blank => json!({ "at": at }),
        Payload::Batch(at_ms, batch) => json!({ "at": at, "at_ms": at_ms, "batch": hex(batch) }),
        Payload::Members(voters, learners) => json!({ "at": at, "voters": sets(voters), "learners": hexes(learners) }),
    }
}

fn append(it: &Append) -> Value {
    json!({ "group": it.group.to_string(), "leader": ballot(it.leader), "previous": position(it.previous),
        "committed": position(it.committed), "entries": it.entries.iter().map(entry).collect::<Vec<_>>() })
}

fn appended(it: &Appended) -> Value {
    match it {
        Appended::All => json!("all"),
        Appended::UpTo(at) => json!({ "up_to": position(*at) }),
        Appended::Conflict => json!("conflict"),
        Appended::Higher(it) => json!({ "higher": ballot(*it) }),
    }
}

fn beat(it: &Beat) -> Value {
    json!({ "group": it.group.to_string(), "term": it.term, "previous": position(it.previous),
        "committed": position(it.committed) })
}

fn heard(it: &Heard) -> Value {
    match it {
        Heard::Taken(it) => appended(it),
        Heard::Late => json!("late"),
        Heard::Unserved => json!("not served"),
    }
}

fn snapshot_part(it: &SnapshotPart) -> Value {
    let members = json!({ "at": position(it.members.at), "voters": sets(&it.members.voters),
        "learners": hexes(&it.members.learners) });
    json!({ "group": it.group.to_string(), "leader": ballot(it.leader), "last": position(it.last), "members": members,
        "offset": it.offset, "rows": it.rows.iter().map(|row| hex(row)).collect::<Vec<_>>(), "is_last": it.is_last })
}

fn transferred(it: &Transferred) -> Value {
    match it {
        Transferred::Accepted => json!("accepted"),
        Transferred::VoteChanged(it) => json!({ "vote_changed": ballot(*it) }),
        Transferred::Behind(at) => json!({ "behind": position(*at) }),
    }
}

fn submitted(it: &Submitted) -> Value {
    match it {
        Submitted::Done(Reply::Executed(outcomes)) => {
            json!({ "executed": outcomes.iter().map(outcome).collect::<Vec<_>>() })
        }
        Submitted::Done(Reply::Duplicate) => json!("duplicate"),
        Submitted::Done(Reply::Refused(it)) => json!({ "refused": refusal(it) }),
        Submitted::NotLeader(leader, addresses) => {
            json!({ "leader": leader.map(|node| hex(node.as_bytes())), "addresses": addresses })
        }
        Submitted::Unknown => json!("not known"),
    }
}

fn outcome(it: &Outcome) -> Value {
    match it {
        Outcome::Done(number) => json!({ "done": number }),
        Outcome::Refused(it) => json!({ "refused": refusal(it) }),
    }
}

/// The number of a refusal and its members, as chapter 12 of the specification lists them.
fn refusal(it: &Refusal) -> Value {
    item(&mut minicbor::Decoder::new(&write(it)))
}

/// One item as JSON; bytes as hexadecimal.
fn item(decoder: &mut minicbor::Decoder<'_>) -> Value {
    match decoder.datatype().expect("it was written here") {
        Type::Array => {
            let count = decoder.array().expect("an array").expect("a definite length");
            (0..count).map(|_| item(decoder)).collect()
        }
        Type::Bytes => json!(hex(decoder.bytes().expect("bytes"))),
        Type::String => json!(decoder.str().expect("a text")),
        _ => json!(decoder.u64().expect("a number")),
    }
}

fn barred(it: &BarrierAnswer) -> Value {
    match it {
        BarrierAnswer::At(index) => json!({ "at": index }),
        BarrierAnswer::NotLeader(leader) => json!({ "leader": leader.map(|node| hex(node.as_bytes())) }),
        BarrierAnswer::NoMajority => json!("no majority"),
    }
}

fn report_to(it: &ReportTo) -> Value {
    let report = &it.report;
    let classes: Vec<&str> = report.classes.iter().map(|class| class.name()).collect();
    let some = |some: &crate::service::work::Answering| {
        let owners: Vec<String> = some.owners.iter().map(ToString::to_string).collect();
        json!({ "agents": some.agents, "capabilities": some.capabilities, "owners": owners })
    };
    let mut shown = json!({ "group": it.group.to_string(), "agents": report.agents, "capabilities": report.capabilities,
        "labels": report.labels, "memory_mib": report.memory_mib, "cores": report.cores, "disk_mib": report.disk_mib,
        "gpus": report.gpus, "classes": classes, "load_permille": report.load_permille, "slots": report.slots });
    if let Some(all) = &report.answering {
        shown["answering"] = all.iter().map(some).collect();
    }
    shown
}

fn signed_append(it: &SignedAppend) -> Value {
    json!({ "leader": hex(it.leader.as_bytes()), "to": hex(it.to.as_bytes()),
        "opener_challenge": hex(&it.opener_challenge), "acceptor_challenge": hex(&it.acceptor_challenge),
        "frame": hex(&it.frame) })
}

fn unserved(it: &Unserved) -> Value {
    match it {
        Unserved::Malformed(why) => json!({ "malformed": why }),
        Unserved::NoSuchGroup => json!("no such group"),
        Unserved::NotAMember => json!("not a member"),
        Unserved::Dissolved(proof) => json!({ "dissolved": proof.objects().map(hex).collect::<Vec<_>>() }),
        Unserved::Stopped(why) => json!({ "stopped": why }),
        Unserved::Equivocated => json!("equivocated"),
        Unserved::OnlyOwnersRead => json!("only owners read"),
        Unserved::Busy => json!("busy"),
        Unserved::Unshown => json!("unshown"),
    }
}
