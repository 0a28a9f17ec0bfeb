//! Runs of cases with an agent of another node. It is called as by any caller, so that its answer is seen here, and how long it took.
//! Which tools it calls there, and what they change, nothing here sees or keeps from it.

use std::time::Duration;

use a2a::{
    Artifact, Message, Part, PartContent, Role, SendMessageRequest, SendMessageResponse, Task, TaskState, TaskStatus,
};
use althing_calls::{
    Asker, CallRequest, Callee, Operation, OperationError, OperationRequest, Principal, Purpose, RehearsalError, Reply,
};
use althing_protocol::{AgentId, Attributes};
use althing_verification::machine::cases::{Case, Grade};
use althing_verification::machine::report::{CaseRun, Observation, RunFigures, Scorer};
use althing_verification::machine::tape::answer_data;
use tokio::time::Instant;

use super::error::TestError;
use super::run::{answer, milliseconds, of_case};
use super::subject::Subject;
use super::{AgentTests, TestOrder};

/// How long one answer is waited for; as long as a turn of a test here takes.
const ANSWER_MAX: Duration = Duration::from_secs(600);

impl AgentTests<'_> {
    /// The agent that is meant: one of this node, and else, in a live test, one of another node. What happens there the owner has to
    /// accept, since nobody here can keep that node to anything.
    pub(super) async fn subject(&self, order: &TestOrder) -> Result<Subject, TestError> {
        match self.rehearsal(&order.agent, None) {
            Ok(rehearsal) => return Ok(Subject::Here(rehearsal.agent().clone())),
            Err(RehearsalError::NotHere { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(servers) = &order.live else { return Err(TestError::NoTapeThere { agent: order.agent.clone() }) };
        let target = self.0.calls.target(&Asker::Owner, &Callee::near(&order.agent), Purpose::Call).await?;
        if let Some(server) = servers.first() {
            return Err(TestError::ServerThere { agent: order.agent.clone(), server: server.clone() });
        }
        if !order.accepts_effects {
            return Err(TestError::EffectsThere { agent: order.agent.clone() });
        }
        self.0.calls.find_hosts(&target.agent).await;
        let known = self.0.discovery.describe(&target.agent);
        let version = known.as_ref().and_then(|known| known.description.version()).map(str::to_owned);
        Ok(Subject::Elsewhere { agent: target.agent, version })
    }

    /// Runs a case with an agent of another node.
    pub(super) async fn run_elsewhere(
        &self,
        order: &TestOrder,
        case: &Case,
        scorer: Scorer,
        agent: &AgentId,
    ) -> CaseRun {
        of_case(case, scorer, self.seen_elsewhere(order, case, agent).await)
    }

    async fn seen_elsewhere(
        &self,
        order: &TestOrder,
        case: &Case,
        agent: &AgentId,
    ) -> Result<(Observation, RunFigures), String> {
        // Before anything is sent: what cannot be judged should change nothing either.
        if case.expectation.tools.is_some() || !case.expectation.never.is_empty() {
            return Err("the case names tools, and which ones an agent of another node calls is not seen here: test it on the node that \
                        hosts it"
                .to_owned());
        }
        if case.expectation.verdict == Some(Grade::Fail) {
            return Err("a gate should refuse the answer to the case, and what gates of another node say is not seen here: test it on \
                        the node that hosts the agent"
                .to_owned());
        }
        let found = self.found(order, case, agent).await?;
        let begun = Instant::now();
        let (mut before, mut last) = (None, None);
        for text in &case.messages {
            let said = self.told(agent, case, next(text, last.as_ref(), self.0.calls.new_id()));
            let answered = tokio::time::timeout(ANSWER_MAX, said).await;
            let answered = answered.map_err(|_| format!("it did not answer within {} s", ANSWER_MAX.as_secs()))?;
            let answered = answered.map_err(|error| format!("its node gave no answer: {error}"))?;
            before = last.replace(answered);
        }
        let last = last.map(|task| since(before.as_ref(), task)).transpose()?;
        let task = last.as_ref();
        let (answer, data) = (task.and_then(answer), task.and_then(answer_data).cloned());
        let figures = RunFigures { duration_ms: milliseconds(begun.elapsed()), ..RunFigures::default() };
        Ok((Observation { answer, data, agent: found, ..Observation::default() }, figures))
    }

    /// Sends a message on behalf of the owner, with the label of the case; gives the task that came of it.
    async fn told(&self, agent: &AgentId, case: &Case, message: Message) -> Result<Task, OperationError> {
        let params = SendMessageRequest { message, configuration: None, metadata: None, tenant: None };
        let params = serde_json::to_vec(&params).map_err(|error| OperationError::internal(error.to_string()))?;
        let request = OperationRequest::parse(Operation::SendMessage, params)?;
        // Decided anew for each message: a policy may have changed.
        let target = self.0.calls.target(&Asker::Owner, &Callee::Id(agent.clone()), Purpose::Call).await?;
        let attributes = Attributes { label: case.expectation.label, ..Attributes::default() };
        let call = CallRequest::new(target, request, vec![Principal::Local]).with_attributes(attributes);
        let wrong = |why: &str| OperationError::invalid_agent_response(format!("{} answered with {why}", agent.name()));
        match self.0.calls.ask(call).await? {
            Reply::One(body) => {
                let answer = serde_json::from_slice(&body).map_err(|_| wrong("something other than A2A"))?;
                Ok(task_of(answer))
            }
            Reply::Events(_) => Err(wrong("a stream")),
        }
    }
}

/// The next message of a conversation: to the same task while that waits for more, and else in the same context.
fn next(text: &str, last: Option<&Task>, id: String) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text(text)]);
    message.message_id = id;
    message.context_id = last.map(|task| task.context_id.clone()).filter(|context| !context.is_empty());
    let waiting = last.filter(|task| task.status.state == TaskState::InputRequired);
    message.task_id = waiting.map(|task| task.id.clone());
    message
}

