//! What is recorded, shown, erased and ended, and what is refused.

use super::*;

#[tokio::test]
async fn a_leaf_is_on_disk_with_its_cause_and_gets_into_the_log_once() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    let (id, rows) = log.named_entry(intent(1)).expect("it has room");
    assert_eq!(log.record(&id).await.expect("it is whole"), None, "nobody wrote the cause");
    write(&store, rows.clone()).await;
    let found = log.record(&id).await.expect("it is whole").expect("it is there");
    assert_eq!((found.log, found.index, found.id), (1, 0, id));
    assert_eq!(found.leaf.action.as_deref(), Some("shop/order-1"));
    write(&store, rows).await;
    record(&log, &store, outcome(1)).await;
    assert_eq!(actions(&log).await, ["shop/order-1", "shop/order-1"], "one of each stage");
    assert_eq!(log.check().expect("it is whole").size, 2);
    drop(log);
    let again = world.open(&store).await;
    assert_eq!(actions(&again).await.len(), 2);
    assert_eq!(again.checkpoint().head.size, 2);
}

#[tokio::test]
async fn leaves_are_in_the_order_in_which_they_were_drafted() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    let rows: Vec<Batch> = (0..20).map(|number| log.entry(intent(number)).expect("it has room")).collect();
    for rows in rows.into_iter().rev() {
        write(&store, rows).await;
    }
    let expected: Vec<String> = (0..20).map(|number| format!("shop/order-{number}")).collect();
    assert_eq!(actions(&log).await, expected);
}

#[tokio::test]
async fn a_list_has_what_fits_and_goes_on_where_it_ended() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    for number in 0..6 {
        record(&log, &store, intent(number)).await;
        record(&log, &store, outcome(number)).await;
    }
    let mut filter = AuditFilter { stage: Some(AuditStage::Outcome), ..AuditFilter::default() };
    let first = log.query(&filter, 4).await.expect("it is whole");
    filter.before = first.next;
    let second = log.query(&filter, 4).await.expect("it is whole");
    let numbers: Vec<u64> = first.records.iter().chain(&second.records).map(|record| record.index).collect();
    assert_eq!(numbers, [11, 9, 7, 5, 3, 1]);
    assert_eq!(second.next, None);
    for (filter, count) in [
        (AuditFilter { action: Some("shop/order-3".to_owned()), ..AuditFilter::default() }, 2),
        (AuditFilter { person: Some("ada".to_owned()), ..AuditFilter::default() }, 12),
        (AuditFilter { person: Some("bob".to_owned()), ..AuditFilter::default() }, 0),
        (AuditFilter { from_ms: Some(NOW_MS + 4), ..AuditFilter::default() }, 4),
        (AuditFilter { until_ms: Some(NOW_MS + 1), ..AuditFilter::default() }, 2),
        (AuditFilter { outcome: Some(AuditOutcome::Failed), ..AuditFilter::default() }, 0),
    ] {
        assert_eq!(log.query(&filter, 1_000).await.expect("it is whole").records.len(), count, "{filter:?}");
    }
}

/// P-212
#[tokio::test]
async fn an_exported_leaf_is_verified_without_the_node() {
    let (world, store, watcher) = (World::new(), memory(), Watcher::new());
    let log = world.open(&store).await;
    for number in 0..5 {
        record(&log, &store, with_body(number, "ada")).await;
    }
    log.drain().await.expect("it is written");
    log.cosign(&watcher.note_key(), &watcher).await.expect("it signs");
    record(&log, &store, intent(9)).await;
    log.drain().await.expect("it is written");
    let text = log.export(1, 2, true).expect("it is there").to_string();
    let evidence = verify_offline(text.as_bytes(), &log.log_key(), &[watcher.note_key()], 1).expect("it is shown");
    assert_eq!((evidence.index, evidence.checkpoint.head.size), (2, 5), "under what the witness signed");
    assert!(text.contains("\nbody arguments "));
    let bare = log.export(1, 5, false).expect("it is there").to_string();
    assert!(verify_offline(bare.as_bytes(), &log.log_key(), &[], 0).is_ok());
    assert!(verify_offline(bare.as_bytes(), &log.log_key(), &[watcher.note_key()], 1).is_err(), "not signed yet");
}

#[tokio::test]
async fn whoever_erases_a_name_that_is_misspelt_hears_that_nothing_is_there() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    record(&log, &store, with_body(1, "ada")).await;
    for (subject, is_there) in [("Ada", false), ("ada", true), ("ada", false)] {
        let order = EraseOrder { subject: subject.to_owned(), principals: vec!["owner".to_owned()] };
        assert_eq!(log.erase(order).await.expect("it is written"), is_there, "{subject}");
    }
}

