//! Proofs of domains are looked for again, many at a time.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::party::Party;
use crate::support::{NOW, Served, open};
use althing_protocol::registry::{Domain, DomainFinding, Means};
use althing_registry::domain::{DomainLookup, repeat};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Barrier;

/// Name servers that answer when so many were asked at one time.
struct Together {
    barrier: Barrier,
    asked: AtomicUsize,
    most: AtomicUsize,
    domains: Mutex<BTreeSet<String>>,
}

impl DomainLookup for Together {
    fn well_known<'a>(&'a self, _: &'a Domain) -> BoxFuture<'a, Result<Option<String>, String>> {
        async { Ok(None) }.boxed()
    }

    fn records<'a>(&'a self, domain: &'a Domain) -> BoxFuture<'a, Result<Vec<String>, String>> {
        async move {
            let asked = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(asked, Ordering::SeqCst);
            self.domains.lock().expect("no holder panics").insert(domain.to_string());
            self.barrier.wait().await;
            self.asked.fetch_sub(1, Ordering::SeqCst);
            Ok(vec![format!("althing={}", Party::new(1).id())])
        }
        .boxed()
    }
}

#[tokio::test]
async fn due_proofs_are_looked_for_many_at_a_time() {
    const AT_ONCE: usize = 32;
    let (served, organisation) = (Served::start(open()).await, Party::new(1).id());
    for at in 0..2 * AT_ONCE {
        let domain = format!("d{at}.example.org").parse().expect("a domain");
        let finding = DomainFinding { domain, organisation, means: Means::Dns, proven: true };
        assert!(served.registry.names().found(finding).await.expect("written down"));
    }
    let together = Together {
        barrier: Barrier::new(AT_ONCE),
        asked: AtomicUsize::default(),
        most: AtomicUsize::default(),
        domains: Mutex::default(),
    };
    assert_eq!(repeat(&served.registry, &together).await.expect("nothing is due"), 0);
    served.now.store(NOW + 24 * 60 * 60 * 1_000, Ordering::SeqCst);
    let repeated = tokio::time::timeout(Duration::from_secs(60), repeat(&served.registry, &together)).await;
    assert_eq!(repeated.expect("one does not wait for the other").expect("repeated"), 2 * AT_ONCE);
    let names = together.domains.lock().expect("no holder panics").len();
    assert_eq!((names, together.most.load(Ordering::SeqCst)), (2 * AT_ONCE, AT_ONCE));
    assert!(served.registry.names().due_proofs().is_empty(), "each was written down");
}
