//! The journal of an agent whose memory is encrypted.

use super::*;
use crate::journal::row_seal::tests::sealed;

/// The rows of the turn of a message, as they are on disk.
fn stored(store: &Recorder, message: &str) -> Rows {
    store.inner.scan(SESSION_ROWS, Range::prefix(turn(message).0.prefix(), 100)).expect("readable")
}

/// A journal with a call that was made and one that was begun.
async fn written(journals: &Arc<Journals>, message: &str, seal: RowSeal) {
    let journal = open_with(journals, message, seal).expect("as it was written");
    let intent = go(&journal, "memory/get", Effect::Repeatable).await;
    journal.done(intent, &heard(json!("hidden words")), Batch::new()).await.expect("written");
    go(&journal, "mail/send", Effect::Final).await;
}

/// Puts a row in the place of another one.
async fn replace(store: &Recorder, key: &[u8], row: &[u8]) {
    let mut batch = Batch::new();
    batch.put(SESSION_ROWS, key, row);
    store.write(batch, Durability::Synced).await.expect("written");
}

#[tokio::test]
async fn no_row_is_readable_and_the_turn_goes_on_with_its_key() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    written(&journals, "m", sealed("one")).await;
    let rows = stored(&store, "m");
    assert_eq!(rows.len(), 3);
    for (_, row) in &rows {
        for plain in [&b"hidden"[..], b"memory/get", b"mail/send", b"clerk"] {
            assert!(!row.windows(plain.len()).any(|window| window == plain), "{plain:?}");
        }
    }
    let journal = open_with(&journals, "m", sealed("one")).expect("it has its key");
    let stored_bytes: usize = rows.iter().map(|(key, row)| key.len() + row.len()).sum();
    let plain = journal.ledger().bytes;
    assert_eq!(stored_bytes as u64, plain + journal.seal.more(3), "what is counted is what is stored");
    assert_eq!(
        reach(&journal, "memory/get", Effect::Repeatable).await,
        Ok(NextStep::Replayed(heard(json!("hidden words"))))
    );
    assert_eq!(journal.ledger().doubts.len(), 1);
    let mut batch = Batch::new();
    journal.close(&mut batch).await;
    store.write(batch, Durability::Synced).await.expect("written");
    assert_eq!(store.rows(), 0);
}

#[tokio::test]
async fn rows_that_do_not_open_are_damaged_and_other_turns_go_on() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    for (message, seal) in [("m", sealed("one")), ("n", sealed("one")), ("plain", RowSeal::of(None))] {
        written(&journals, message, seal).await;
    }
    let damaged = |message: &str, seal: RowSeal| match open_with(&journals, message, seal) {
        Ok(_) => panic!("{message}: it opened"),
        Err(damage) => damage.what,
    };
    assert!(damaged("m", sealed("two")).contains("does not open"));
    assert!(damaged("m", RowSeal::of(None)).contains("is not here"));
    assert!(damaged("plain", sealed("one")).contains("is not sealed"));

    // A bit of it was changed, it was cut, or it is a row of another turn, or of another place.
    let rows = stored(&store, "m");
    let (key, row) = &rows[1];
    let mut changed = row.clone();
    *changed.last_mut().expect("it has bytes") ^= 1;
    let elsewhere = stored(&store, "n")[1].1.clone();
    for other in [&changed[..], &row[..row.len() - 1], &[][..], &elsewhere[..], &rows[2].1[..]] {
        replace(&store, key, other).await;
        let what = damaged("m", sealed("one"));
        assert!(what.starts_with("row 1: "), "{what}");
    }
    for (message, seal) in [("n", sealed("one")), ("plain", RowSeal::of(None))] {
        assert!(open_with(&journals, message, seal).is_ok(), "{message}");
    }
    replace(&store, key, row).await;
    assert!(open_with(&journals, "m", sealed("one")).is_ok(), "it is as it was written");
}

#[tokio::test]
async fn checkpoints_are_sealed_too() {
    let store = Recorder::new();
    let journals = Arc::new(Journals::new(store.clone()));
    written(&journals, "m", sealed("one")).await;
    let journal = open_with(&journals, "n", sealed("one")).expect("it is new");
    let checkpoint =
        althing_execution::journal::Checkpoint { state: b"hidden".to_vec(), progress: Vec::new(), label: None };
    journal.replay().expect("it is for code, too").save(&checkpoint).await.expect("written");
    assert!(!stored(&store, "n").iter().any(|(_, row)| row.windows(6).any(|window| window == b"hidden")));
    drop(journal);
    let journal = open_with(&journals, "n", sealed("one")).expect("it has its key");
    assert_eq!(journal.replay().expect("it is for code, too").checkpoint(), Some(checkpoint));
}
