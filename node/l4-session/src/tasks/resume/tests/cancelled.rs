//! A task that waits for its agent, and is cancelled meanwhile.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_journal_of_a_task_that_waits_goes_with_the_write_that_cancels_it() {
    for is_damaged in [false, true] {
        let (disk, world) = (disk(), world());
        let id = cut_off(&disk, world, 8).await.expect("it was begun");
        let rows = disk.scan(SESSION_ROWS, Range::all(1)).expect("readable");
        let (key, _) = rows.first().expect("it has rows");
        if is_damaged {
            let mut damage = Batch::new();
            damage.put(SESSION_ROWS, key.clone(), b"no row".to_vec());
            disk.write(damage, Durability::Synced).await.expect("written");
        }
        // The node ends just after its first write.
        let node = Node::start(&disk, world, "1.0.0", 1).await;
        let request = serde_json::from_value(json!({ "id": id })).expect("a request");
        let metadata = CallMetadata::default();
        let cancelling = node.tasks.cancel(&node.agent, scope(), &request, &metadata);
        assert!(tokio::time::timeout(RETRY, cancelling).await.is_err(), "nobody hears of it");
        for family in [SESSION_ROWS, SESSION_HEADS] {
            assert!(disk.keys(family, Range::all(1)).expect("readable").is_empty(), "damaged: {is_damaged}");
        }
        let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
        assert_eq!(node.state(&id), "TASK_STATE_CANCELED");
        node.add();
        node.settle().await;
        assert!(node.sessions().list().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_task_waits_for_nobody_any_more() {
    let (disk, world, id) = in_doubt().await;
    let node = Node::start(&disk, world, "1.0.0", UNENDING).await;
    let request = serde_json::from_value(json!({ "id": id })).expect("a request");
    node.tasks.cancel(&node.agent, scope(), &request, &CallMetadata::default()).await.expect("it is cancelled");
    assert!(node.said(&id).contains("count/add"), "{}", node.said(&id));
    assert!(node.sessions().list().is_empty(), "before its agent is there");
    assert!(node.tasks.runner.store().journals().waiting().is_empty());
}
