use std::collections::BTreeSet;

use althing_governance::machine::consent::Need;
use althing_protocol::Label;
use althing_protocol::contract::DataLabel;

use super::*;
use crate::tests::started;

/// Questions as a test sets them.
struct Board {
    open: Mutex<Vec<OpenQuestion>>,
    people: Arc<People>,
    changed: watch::Sender<u64>,
}

impl Board {
    fn set(&self, open: Vec<OpenQuestion>) {
        *self.open.lock().expect("no panic") = open;
        self.changed.send_modify(|version| *version += 1);
    }
}

impl Questions for Board {
    fn open(&self) -> Vec<OpenQuestion> {
        self.open.lock().expect("no panic").clone()
    }

    fn people(&self) -> Arc<People> {
        self.people.clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waiting).await.is_ok(), "it never came: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_told_once_also_over_a_restart_and_who_was_not_told_shows() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let (node, _owner) = started(folder.path()).await;
    let place = tempfile::TempDir::new().expect("a folder");
    let told = place.path().join("told");
    let people = format!(
        "people:\n  grace:\n    reach: [{{ command: [/bin/sh, -c, 'cat >> {}'], sandbox: {{ write: [{}] }} }}]\n  kay:\n    \
         reach: [{{ command: [/nowhere/tell] }}]\n",
        told.display(),
        place.path().display()
    );
    let people = Arc::new(People::read(&people).expect("a good file"));
    let board = Arc::new(Board { open: Mutex::default(), people: people.clone(), changed: watch::Sender::new(0) });
    let question = OpenQuestion {
        id: [7; 16],
        agent: "shop".to_owned(),
        action: "bank/transfer".to_owned(),
        needs: ["grace", "kay"].map(|person| Need::Consent { person: person.to_owned() }).to_vec(),
        answered: BTreeSet::new(),
        label: Label { level: DataLabel::Restricted, trusted: true },
        outline: vec!["iban = DE02".to_owned()],
        asked_ms: node.clock().now_ms(),
        expires_ms: node.clock().now_ms() + 3_600_000,
    };
    let open = || {
        let messenger = Messenger::new(node.data(), node.calls.clone(), node.host.clone());
        let delivery = Delivery::open(board.clone(), messenger, node.store.clone(), node.clock().clone());
        Arc::new(delivery.expect("readable"))
    };
    for start in 0..2 {
        let delivery = open();
        let runs = delivery.clone();
        let running = tokio::spawn(async move { runs.run().await });
        board.set(vec![question.clone()]);
        let rows = || node.store.scan(DELIVERIES, Range::all(9)).expect("readable").len();
        let open = [question.clone()];
        // Who is told half a minute later, by what the store has.
        let left = || {
            let mut kept = Deliveries::default();
            let rows = node.store.scan(DELIVERIES, Range::all(9)).expect("readable");
            let is_read = rows.first().is_some_and(|(_, row)| kept.take_row([7; 16], row));
            let later = kept.due(&open, &people, question.asked_ms + 31_000).notices;
            (is_read, later.into_iter().map(|notice| notice.person).collect::<Vec<_>>())
        };
        until("one was told and the other was not", || {
            delivery.troubles(&question).len() == 1 && left() == (true, vec!["kay".to_owned()])
        })
        .await;
        let trouble = delivery.troubles(&question).remove(0);
        assert_eq!((trouble.person.as_str(), trouble.attempts, trouble.next_ms.is_some()), ("kay", 1, true));
        let text = std::fs::read_to_string(&told).expect("it was told");
        assert_eq!(text.lines().count(), 1, "start {start}: {text}");
        assert!(!text.contains("DE02") && !text.contains("bank/transfer") && text.contains("restricted"), "{text}");
        if start == 1 {
            board.set(Vec::new());
            until("it is forgotten", || rows() == 0).await;
        }
        running.abort();
    }
    node.shut_down().await;
}