/// P-210
#[tokio::test]
async fn who_is_erased_leaves_leaves_that_prove_and_no_body() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    // Both of the first two batches bring her key.
    let (late, rows) = log.named_entry(with_body(3, "ada")).expect("it has room");
    let ada = record(&log, &store, with_body(1, "ada")).await;
    let bob = record(&log, &store, with_body(2, "bob")).await;
    let whole = log.record(&ada).await.expect("it is whole").expect("it is there");
    assert!(matches!(&whole.bodies[..], [RecordBody::Whole(body)] if body.body == b"{\"number\":1}"));
    let order = EraseOrder { subject: "ada".to_owned(), principals: vec!["owner".to_owned()] };
    log.erase(order).await.expect("it is written");
    // A batch that was on its way arrives afterwards.
    write(&store, rows).await;
    let after = record(&log, &store, with_body(4, "ada")).await;
    for is_opened_again in [false, true] {
        let log = if is_opened_again { world.open(&store).await } else { log.clone() };
        for (id, is_there) in [(ada, false), (late, false), (bob, true), (after, true)] {
            let found = log.record(&id).await.expect("it is whole").expect("it is there");
            let whole = matches!(&found.bodies[..], [RecordBody::Whole(_)]);
            assert_eq!(whole, is_there, "{:?}", found.leaf.action);
            let text = log.export(1, found.index, true).expect("it is there").to_string();
            assert!(verify_offline(text.as_bytes(), &log.log_key(), &[], 0).is_ok());
        }
        assert_eq!(log.check().expect("it is whole").size, 5, "four, and that it was erased");
    }
    let erased = actions(&log).await.into_iter().find(|action| action.starts_with("audit/erase/"));
    assert_eq!(erased.map(|action| action.len()), Some("audit/erase/".len() + 64), "by a digest");
}

#[tokio::test]
async fn bodies_end_with_their_time_or_earlier_by_order_and_hashes_stay() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    let mut ids = Vec::new();
    for number in 0..4 {
        ids.push(record(&log, &store, with_body(number, "ada")).await);
    }
    log.drain().await.expect("it is written");
    let full = log.usage().bytes;
    assert!(full > 0);
    assert_eq!(log.expire().await.expect("it is written"), 0, "none is old");
    let order = PruneOrder { before_ms: NOW_MS + 2, principals: vec!["owner".to_owned()], consent: None };
    let ended = log.prune(order).await.expect("it is written");
    assert_eq!((ended, log.usage().bytes), (full / 2, full / 2));
    for (id, is_there) in ids.iter().zip([false, false, true, true]) {
        let found = log.record(id).await.expect("it is whole").expect("it is there");
        assert_eq!(matches!(&found.bodies[..], [RecordBody::Whole(_)]), is_there);
    }
    world.now_ms.fetch_add(AuditConfig::default().retention_ms + 10, Ordering::SeqCst);
    assert_eq!(log.expire().await.expect("it is written"), full / 2);
    assert_eq!(world.open(&store).await.usage().bytes, 0);
    assert_eq!(log.check().expect("it is whole").size, 5);
}

#[tokio::test]
async fn where_bodies_have_no_room_effects_are_refused_and_what_was_begun_is_recorded() {
    let (world, store) = (World::new(), memory());
    let log = world.open_with(&store, AuditConfig { share_bytes: 4_000, ..AuditConfig::default() }).await;
    let mut number = 0;
    let refusal = loop {
        match log.entry(with_body(number, "ada")) {
            Ok(rows) => write(&store, rows).await,
            Err(refusal) => break refusal,
        }
        log.drain().await.expect("it is written");
        number += 1;
    };
    assert!(matches!(refusal, AuditUnavailable::Full { share: 4_000, .. }));
    assert!(log.usage().is_near());
    assert!(log.entry(intent(number)).is_ok(), "without a body");
    assert!(log.entry(outcome(number - 1).with(BodyRole::Result, b"done".to_vec())).is_ok(), "of what was begun");
    let order = PruneOrder { before_ms: u64::MAX, principals: vec!["owner".to_owned()], consent: None };
    log.prune(order).await.expect("it is written");
    assert!(log.entry(with_body(number, "ada")).is_ok());
}

#[tokio::test]
async fn of_a_body_that_is_too_large_the_salt_is_kept() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    let large = vec![b'x'; (1 << 20) + 1];
    let id = record(&log, &store, intent(1).with(BodyRole::Arguments, large.clone())).await;
    let found = log.record(&id).await.expect("it is whole").expect("it is there");
    let [RecordBody::Salt { salt, bytes, .. }] = &found.bodies[..] else { panic!("{:?}", found.bodies.len()) };
    assert_eq!(*bytes, large.len() as u64);
    assert!(found.leaf.bodies[0].names(salt, &large));
}

#[tokio::test]
async fn a_leaf_that_a_reader_would_refuse_is_refused_before_its_cause() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    let twice = intent(1).with(BodyRole::Arguments, b"1".to_vec()).with(BodyRole::Arguments, b"2".to_vec());
    assert!(matches!(log.entry(twice), Err(AuditUnavailable::Leaf(_))));
    let mut nameless = intent(1);
    nameless.leaf.action = None;
    assert!(matches!(log.entry(nameless), Err(AuditUnavailable::Leaf(_))));
}

#[tokio::test(start_paused = true)]
async fn the_sequencer_finds_what_is_written_after_it_was_drafted() {
    let (world, store) = (World::new(), memory());
    let log = world.open(&store).await;
    let (_, rows) = log.named_entry(intent(1)).expect("it has room");
    let (keeping, head) = (log.clone(), log.clone());
    let kept = async move { keeping.keep().await };
    let found = async move {
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        write(&store, rows).await;
        while head.checkpoint().head.size == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = kept => {}
        () = found => {}
    }
    assert_eq!(log.checkpoint().head.size, 1);
}
