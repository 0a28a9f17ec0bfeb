//! Any bytes as orders of owners, as peers tell them and as they are kept, and as the payload of one under an honest signature: what
//! is accepted is written as it was read, is signed by its owner, and counts over what is older.
#![no_main]

use std::sync::LazyLock;

use althing_governance::machine::orders::{OrderBook, OrderNews, SignedOrder};
use althing_protocol::{KeyLog, SecretKey, cbor, keylog, sign1};
use libfuzzer_sys::fuzz_target;

const NOW_MS: u64 = 1_700_000_000_000;
/// Domain, and an empty network and scope.
const ORDER_AAD: &[u8] = b"\x83\x75althing/owner-order/1\x60\x60";

/// An owner: its key, the bytes of its key log, and the orders on its node.
struct Owner {
    key: SecretKey,
    log: Vec<u8>,
    book: OrderBook,
}

static OWNER: LazyLock<Owner> = LazyLock::new(|| {
    let key = |seed: u8| SecretKey::from_seed(&[seed; 32]);
    let first = keylog::inception(&key(3), [key(4).public(), key(5).public()], NOW_MS - 2 * 3_600_000);
    let publisher = KeyLog::verify(&[&first.bytes]).expect("a good inception").publisher();
    Owner { key: key(3), log: first.bytes, book: OrderBook::new(publisher) }
});

/// Returns whether the order verifies.
fn opened(order: &SignedOrder) -> bool {
    let Ok(proven) = order.open(None) else { return false };
    let again = SignedOrder::of(&proven);
    assert_eq!(again.digest(), order.digest());
    assert_eq!(order.claimed(), Some(proven.log.publisher()));
    let kept = SignedOrder::decode(&again.encode()).expect("what was written is read");
    assert_eq!(kept, again);
    let news = OrderNews::of([&proven].into_iter());
    assert_eq!(OrderNews::decode(&news.encode()).as_ref(), Ok(&news));
    let mut book = OWNER.book.clone();
    if let Ok(is_newer) = book.take(proven.clone(), NOW_MS) {
        assert!(is_newer, "nothing was known");
        assert_eq!(proven.order.body.publisher, proven.log.publisher(), "nobody orders for another owner");
        assert!(book.has(&order.digest()));
        assert_eq!(book.take(proven, NOW_MS), Ok(false), "the same one again is no news");
    }
    true
}

/// An order of the owner with that payload.
fn honest(payload: &[u8]) -> Vec<u8> {
    let order = sign1::seal(payload.to_vec(), ORDER_AAD, &OWNER.key);
    let mut bytes = minicbor::Encoder::new(Vec::new());
    let row = bytes.map(2).and_then(|to| to.u8(0)?.bytes(&order)?.u8(1)?.array(1)?.bytes(&OWNER.log));
    row.expect("writing to a vector cannot fail");
    bytes.into_writer()
}

fuzz_target!(|data: &[u8]| {
    if let Ok(news) = OrderNews::decode(data) {
        assert_eq!(news.encode(), data, "accepted bytes encode to themselves");
        for order in &news.orders {
            opened(order);
        }
    }
    if let Ok(order) = SignedOrder::decode(data) {
        opened(&order);
    }
    // Beyond the signature: the payload of what may be an envelope, signed by the owner.
    let envelope = sign1::read(data, 1 << 16);
    let payload = envelope.as_ref().map_or(data, |envelope| envelope.payload());
    if cbor::check(payload, 1 << 16).is_ok() {
        let order = SignedOrder::decode(&honest(payload)).expect("an order of that shape");
        opened(&order);
    }
});
