//! ListTasks: the caller's tasks with an agent, a page at a time.

use a2a::TaskState;
use althing_call::{CallMetadata, OperationError, Reply};
use althing_protocol::AnswerAttributes;

use crate::listing::place;
use crate::machine::listing::{Filter, page_token};
use crate::machine::record::Scope;
use crate::machine::task::{self, ANSWER_BYTES_MAX};
use crate::tasks::replies::WRAPPING;
use crate::tasks::runner::{HostedAgent, TaskRunner};
use crate::tasks::service::TaskService;

/// Page size: the default and the maximum (A2A 1.0.1 §3.1.4).
const PAGE_DEFAULT: i32 = 50;
const PAGE_MAX: i32 = 100;

impl TaskService {
    /// A page of the caller's tasks with an agent.
    ///
    /// # Errors
    /// `InvalidParams`, `TASK_MOVED` if all tasks of the context that is asked for were handed over.
    pub async fn list(
        &self,
        agent: &HostedAgent,
        scope: Scope,
        request: a2a::ListTasksRequest,
        metadata: &CallMetadata,
    ) -> Result<Reply, OperationError> {
        // All tasks of a page are decoded, however little of them is shown.
        let (runner, agent, answer) = (self.runner.clone(), agent.clone(), metadata.answer.clone());
        self.runner.apart(move || page(&runner, &agent, scope, &request, &answer)).await?
    }
}

/// A page, of tasks that are read one after another.
fn page(
    runner: &TaskRunner,
    agent: &HostedAgent,
    scope: Scope,
    request: &a2a::ListTasksRequest,
    answer: &AnswerAttributes,
) -> Result<Reply, OperationError> {
    let size = request.page_size.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&size) {
        return Err(OperationError::invalid_params(format!("`pageSize` is {size}, and may be 1 to {PAGE_MAX}")));
    }
    let filter = Filter {
        agent: agent.name(),
        scope,
        context_id: request.context_id.as_deref().filter(|id| !id.is_empty()),
        state: request.status.as_ref().filter(|state| **state != TaskState::Unspecified),
        after_ms: request.status_timestamp_after.map(|at| at.timestamp_millis()),
    };
    let token = request.page_token.as_deref().filter(|token| !token.is_empty());
    let page = runner.store().page(&filter, token, usize::try_from(size).unwrap_or(1));
    let page = page.ok_or_else(|| OperationError::invalid_params("`pageToken` is not one that this node gave out"))?;
    if page.total == 0
        && let Some(id) = runner.store().departed(&filter)
    {
        // Says where it is.
        runner.read(agent, scope, &id)?;
    }
    let with_artifacts = request.include_artifacts.unwrap_or(false);
    let mut tasks = Vec::with_capacity(page.ids.len());
    let (mut next_page_token, mut room, mut last) = (page.next, ANSWER_BYTES_MAX - WRAPPING, None);
    for id in &page.ids {
        // It may just have been evicted.
        let Ok(record) = runner.read(agent, scope, id) else { continue };
        let (place, label) = (place(&record.task), record.label);
        let task = task::view(record.task, request.history_length, with_artifacts);
        // One task, with its comma, always fits a page.
        let task = task::fit(task, ANSWER_BYTES_MAX - WRAPPING - 1);
        let size = serde_json::to_vec(&task).map_or(usize::MAX, |json| json.len()).saturating_add(1);
        if size > room {
            // The page ends early; the rest comes with the next.
            next_page_token = last.as_ref().map_or(next_page_token, page_token);
            break;
        }
        room -= size;
        answer.add_label(label);
        tasks.push(task);
        last = Some(place);
    }
    let total_size = i32::try_from(page.total).unwrap_or(i32::MAX);
    Reply::json(&a2a::ListTasksResponse { tasks, next_page_token, page_size: size, total_size })
}
