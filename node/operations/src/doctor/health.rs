//! How each layer of a node is, from what the doctor finds.

use super::finding::Finding;
use super::health_words::{Health, LayerHealth};
use super::{diagnose, gather};
use crate::operations::Operations;

/// How each layer of the node is, as of some seconds ago. No peer is asked, and no registry.
pub async fn layer_health(node: &Operations) -> LayerHealth {
    let now_ms = node.clock().now_ms();
    if let Some(words) = node.health.fresh(now_ms) {
        return words;
    }
    let status = gather::gather(node, Vec::new(), Vec::new()).await;
    let words = by_layer(&diagnose(&status));
    node.health.keep(now_ms, words);
    words
}

/// The worst finding of each layer.
fn by_layer(findings: &[Finding]) -> LayerHealth {
    let mut words = LayerHealth::default();
    for finding in findings {
        let place = ["L1", "L2", "L3", "L4", "L5", "L6", "L7"].iter().position(|layer| *layer == finding.layer);
        let Some(word) = place.and_then(|place| words.get_mut(place)) else { continue };
        let found = match (finding.fine, finding.remedy.is_empty() && finding.next.is_none()) {
            (false, _) => Health::Wrong,
            (true, false) => Health::Note,
            (true, true) => Health::Well,
        };
        *word = (*word).max(found);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::finding::{fine, note, wrong};
    use super::*;

    #[test]
    fn each_layer_has_the_word_of_its_worst_finding() {
        let findings = [
            fine("L1", "it runs"),
            wrong("L3", "nobody is there", "wait"),
            note("L3", "one is silent", "look"),
            note("L6", "it is slow", "look"),
            fine("L8", "there is no such layer"),
        ];
        let (well, note, wrong) = (Health::Well, Health::Note, Health::Wrong);
        assert_eq!(by_layer(&findings), [well, well, wrong, well, well, note, well]);
        assert_eq!(by_layer(&[]), [well; 7], "what has nothing to say is well");
    }
}
