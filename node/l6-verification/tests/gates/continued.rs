//! An artifact of an earlier turn that a later one adds to: to callers the two are one, and nobody judged that.

use a2a::{Message, Part, Role, TaskState};
use althing_execution::AgentError;
use althing_execution::agent::Made;
use serde_json::json;

use super::artifact;
use super::malformed::{host_with, turn};

fn piece(text: &str, append: bool) -> Made {
    artifact(vec![Part::text(text)], append)
}

#[tokio::test]
async fn an_artifact_of_an_earlier_turn_is_not_made_longer_by_what_is_judged_by_itself() {
    let asks = Made::Status(TaskState::InputRequired, Some(Message::new(Role::Agent, vec![Part::text("and?")])));
    let small = json!({ "output": { "type": "integer", "maximum": 100 } });
    for deliver in ["checked", "early"] {
        let scene = host_with(&json!({ "schema": small, "deliver": deliver }));
        let (shown, ended) = turn(&scene, &[], vec![piece("12", false), asks.clone()]).await;
        let [Made::Artifact { artifact: first, .. }, Made::Status(..)] = &shown[..] else { panic!("{shown:?}") };
        assert_eq!((ended, first.parts[0].as_text()), (Ok(()), Some("12")), "{deliver}");
        let has = std::slice::from_ref(first);

        let (shown, ended) = turn(&scene, has, vec![piece("34", true)]).await;
        let Err(AgentError::GateRefused(why)) = ended else { panic!("{deliver}: {ended:?}") };
        assert!(why.contains("the gate `deliver`") && why.contains(&first.artifact_id), "{why}");
        assert!(why.contains("send the whole artifact again"), "{why}");
        assert_eq!(shown.is_empty(), deliver == "checked", "{shown:?}");

        for outputs in [vec![piece("34", false)], vec![piece("3", false), piece("4", true)]] {
            let (shown, ended) = turn(&scene, has, outputs.clone()).await;
            assert_eq!((ended, shown.len()), (Ok(()), outputs.len()), "{deliver}: it takes the place of the first");
        }
        let (_, ended) = turn(&scene, &[], vec![piece("34", true)]).await;
        assert_eq!(ended, Ok(()), "{deliver}: there is nothing to add to");
    }
}

#[tokio::test]
async fn where_nothing_is_judged_a_later_turn_adds_to_what_it_likes() {
    let scene = host_with(&json!({}));
    let Made::Artifact { artifact: first, .. } = piece("12", false) else { panic!("it is one") };
    let (shown, ended) = turn(&scene, &[first], vec![piece("34", true)]).await;
    assert_eq!((ended, shown), (Ok(()), vec![piece("34", true)]));
}