/// The task with the artifacts alone that came since it was so: of one that grew what was added, and one that was made anew whole. An
/// agent that makes the same artifact once more, and says nothing beside it, looks as one that answers nothing: then it is told why
/// that cannot be judged.
fn since(before: Option<&Task>, task: Task) -> Result<Task, String> {
    let Some(before) = before.filter(|before| before.id == task.id) else { return Ok(task) };
    let held = |id: &str| before.artifacts.iter().flatten().find(|held| held.artifact_id == id);
    let new = |artifact: Artifact| {
        let was = held(&artifact.artifact_id).map(|held| held.parts.as_slice()).unwrap_or_default();
        let parts = added(was, artifact.parts);
        (!parts.is_empty()).then_some(Artifact { parts, ..artifact })
    };
    let has_any = task.artifacts.iter().flatten().next().is_some();
    let made: Vec<Artifact> = task.artifacts.into_iter().flatten().filter_map(new).collect();
    let is_answer = matches!(task.status.state, TaskState::Completed | TaskState::InputRequired);
    if has_any && is_answer && made.is_empty() && task.status.message.is_none() {
        return Err("its task holds after the last message what it held before, and whether the agent answered the same again or nothing \
                    is not seen here: test it on the node that hosts it"
            .to_owned());
    }
    Ok(Task { artifacts: Some(made), ..task })
}

/// What was added to parts; all of them if something else became of those that there were.
fn added(was: &[Part], mut parts: Vec<Part>) -> Vec<Part> {
    let same = was.iter().zip(&parts).take_while(|(was, part)| was.content == part.content).count();
    if same == was.len() {
        return parts.split_off(same);
    }
    // A text that comes in pieces is one part.
    let last = was.last().filter(|_| same + 1 == was.len()).and_then(Part::as_text);
    let more = last.zip(parts.get(same).and_then(Part::as_text)).and_then(|(was, is)| is.strip_prefix(was));
    if let Some(more) = more.map(str::to_owned) {
        parts.drain(..same);
        parts[0].content = PartContent::Text(more);
    }
    parts
}

