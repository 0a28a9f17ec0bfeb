//! What a stream has told of a task, and how whoever reads it is brought up to date from the task as it is by now. A stream of A2A has
//! one Task, its first event: after that, updates alone.

use std::collections::BTreeSet;

use a2a::{Artifact, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent};
use althing_session::machine::task::is_idle;

/// Artifacts that are remembered as told, and bytes of the id of one: no node of this project lets a task have more.
const ARTIFACTS_MAX: usize = 256;
const ARTIFACT_ID_BYTES_MAX: usize = 1 << 10;

/// What one stream has told of its task.
#[derive(Debug, Default)]
pub(crate) struct StreamView {
    /// The task, and its state as far as it was told.
    task: Option<(String, TaskState)>,
    /// Whether the Task itself was told.
    is_begun: bool,
    /// The ids of the artifacts that were told.
    artifacts: BTreeSet<String>,
}

impl StreamView {
    /// Notes an event that is told.
    pub fn note(&mut self, event: &StreamResponse) {
        match event {
            StreamResponse::Task(task) => {
                self.task = Some((task.id.clone(), task.status.state.clone()));
                self.is_begun = true;
                self.artifacts.clear();
                task.artifacts.iter().flatten().for_each(|artifact| self.note_artifact(artifact));
            }
            StreamResponse::StatusUpdate(update) => {
                self.task = Some((update.task_id.clone(), update.status.state.clone()));
            }
            StreamResponse::ArtifactUpdate(update) => self.note_artifact(&update.artifact),
            StreamResponse::Message(_) => {}
        }
    }

    fn note_artifact(&mut self, artifact: &Artifact) {
        if self.artifacts.len() < ARTIFACTS_MAX && artifact.artifact_id.len() <= ARTIFACT_ID_BYTES_MAX {
            self.artifacts.insert(artifact.artifact_id.clone());
        }
    }

    /// The task of which more is to come: none where it rests, and where nobody knows yet which one it is.
    pub fn unfinished(&self) -> Option<&str> {
        self.task.as_ref().filter(|(_, state)| !is_idle(state)).map(|(task, _)| task.as_str())
    }

    /// What is told of a task as it is by now: the task itself where it was not told yet, and else each of its artifacts anew, in place
    /// of what was told of it, and its status. An artifact that it has no more is emptied: no event takes one away. That nothing is
    /// added to an artifact is known where the task is over.
    pub fn catch_up(&self, task: Task) -> Vec<StreamResponse> {
        if !self.is_begun {
            return vec![StreamResponse::Task(task)];
        }
        let Task { id, context_id, status, artifacts, history: _, metadata } = task;
        let artifacts = artifacts.unwrap_or_default();
        let has = |told: &str| artifacts.iter().any(|artifact| artifact.artifact_id == told);
        let gone: Vec<Artifact> = self.artifacts.iter().filter(|told| !has(told)).map(|told| empty(told)).collect();
        let last_chunk = status.state.is_terminal().then_some(true);
        let update = |artifact: Artifact| {
            StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
                task_id: id.clone(),
                context_id: context_id.clone(),
                artifact,
                append: Some(false),
                last_chunk,
                metadata: None,
            })
        };
        let mut events: Vec<StreamResponse> = gone.into_iter().chain(artifacts).map(update).collect();
        events.push(StreamResponse::StatusUpdate(TaskStatusUpdateEvent { task_id: id, context_id, status, metadata }));
        events
    }
}

/// An artifact of no content. A2A wants one part at least.
fn empty(artifact_id: &str) -> Artifact {
    Artifact {
        artifact_id: artifact_id.to_owned(),
        name: None,
        description: None,
        parts: vec![Part::text("")],
        metadata: None,
        extensions: None,
    }
}

#[cfg(test)]
mod tests {
    use a2a::{Message, Role, TaskStatus};
    use serde_json::{Value, json};

    use super::*;

    fn artifact(id: &str, text: &str) -> Artifact {
        Artifact { parts: vec![Part::text(text)], ..empty(id) }
    }

    fn task(state: TaskState, artifacts: Vec<Artifact>) -> Task {
        let message = Some(Message::new(Role::Agent, vec![Part::text("so far")]));
        Task {
            id: "t".to_owned(),
            context_id: "c".to_owned(),
            status: TaskStatus { state, message, timestamp: None },
            artifacts: Some(artifacts),
            history: Some(vec![Message::new(Role::User, vec![Part::text("do it")])]),
            metadata: Some([("about".to_owned(), json!("it"))].into()),
        }
    }

