//! The first write of a task that a message began or continued, with whom the message wants to be told of it.

use althing_call::OperationError;
use althing_store::Durability;

use crate::machine::record::Record;
use crate::tasks::runner::{TaskRunner, internal, unkept};
use crate::tasks::store::Encoded;

/// Whom a message wants to be told about its task, checked.
pub(super) async fn push_config(
    runner: &TaskRunner,
    configuration: Option<a2a::SendMessageConfiguration>,
    task: &str,
) -> Result<Option<a2a::TaskPushNotificationConfig>, OperationError> {
    match configuration.and_then(|configuration| configuration.task_push_notification_config) {
        Some(config) => runner.store().push().checked(config, task).await.map(Some),
        None => Ok(None),
    }
}

/// Writes a task that a message began or continued, and whom it wants to be told.
pub(super) async fn keep(
    runner: &TaskRunner,
    record: &Record,
    encoded: Encoded,
    push: Option<a2a::TaskPushNotificationConfig>,
) -> Result<(), OperationError> {
    let Some(config) = push else { return runner.store().write(encoded).await.map_err(internal) };
    let id = config.id.clone().unwrap_or_default();
    // On disk with the task, whose write is synced.
    runner.store().push().set(record.scope, config, Durability::Buffered).await.map_err(unkept)?;
    if let Err(error) = runner.store().write(encoded).await {
        // What it replaced is lost too: the disk is full, or broken.
        let _ = runner.store().push().remove(&record.task.id, &id).await;
        return Err(internal(error));
    }
    Ok(())
}
