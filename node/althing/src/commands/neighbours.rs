//! Tells whoever watches a node who comes and goes: the owner's other nodes, those of whom the owner trusts, and a few others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use althing_discovery::TrustRelation;
use althing_operations::Operations;

use crate::commands::{print_line, short};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Looks after which a node that is not there has left: a connection may be replaced by another one.
const MISSED_MAX: u32 = 3;
/// Nodes of strangers of which is told: there may be any number of them.
const STRANGERS_MAX: usize = 8;

/// The owner of a node, and what it is to this node's owner.
type Whose = (TrustRelation, String);

/// What was told.
#[derive(Debug, Default)]
struct Neighbours {
    /// By node: whose it is, and at how many looks in a row it was not there.
    told: BTreeMap<String, (Whose, u32)>,
    strangers: usize,
}

/// Tells it until the node stops.
pub async fn tell(node: Arc<Operations>) {
    let mut neighbours = Neighbours::default();
    loop {
        neighbours.look(seen(&node)).iter().for_each(|line| print_line(line));
        tokio::select! {
            () = node.stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// The peers that are connected and have shown whose they are.
fn seen(node: &Operations) -> BTreeMap<String, Whose> {
    let whose = |peer| {
        let owner = node.communication.owner(peer)?;
        Some((short(&peer.did()), (node.calls.relation(owner), owner.to_string())))
    };
    node.communication.network().peers().iter().filter_map(|info| whose(info.peer)).collect()
}

impl Neighbours {
    /// What is to be told of who is there now.
    fn look(&mut self, now: BTreeMap<String, Whose>) -> Vec<String> {
        let mut lines = Vec::new();
        self.told.retain(|node, (_, missed)| {
            *missed = if now.contains_key(node) { 0 } else { *missed + 1 };
            let stays = *missed < MISSED_MAX;
            if !stays {
                lines.push(format!("{node} left"));
            }
            stays
        });
        for (node, whose) in now {
            if self.told.get(&node).is_some_and(|(known, _)| *known == whose) {
                continue;
            }
            let (relation, owner) = &whose;
            if *relation == TrustRelation::Stranger {
                if self.strangers == STRANGERS_MAX {
                    continue;
                }
                self.strangers += 1;
            }
            lines.push(match relation {
                TrustRelation::Own => format!("{node} joined: it is yours"),
                TrustRelation::Trusted => format!("{node} joined: you trust its owner"),
                TrustRelation::Stranger => {
                    format!(
                        "{node} is there, of another owner: `althing trust {owner}` lets it call this node's agents"
                    )
                }
            });
            self.told.insert(node, (whose, 0));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(of: &[(&str, TrustRelation)]) -> BTreeMap<String, Whose> {
        of.iter().map(|(node, relation)| ((*node).to_owned(), (*relation, "urn:x".to_owned()))).collect()
    }

    #[test]
    fn who_comes_is_told_once_and_who_leaves_when_it_stays_away() {
        let (own, stranger) = (("t2", TrustRelation::Own), ("t3", TrustRelation::Stranger));
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.look(all(&[own])), ["t2 joined: it is yours"]);
        assert!(neighbours.look(all(&[own])).is_empty());
        assert!(neighbours.look(all(&[])).is_empty() && neighbours.look(all(&[own])).is_empty(), "it only reconnected");
        let told = neighbours.look(all(&[own, stranger]));
        assert!(told.len() == 1 && told[0].contains("`althing trust urn:x`"), "{told:?}");
        assert_eq!(neighbours.look(all(&[own, ("t3", TrustRelation::Trusted)])), ["t3 joined: you trust its owner"]);
        let left: Vec<String> = (0..MISSED_MAX).flat_map(|_| neighbours.look(all(&[]))).collect();
        assert_eq!(left, ["t2 left", "t3 left"]);
    }

    #[test]
    fn of_many_strangers_a_few_are_told() {
        let mut neighbours = Neighbours::default();
        let many: Vec<String> = (0..50).map(|n| format!("stranger {n}")).collect();
        let many: Vec<(&str, TrustRelation)> =
            many.iter().map(|node| (node.as_str(), TrustRelation::Stranger)).collect();
        assert_eq!(neighbours.look(all(&many)).len(), STRANGERS_MAX);
        assert!(neighbours.look(all(&many)).is_empty());
    }
}
