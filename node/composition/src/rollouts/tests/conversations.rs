//! Conversations that several calls begin at once.

use althing_store::{Family, ReadError, Rows, Snapshot};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::*;

/// A store that takes what may be lost with the machine, and does not say when it has it.
struct Silent(MemoryStore);

impl Store for Silent {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.0.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        match durability {
            Durability::Synced => self.0.write(batch, durability),
            Durability::Buffered => futures::future::pending().boxed(),
        }
    }
}

#[tokio::test]
async fn two_calls_that_begin_a_conversation_at_once_have_one_version_also_where_the_share_grows_between_them() {
    let inner = MemoryStore::new(&FAMILIES);
    publish::write(&inner, &stored("1.0.0")).await.expect("it is written");
    begin_on(&inner, &[50, 100]).await.expect("it is written");
    let traffic = Traffic::on(Arc::new(Silent(inner)));
    let divided = traffic.rollouts.named("shop").expect("it is known");
    let names: Vec<String> = (0..30).map(|number| format!("talk-{number}")).collect();
    let call = |name: &String, message: &str| {
        let version = traffic.version(name, message, false).now_or_never();
        version.expect("it waits for no row of its conversation").expect("the calls are divided")
    };
    let first: Vec<Arc<str>> = names.iter().map(|name| call(name, "one")).collect();
    let mut versions = divided.versions();
    versions.promote(u64::MAX / 2).expect("it is under way");
    divided.set(versions);
    let second: Vec<Arc<str>> = names.iter().map(|name| call(name, "two")).collect();
    assert_eq!(second, first);
    let of_stable = second.iter().filter(|version| &***version == "1.0.0").count();
    assert!((5..=25).contains(&of_stable), "those that began with the old version stay with it: {of_stable} of 30");
}