/// The task that an answer is; a message alone is a task that said it and is done.
fn task_of(answer: SendMessageResponse) -> Task {
    match answer {
        SendMessageResponse::Task(task) => task,
        SendMessageResponse::Message(message) => Task {
            id: message.task_id.clone().unwrap_or_default(),
            context_id: message.context_id.clone().unwrap_or_default(),
            status: TaskStatus { state: TaskState::Completed, message: Some(message), timestamp: None },
            artifacts: None,
            history: None,
            metadata: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: TaskState) -> Task {
        let said = Message { context_id: Some("c".to_owned()), ..Message::new(Role::Agent, vec![Part::text("heard")]) };
        let mut task = task_of(SendMessageResponse::Message(said));
        task.id = "t".to_owned();
        task.status.state = state;
        task
    }

    #[test]
    fn a_message_goes_to_the_task_that_waits_and_else_begins_one_in_the_same_conversation() {
        let first = next("hi", None, "m".to_owned());
        assert_eq!((&*first.message_id, first.context_id, first.task_id), ("m", None, None));
        let waiting = next("hi", Some(&task(TaskState::InputRequired)), "m".to_owned());
        assert_eq!((waiting.context_id.as_deref(), waiting.task_id.as_deref()), (Some("c"), Some("t")));
        let over = next("hi", Some(&task(TaskState::Completed)), "m".to_owned());
        assert_eq!((over.context_id.as_deref(), over.task_id), (Some("c"), None));
    }

    fn made(artifacts: &[(&str, &[&str])], said: Option<&str>) -> Task {
        let artifact = |(id, texts): &(&str, &[&str])| Artifact {
            artifact_id: (*id).to_owned(),
            name: None,
            description: None,
            parts: texts.iter().map(|text| Part::text(*text)).collect(),
            metadata: None,
            extensions: None,
        };
        let mut task = task(TaskState::Completed);
        task.artifacts = Some(artifacts.iter().map(artifact).collect());
        task.status.message = said.map(|text| Message::new(Role::Agent, vec![Part::text(text)]));
        task
    }

    #[test]
    fn what_was_made_before_the_last_message_is_no_answer_to_it() {
        let first = made(&[("a", &["12"])], Some("which?"));
        let last = |task: Task| since(Some(&first), task).map(|task| answer(&task));
        let is = |text: &str| Ok(Some(Ok(text.to_owned())));
        assert_eq!(last(made(&[("a", &["12"])], Some("WRONG"))), is("WRONG"));
        assert_eq!(last(made(&[("a", &["12"]), ("b", &["34"])], None)), is("34"), "a new one");
        assert_eq!(last(made(&[("a", &["12", "34"])], None)), is("34"), "a part more");
        assert_eq!(last(made(&[("a", &["1234"])], None)), is("34"), "a longer text");
        assert_eq!(last(made(&[("a", &["1234", "56"])], None)), is("34\n56"));
        assert_eq!(last(made(&[("a", &["7"])], None)), is("7"), "made anew");
        assert_eq!(last(made(&[], None)), Ok(None));
        let unseen = last(made(&[("a", &["12"])], None)).expect_err("the same again, or nothing");
        assert!(unseen.contains("is not seen here"), "{unseen}");
        let mut other = made(&[("a", &["12"])], None);
        other.id = "another".to_owned();
        assert_eq!(last(other), is("12"), "another task began anew");
        assert_eq!(since(None, first.clone()).map(|task| answer(&task)), is("12"), "the first message");
    }

    #[test]
    fn a_message_alone_is_an_answer_and_a_task_that_failed_is_none() {
        assert_eq!(answer(&task(TaskState::Completed)), Some(Ok("heard".to_owned())));
        assert_eq!(answer(&task(TaskState::Failed)), Some(Err("the task is failed: heard".to_owned())));
    }
}
