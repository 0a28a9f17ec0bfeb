//! What Things are there after which records.

use althing_protocol::digest;
use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_700_000_000_000;
const SALT: [u8; SALT_BYTES] = [7; SALT_BYTES];

fn writer(name: &str) -> Writer {
    Writer { name: name.to_owned(), is_admin: false }
}

fn draft(id: &str, bytes: u64) -> Draft<'_> {
    Draft { id, title: "Lamp", body: digest(id.as_bytes()), bytes, ttl_s: None, expires_ms: None }
}

/// A log of records, and what follows from them.
#[derive(Default)]
struct Log {
    things: Things,
    next: u64,
    quotas: Quotas,
}

impl Log {
    fn write(&mut self, draft: &Draft<'_>, by: &Writer, expected: Expected, now: u64) -> Result<u64, ThingRefusal> {
        let written = self.things.judge(draft, by, expected, self.quotas, now, SALT)?;
        self.apply(&ThingRecord::Written(written))
    }

    fn put(&mut self, id: &str, by: &str) -> Result<u64, ThingRefusal> {
        self.write(&draft(id, 100), &writer(by), Expected::Anything, NOW)
    }

    fn delete(&mut self, id: &str, by: &Writer, now: u64) -> Result<u64, ThingRefusal> {
        let deleted = self.things.judge_deletion(id, by, Expected::Anything, now, SALT)?;
        self.apply(&ThingRecord::Deleted(deleted))
    }

    fn apply(&mut self, record: &ThingRecord) -> Result<u64, ThingRefusal> {
        let read = ThingRecord::decode(record.kind(), &record.encode()).expect("it is read as it was written");
        assert_eq!(&read, record);
        self.things.apply(self.next, &read);
        self.next += 1;
        Ok(self.next - 1)
    }

    fn ids(&self, now: u64) -> Vec<&str> {
        self.things.range((Bound::Unbounded, Bound::Unbounded), now).map(|thing| &*thing.written.id).collect()
    }
}

#[test]
fn a_thing_is_its_writers_alone() {
    let mut log = Log::default();
    assert_eq!(log.put("urn:a", "alice"), Ok(0));
    assert_eq!(log.put("urn:a", "bob"), Err(ThingRefusal::NotYours("urn:a".to_owned())));
    assert_eq!(log.put("urn:a", "alice"), Ok(1));
    let admin = Writer { name: "carol".to_owned(), is_admin: true };
    assert_eq!(log.write(&draft("urn:a", 5), &admin, Expected::Anything, NOW + 1), Ok(2));
    let thing = log.things.get("urn:a", NOW + 1).expect("it is there");
    assert_eq!((thing.created, thing.index, thing.written.follows), (0, 2, Some(1)));
    assert_eq!((thing.written.owner.as_str(), thing.written.by.as_str()), ("alice", "carol"), "it stays hers");
    assert_eq!(log.delete("urn:a", &writer("bob"), NOW), Err(ThingRefusal::NotYours("urn:a".to_owned())));
    assert_eq!(log.delete("urn:a", &writer("alice"), NOW), Ok(3));
    assert_eq!(log.delete("urn:a", &writer("alice"), NOW), Err(ThingRefusal::None("urn:a".to_owned())));
    assert_eq!((log.things.count(NOW), log.ids(NOW).len()), (0, 0));
}

#[test]
fn what_a_writer_expects_must_be_there() {
    let mut log = Log::default();
    let alice = writer("alice");
    let changed = Err(ThingRefusal::Changed("urn:a".to_owned()));
    assert_eq!(log.write(&draft("urn:a", 1), &alice, Expected::Something, NOW), changed);
    log.put("urn:a", "alice").expect("written");
    assert_eq!(log.write(&draft("urn:a", 1), &alice, Expected::Entry(0), NOW), Ok(1));
    assert_eq!(log.write(&draft("urn:a", 1), &alice, Expected::Entry(0), NOW), changed);
    assert_eq!(log.write(&draft("urn:a", 1), &alice, Expected::Something, NOW), Ok(2));
}

#[test]
fn no_id_is_an_agents_or_none() {
    let mut log = Log::default();
    for id in ["urn:althing:z6Mk:echo", "URN:Althing:x", "urn:althing:"] {
        assert_eq!(log.put(id, "alice"), Err(ThingRefusal::Agent(id.to_owned())), "{id}");
        assert_eq!(log.delete(id, &writer("alice"), NOW), Err(ThingRefusal::Agent(id.to_owned())), "{id}");
    }
    let long = format!("urn:{}", "x".repeat(THING_ID_BYTES_MAX));
    for id in ["", "lamp", ":x", "1urn:x", "urn:a b", "urn:a\n", "ürn:x", &long] {
        assert!(matches!(log.put(id, "alice"), Err(ThingRefusal::Id { .. })), "{id}");
    }
    for id in ["urn:a", "https://example.org/a?b#c", "urn:dev:ops:32473-Lamp", "did:web:example.org", "urn:althin"] {
        assert!(log.put(id, "alice").is_ok(), "{id}");
    }
}

