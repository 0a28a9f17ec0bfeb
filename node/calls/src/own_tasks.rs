//! What is for the owner of a node alone: how turns stand, tapes of tasks, conversations beside them, turns that are brought on.

use althing_call::Principal;
use althing_session::{
    Rehearsal, RehearsalError, Resolution, ResolutionError, RestartRefusal, SessionSummary, Sessions, StepsError,
    TaskRuns, TaskService, TaskTape, TaskVerdict, TurnLoss, TurnSteps, VerdictError,
};

/// The tasks of a node, for its owner. Nobody is asked here whether something may be done: whoever calls it speaks for the owner.
pub struct OwnTasks(Sessions);

impl OwnTasks {
    /// Those of the node that has these tasks.
    pub(crate) fn of(tasks: &TaskService) -> OwnTasks {
        OwnTasks(Sessions::of(tasks))
    }

    /// The unfinished turns that have a journal, and those that wait for their agent, the oldest first.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionSummary> {
        self.0.list()
    }

    /// The turns that did not go on after the node had ended, for a day: those that may go on anew first.
    #[must_use]
    pub fn lost_turns(&self) -> Vec<TurnLoss> {
        self.0.lost()
    }

    /// The turns that stopped and may go on anew from one of their steps, for a day: the newest of many, the newest first.
    #[must_use]
    pub fn stopped_turns(&self) -> Vec<TurnLoss> {
        self.0.stopped()
    }

    /// The journals of a task's turns, the oldest first, without what is in them: of those that are recorded, and of the one that is
    /// not over.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn session_steps(&self, task: &str) -> Result<Vec<TurnSteps>, StepsError> {
        self.0.steps(task)
    }

    /// A task that this node's owner gave an agent, with all that models and tools said in those of its turns that are recorded.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn task_tape(&self, task: &str) -> Result<TaskTape, StepsError> {
        self.0.tape(task)
    }

    /// A conversation with an agent that runs here, beside the tasks of this node: by its name, in that version if it runs, and else
    /// in the one that was started first. Nobody is asked whether it may be called: it is for the owner of the node.
    ///
    /// # Errors
    /// [`RehearsalError`].
    pub fn rehearsal(&self, agent: &str, version: Option<&str>) -> Result<Rehearsal, RehearsalError> {
        self.0.rehearsal(agent, version)
    }

    /// What gates refused of a task's answers, with these, which no caller saw.
    ///
    /// # Errors
    /// [`VerdictError`].
    pub fn task_verdict(&self, task: &str) -> Result<TaskVerdict, VerdictError> {
        self.0.verdict(task)
    }

    /// What the turns of a task did that are over, by names and hashes, the oldest first, and whether the task still holds what was
    /// recorded of them.
    ///
    /// # Errors
    /// [`StepsError`].
    pub fn runs(&self, task: &str) -> Result<TaskRuns, StepsError> {
        self.0.runs(task)
    }

    /// Says what came of a call in doubt: step `seq` of a task's turn, which goes on when none is in doubt any more. That `by` said
    /// it is written beside it: the owner of this node, or whoever may speak for it.
    ///
    /// # Errors
    /// [`ResolutionError`]; then nothing was said.
    pub async fn end_doubt(
        &self,
        task: &str,
        seq: u32,
        how: Resolution,
        by: &Principal,
    ) -> Result<(), ResolutionError> {
        self.0.settle(task, seq, how, by).await
    }

    /// Has the turn of a task that stopped with `DIVERGED` or `VERSION_CHANGED` go on anew from a step. That `by` said it is written
    /// in its journal.
    ///
    /// # Errors
    /// [`RestartRefusal`]; then nothing changed.
    pub async fn restart_turn(&self, task: &str, from: u32, by: &Principal) -> Result<(), RestartRefusal> {
        self.0.restart(task, from, by).await
    }
}
