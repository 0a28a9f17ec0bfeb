//! Large results are deleted only by what the group says now, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use althing_conformance::groups::{echo_task, group_of, hand_over};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS};
use althing_coordination::RESULTS;
use althing_protocol::group::{Command, GroupId, Needs, Submit, Target, WorkId};
use althing_protocol::{Digest, digest};
use althing_simnet::{LinkConfig, SimNet};
use althing_store::{Batch, Durability};

/// After its start a node deletes nothing for two minutes.
const SETTLED: Duration = Duration::from_secs(125);
/// More than a result in the log may have.
const LARGE: usize = 100_000;

/// The key of a row of results.
fn row(kind: u8, id: GroupId, digest: &Digest, rest: &[u8]) -> Vec<u8> {
    [[kind].as_slice(), id.as_bytes().as_slice(), digest.as_slice(), rest].concat()
}

/// A task that one member alone can do.
fn task(number: u32) -> (WorkId, Command) {
    let needs = Needs::of(Target::Capability("archive".to_owned()));
    let submit = Submit { needs, ..echo_task(number, "x") };
    (submit.task, Command::Submit(Box::new(submit)))
}

/// P-158
#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_deletes_no_result_that_its_own_state_does_not_know() {
    let net = SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS);
    let (nodes, id) = group_of(&net, 3).await;
    hand_over(&nodes, id, 0).await;
    let holder = &nodes[1];
    // It is held since before: whether a task has it by now, only the group knows.
    let (bytes, number) = (b"of an earlier task".as_slice(), 0u32.to_be_bytes());
    let earlier = digest(bytes);
    let mut batch = Batch::new();
    batch.put(RESULTS, row(b'p', id, &earlier, &number), bytes);
    batch.put(RESULTS, row(b'i', id, &earlier, &[]), (bytes.len() as u64).to_be_bytes());
    holder.store.write(batch, Durability::Buffered).await.expect("it is in memory");
    let has = |key: Vec<u8>| holder.store.read(RESULTS, &key).expect("it can be read").is_some();
    let holds = |digest: &Digest| has(row(b'i', id, digest, &[])) && has(row(b'p', id, digest, &number));
    // It is cut off while it does the first task.
    let (is_cut, cut) = (Arc::<AtomicBool>::default(), net.clone());
    let (seen, here, others) = (is_cut.clone(), holder.id(), [nodes[0].id(), nodes[2].id()]);
    *holder.worker.script.lock().expect("no panic") = Some(Box::new(move |_: &Target, _: &str| {
        if !seen.swap(true, Ordering::Relaxed) {
            others.iter().for_each(|other| cut.cut(here, *other));
        }
        Ok("x".repeat(LARGE))
    }));
    holder.worker.capabilities.lock().expect("no panic").push("archive".to_owned());
    tokio::time::sleep(SETTLED).await;
    nodes[0].groups.command(id, task(1).1).await.expect("it is submitted");
    until("it works", || is_cut.load(Ordering::Relaxed)).await;
    until("it keeps the result", || holds(&digest("x".repeat(LARGE).as_bytes()))).await;
    assert!(holds(&earlier), "it does not know the group's state of now");
    // It does when it keeps the next one.
    net.heal_all();
    let (next, command) = task(2);
    nodes[0].groups.command(id, command).await.expect("it is submitted");
    nodes[0].completed(id, &[next]).await;
    assert!(!holds(&earlier), "no task has it");
}
