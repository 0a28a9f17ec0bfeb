//! The operations on push notification configurations.

use a2a::{ListTaskPushNotificationConfigsResponse, TaskPushNotificationConfig};
use althing_call::{OperationError, Params, Refusal, Reply};
use althing_store::Durability;
use serde_json::json;

use crate::machine::record::Scope;
use crate::tasks::runner::{HostedAgent, TaskRunner, unkept};

/// Answers one of them. Each names a task, which the caller must be able to see.
pub(super) async fn handle(
    tasks: &TaskRunner,
    agent: &HostedAgent,
    scope: Scope,
    params: Params,
) -> Result<Reply, OperationError> {
    let push = tasks.store().push();
    let seen = params.task_id().map_or(Ok(()), |task| tasks.read(agent, scope, task).map(drop));
    match seen {
        // Whether its new home sends notifications, that one says.
        Err(moved) if matches!(moved.refusal, Refusal::TaskMoved { .. }) => return Err(moved),
        _ if !push.is_served() => return Err(OperationError::push_not_supported()),
        seen => seen?,
    }
    match params {
        Params::CreatePush(config) => {
            let task = config.task_id.clone();
            let config = push.checked(*config, &task).await?;
            push.set(scope, config.clone(), Durability::Synced).await.map_err(unkept)?;
            if let Err(gone) = tasks.read(agent, scope, &task) {
                // It was evicted meanwhile, and nothing is left of it then; or handed over, with those before this one.
                if !matches!(gone.refusal, Refusal::TaskMoved { .. }) {
                    push.forget([&task]).await;
                }
                return Err(gone);
            }
            Reply::json(&config)
        }
        Params::GetPush(request) => {
            let found = push.of_task(&request.task_id).into_iter().find(|known| known.id.as_ref() == Some(&request.id));
            let found = found.ok_or_else(|| OperationError::push_config_not_found(&request.id))?;
            Reply::json(&*found)
        }
        Params::ListPush(request) => {
            let after = request.page_token.filter(|token| !token.is_empty());
            let size = usize::try_from(request.page_size.unwrap_or(0)).unwrap_or(0);
            let mut configs: Vec<TaskPushNotificationConfig> =
                push.of_task(&request.task_id).iter().map(|config| TaskPushNotificationConfig::clone(config)).collect();
            // They are in the order of their ids: the last one of a page is its token.
            configs.retain(|config| after.is_none() || config.id > after);
            let more = size > 0 && configs.len() > size;
            if more {
                configs.truncate(size);
            }
            let next_page_token = configs.last().filter(|_| more).and_then(|config| config.id.clone());
            Reply::json(&ListTaskPushNotificationConfigsResponse { configs, next_page_token })
        }
        Params::DeletePush(request) => {
            push.remove(&request.task_id, &request.id).await.map_err(unkept)?;
            Reply::json(&json!({}))
        }
        _ => Err(OperationError::internal("another operation was asked of push notifications")),
    }
}