    /// What a view tells of a task, each event as its kind, the artifact's id and text or the state, and whether it is the last.
    fn told(view: &StreamView, task: Task) -> Vec<Value> {
        let event = |event: StreamResponse| match event {
            StreamResponse::ArtifactUpdate(update) => {
                assert_eq!((update.task_id.as_str(), update.context_id.as_str()), ("t", "c"));
                assert_eq!(update.append, Some(false), "it replaces");
                let text = update.artifact.parts[0].as_text().map(str::to_owned);
                json!(["artifact", update.artifact.artifact_id, text, update.last_chunk])
            }
            StreamResponse::StatusUpdate(update) => {
                assert_eq!((update.task_id.as_str(), update.context_id.as_str()), ("t", "c"));
                assert!(update.status.message.is_some(), "with what is said of it");
                let about = update.metadata.map(|metadata| metadata["about"].clone());
                json!(["status", update.status.state, about])
            }
            StreamResponse::Task(task) => json!(["task", task.status.state]),
            StreamResponse::Message(_) => json!("message"),
        };
        view.catch_up(task).into_iter().map(event).collect()
    }

    fn begun(artifacts: Vec<Artifact>) -> StreamView {
        let mut view = StreamView::default();
        view.note(&StreamResponse::Task(task(TaskState::Working, artifacts)));
        view
    }

    #[test]
    fn whoever_was_told_the_task_is_told_updates_and_no_second_task() {
        let view = begun(Vec::new());
        let now = task(TaskState::Working, vec![artifact("a", "one"), artifact("b", "two")]);
        let expected = [
            json!(["artifact", "a", "one", null]),
            json!(["artifact", "b", "two", null]),
            json!(["status", "TASK_STATE_WORKING", "it"]),
        ];
        assert_eq!(told(&view, now), expected);
    }

    #[test]
    fn of_a_task_that_is_over_each_artifact_is_whole_and_its_state_comes_last() {
        let view = begun(Vec::new());
        let over = told(&view, task(TaskState::Completed, vec![artifact("a", "all")]));
        assert_eq!(over, [json!(["artifact", "a", "all", true]), json!(["status", "TASK_STATE_COMPLETED", "it"])]);
        let nothing = told(&view, task(TaskState::Canceled, Vec::new()));
        assert_eq!(nothing, [json!(["status", "TASK_STATE_CANCELED", "it"])]);
    }

    #[test]
    fn whoever_was_not_told_the_task_yet_is_told_it_whole() {
        let mut view = StreamView::default();
        let now = task(TaskState::Working, vec![artifact("a", "one")]);
        assert_eq!(told(&view, now.clone()), [json!(["task", "TASK_STATE_WORKING"])]);
        // A node that tells something else first has not told the task.
        let update = begun(Vec::new()).catch_up(now.clone()).pop().expect("its status");
        view.note(&update);
        assert_eq!(view.unfinished(), Some("t"));
        assert_eq!(told(&view, now), [json!(["task", "TASK_STATE_WORKING"])]);
    }

    #[test]
    fn an_artifact_that_was_told_and_is_there_no_more_is_emptied() {
        let mut view = begun(vec![artifact("a", "of before")]);
        let piece = begun(Vec::new()).catch_up(task(TaskState::Working, vec![artifact("b", "too")])).remove(0);
        view.note(&piece);
        let now = told(&view, task(TaskState::Completed, vec![artifact("c", "all")]));
        let expected = [
            json!(["artifact", "a", "", true]),
            json!(["artifact", "b", "", true]),
            json!(["artifact", "c", "all", true]),
            json!(["status", "TASK_STATE_COMPLETED", "it"]),
        ];
        assert_eq!(now, expected);
    }

    #[test]
    fn more_is_to_come_of_a_task_that_works_and_of_no_other() {
        assert_eq!(StreamView::default().unfinished(), None);
        for (state, is_unfinished) in [
            (TaskState::Submitted, true),
            (TaskState::Working, true),
            (TaskState::InputRequired, false),
            (TaskState::Completed, false),
        ] {
            let mut view = StreamView::default();
            view.note(&StreamResponse::Task(task(state, Vec::new())));
            assert_eq!(view.unfinished().is_some(), is_unfinished);
        }
    }
}
