//! What is on record of an order of the owner by which work goes to another agent.

use althing_governance::{OwnerChange, records};
use althing_node::{Node, NodeError};
use althing_protocol::AgentRef;
use althing_td::{HandoffFile, handoff_json};

/// What it is called in the audit log.
const HANDING_OVER: &str = "handing over";

/// The owner has the work of a task offered to another agent: on record before it is, whatever becomes of it.
///
/// # Errors
/// [`NodeError::Unrecorded`]: it must not be offered.
pub async fn record_handoff(node: &Node, file: &HandoffFile) -> Result<(), NodeError> {
    let (view, handoff) = (handoff_json(file), &file.handoff);
    let id = view["handoff_id"].as_str().unwrap_or_default();
    let after = format!("task {} to {}, by handoff {id}", handoff.task_id, handoff.recipient);
    // Whatever its version: the task says that.
    let agent = AgentRef { id: handoff.sender.agent.clone(), version: "".into() };
    let change = OwnerChange { what: HANDING_OVER, agent: Some(&agent), before: "", after: &after };
    Ok(records::change(&node.governance, change).await?)
}

#[cfg(test)]
mod tests {
    use althing_governance::audit::{AuditFilter, RecordBody};
    use althing_protocol::AgentId;
    use althing_protocol::object::Handoff;

    use super::*;
    use crate::tests::started;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_order_to_hand_work_over_names_the_task_and_who_is_to_have_the_work() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let (node, _owner) = started(folder.path()).await;
        let agent = |name: &str| AgentId::new(node.owner().id(), name).expect("a name");
        let handoff = Handoff::new([7; 16], "t-1", (agent("clerk"), agent("auditor")), 1, 2);
        record_handoff(&node, &HandoffFile { handoff, signature: None }).await.expect("it is recorded");
        let filter = AuditFilter { action: Some(HANDING_OVER.to_owned()), ..AuditFilter::default() };
        let page = node.governance.audit().query(&filter, 8).await.expect("it is read");
        let [record] = page.records.as_slice() else { panic!("one entry: {:?}", page.records) };
        assert_eq!((record.leaf.agent.as_ref(), record.leaf.version.as_ref()), (Some(&agent("clerk")), None));
        let details = node.governance.audit().record_at(record.log, record.index).expect("it is there");
        let [RecordBody::Whole(after)] = details.bodies.as_slice() else { panic!("{:?}", details.bodies) };
        let told = String::from_utf8_lossy(&after.body);
        let expected = format!("task t-1 to {}, by handoff 07070707-0707-", agent("auditor"));
        assert!(told.starts_with(&expected), "{told}");
        node.shut_down().await;
    }
}
