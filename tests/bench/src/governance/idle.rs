//! What policies add to the memory of an idle node, beside a node without any.

use std::time::Duration;

use super::office;
use crate::faces::Node;
use crate::figures::{Goals, median};
use crate::idle::resident;

/// Pairs of nodes.
const ROUNDS: usize = 5;
/// How long both idle before their memory is read: a few heartbeats.
const IDLE: Duration = Duration::from_secs(5);
/// What a node with policies may hold more, MiB.
const ADDED_MIB_MAX: f64 = 3.0;

/// Prints the figure.
pub async fn run(goals: &mut Goals) {
    let (mut bare, mut added) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (without, with) = (Node::start(&[]).await, Node::start(&[]).await);
        let file = with.folder.path().join("policy.cedar");
        std::fs::write(&file, office::policies()).expect("a file");
        with.althing(&["policy", "load", &file.to_string_lossy()]).await;
        // Both were asked something.
        without.althing(&["policy", "status"]).await;
        let status = with.althing(&["policy", "status"]).await;
        assert_eq!(status["policies"], office::POLICIES, "{status}");
        tokio::time::sleep(IDLE).await;
        let (less, more) = (resident(&without.child), resident(&with.child));
        bare.push(less);
        added.push(more - less);
    }
    let added = median(added);
    println!(
        "  an idle node without policies: {:.1} MiB resident; with them {added:.1} MiB more {}",
        median(bare),
        goals.at_most(added, ADDED_MIB_MAX),
    );
}