#[test]
fn a_thing_ends_without_an_entry_and_goes_with_the_next() {
    let mut log = Log::default();
    let alice = writer("alice");
    let short = Draft { ttl_s: Some(60), ..draft("urn:a", 100) };
    log.write(&short, &alice, Expected::Anything, NOW).expect("written");
    log.put("urn:b", "alice").expect("written");
    assert_eq!(log.ids(NOW + 59_999), ["urn:a", "urn:b"]);
    assert_eq!((log.ids(NOW + 60_000), log.things.count(NOW + 60_000)), (vec!["urn:b"], 1));
    assert_eq!(log.things.forgotten(NOW + 60_000).count(), 1);
    // It is registered anew: another may take the id.
    assert_eq!(log.write(&draft("urn:a", 1), &writer("bob"), Expected::Anything, NOW + 60_000), Ok(2));
    let again = log.things.get("urn:a", NOW + 60_000).expect("it is there");
    assert_eq!((again.created, again.written.follows, again.written.owner.as_str()), (2, None, "bob"));
    assert_eq!(log.things.amounts.get("alice"), Some(&Amount { things: 1, bytes: 100 }));
    let over = Draft { expires_ms: Some(NOW), ..draft("urn:c", 1) };
    assert_eq!(log.write(&over, &alice, Expected::Anything, NOW), Err(ThingRefusal::Over));
    for ttl in [0, TTL_S_MAX + 1, u64::MAX] {
        let wrong = Draft { ttl_s: Some(ttl), ..draft("urn:c", 1) };
        assert_eq!(log.write(&wrong, &alice, Expected::Anything, NOW), Err(ThingRefusal::Ttl { max: TTL_S_MAX }));
    }
}

#[test]
fn quotas_are_of_each_and_of_all() {
    let quotas = Quotas { all: Amount { things: 3, bytes: 1_000 }, each: Amount { things: 2, bytes: 500 } };
    let mut log = Log { quotas, ..Log::default() };
    let alice = writer("alice");
    log.write(&draft("urn:a", 400), &alice, Expected::Anything, NOW).expect("written");
    let more = log.write(&draft("urn:b", 101), &alice, Expected::Anything, NOW);
    assert!(matches!(more, Err(ThingRefusal::WriterFull { things: 1, bytes: 400, things_max: 2, bytes_max: 500 })));
    // What takes the place of another counts alone.
    log.write(&draft("urn:a", 500), &alice, Expected::Anything, NOW).expect("written");
    log.write(&draft("urn:b", 0), &alice, Expected::Anything, NOW).expect("written");
    assert!(matches!(log.put("urn:c", "alice"), Err(ThingRefusal::WriterFull { .. })));
    let short = Draft { ttl_s: Some(1), ..draft("urn:c", 400) };
    log.write(&short, &writer("bob"), Expected::Anything, NOW).expect("written");
    assert!(matches!(log.put("urn:d", "carol"), Err(ThingRefusal::Full { things_max: 3, bytes_max: 1_000 })));
    let later = log.write(&draft("urn:d", 400), &writer("carol"), Expected::Anything, NOW + 1_000);
    assert!(later.is_ok(), "what has ended counts no more: {later:?}");
}

/// A step of a history: which Thing, who, what, and how much later.
fn steps() -> impl Strategy<Value = Vec<(u8, u8, u8, u64)>> {
    proptest::collection::vec((0..6_u8, 0..3_u8, 0..4_u8, 0..3_000_u64), 0..60)
}

proptest! {
    #[test]
    fn what_is_counted_is_what_is_there(steps in steps()) {
        let mut log = Log::default();
        let mut now = NOW;
        for (thing, who, what, later) in steps {
            now += later;
            let (id, by) = (format!("urn:t{thing}"), writer(&format!("w{who}")));
            // Refusals are as good as anything: the state must hold after each.
            let _ = match what {
                0 => log.delete(&id, &by, now),
                1 => log.write(&Draft { ttl_s: Some(2), ..draft(&id, 10) }, &by, Expected::Anything, now),
                _ => log.write(&draft(&id, u64::from(what)), &by, Expected::Anything, now),
            };
            let all = || log.things.range((Bound::Unbounded, Bound::Unbounded), now);
            prop_assert_eq!(log.things.count(now), all().count() as u64);
            let kept = log.things.by_id.values();
            let bytes: u64 = kept.clone().map(|thing| thing.written.bytes).sum();
            prop_assert_eq!(log.things.all, Amount { things: kept.clone().count() as u64, bytes });
            let of_owners = log.things.amounts.values().fold(Amount::default(), |sum, one| Amount {
                things: sum.things + one.things,
                bytes: sum.bytes + one.bytes,
            });
            prop_assert_eq!(of_owners, log.things.all);
            let ending = kept.filter(|thing| thing.written.expires_ms.is_some()).count();
            prop_assert_eq!(log.things.ending.len(), ending);
        }
    }
}
