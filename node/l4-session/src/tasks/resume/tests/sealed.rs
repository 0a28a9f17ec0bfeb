//! The turns of an agent whose memory is encrypted.

use althing_execution::memory::{Embedder, MEMORY, Memories};
use althing_execution::secrets::SecretLookup;
use althing_protocol::contract;

use super::*;

/// A node's secrets, which are all the same.
fn secrets(secret: &'static str) -> SecretLookup {
    Arc::new(move |_| Ok(Some(secret.to_owned())))
}

/// The memory of nodes on a disk whose secret is that.
fn memories(disk: &MemoryStore, secret: &'static str) -> Memories {
    let secrets = secrets(secret);
    Memories::new(Arc::new(disk.clone()), Arc::new(|| NOW_MS), Arc::new(|bytes: &mut [u8]| bytes.fill(7)), secrets)
}

/// A node whose agent has an encrypted memory.
async fn start(disk: &MemoryStore, world: u64, left: usize) -> Node {
    let memories = Some(Arc::new(memories(disk, "correct horse")));
    let ports = Ports { memories, secrets: secrets("correct horse"), ..Ports::none() };
    let contract = json!({
        "class": { "latency": "srt" },
        "security": { "secrets": ["KEY"] },
        "memory": { "encryption_secret": "KEY" },
    });
    Node::start_with(disk, (world, "1.0.0"), left, ports, contract).await
}

/// A disk with a memory that is encrypted with that key.
async fn sealed_disk() -> MemoryStore {
    let disk = MemoryStore::new(&[&FAMILIES[..], &[MEMORY]].concat());
    let terms = contract::Memory { encryption_secret: Some("KEY".to_owned()), ..contract::Memory::default() };
    let memory = memories(&disk, "correct horse").open("worker", &terms, Arc::new(Embedder::Words)).expect("it opens");
    memory.adopt().await.expect("written");
    disk
}

/// The disk of a node that ended while a call was made, and the task.
async fn cut_off() -> (MemoryStore, u64, String) {
    for left in 0..64 {
        let (disk, world) = (sealed_disk().await, world());
        let living = tokio::spawn({
            let disk = disk.clone();
            async move { start(&disk, world, left).await.send().await }
        });
        settle().await;
        living.abort();
        let keys = disk.keys(TASKS, Range::all(2)).expect("readable");
        let node = start(&disk, world, UNENDING).await;
        if node.sessions().list().iter().any(|session| !session.doubts.is_empty()) {
            let id = keys.first().map(|key| String::from_utf8_lossy(key).into_owned()).expect("it has a task");
            return (disk, world, id);
        }
    }
    panic!("no call was in doubt");
}

#[tokio::test(start_paused = true)]
async fn a_turn_goes_on_from_rows_that_nobody_reads_without_the_key_of_the_memory() {
    let (disk, world, id) = cut_off().await;
    let rows = disk.scan(SESSION_ROWS, Range::all(100)).expect("readable");
    assert!(!rows.is_empty());
    assert!(!rows.iter().any(|(_, row)| row.windows(9).any(|window| window == b"count/add")), "they are sealed");
    let node = start(&disk, world, UNENDING).await;
    node.add();
    node.settle().await;
    let doubt = node.sessions().list()[0].doubts[0].seq;
    node.sessions().settle(&id, doubt, Resolution::Failed, &Principal::Local).await.expect("it is in doubt");
    node.settle().await;
    assert_eq!(node.state(&id), "TASK_STATE_COMPLETED", "{}", node.task(&id));
    assert!(disk.keys(SESSION_ROWS, Range::all(1)).expect("readable").is_empty(), "it ends with its task");
}

#[tokio::test(start_paused = true)]
async fn a_row_that_does_not_open_fails_its_own_turn_and_no_other() {
    let (disk, world, id) = cut_off().await;
    let rows = disk.scan(SESSION_ROWS, Range::all(1)).expect("readable");
    let (key, row) = rows.first().expect("it has rows");
    let mut changed = row.clone();
    *changed.last_mut().expect("it has bytes") ^= 1;
    let mut damage = Batch::new();
    damage.put(SESSION_ROWS, key.clone(), changed);
    disk.write(damage, Durability::Synced).await.expect("written");
    let before = calls(world);
    let node = start(&disk, world, UNENDING).await;
    node.add();
    node.settle().await;
    assert_eq!((node.state(&id).as_str(), calls(world)), ("TASK_STATE_FAILED", before));
    assert!(node.said(&id).contains("DAMAGED: ") && node.said(&id).contains("does not open"), "{}", node.said(&id));
    let (other_disk, other_world) = (sealed_disk().await, self::world());
    let other = start(&other_disk, other_world, UNENDING).await;
    let other_id = other.send().await.expect("it is accepted");
    other.settle().await;
    assert_eq!(other.state(&other_id), "TASK_STATE_COMPLETED");
}
