//! What of the result of work that is given away is shown in its task: what the gates of the task's own agent let pass, and so
//! nothing before that agent runs.

use std::time::Duration;

use a2a::Role;
use althing_execution::agent::Made;
use althing_execution::{AgentError, Turn, judge_outputs};
use althing_protocol::AgentRef;
use tokio::time::{Instant, sleep};

use super::{RelayRun, Stop};
use crate::machine::session::DOUBT_MS_MAX;
use crate::tasks::live::LiveTask;
use crate::tasks::parking::RETRY;
use crate::tasks::resume::VERSION_PATIENCE;
use crate::tasks::turn;

/// How long a result waits for its agent while its node runs: as long as a turn that is to go on.
const AGENT_PATIENCE: Duration = Duration::from_millis(DOUBT_MS_MAX);

/// The turn that asked for the work.
fn turn_of(live: &LiveTask) -> Turn {
    let mut turn = turn::turn_of(live.record(), &live.request, None, Some(live.verdicts()));
    // What went on after a restart is of no message by itself.
    let asked = turn.history.iter().rfind(|said| said.role == Role::User).cloned();
    if let Some(asked) = asked.filter(|_| turn.message.role != Role::User) {
        turn.message = asked;
    }
    turn
}

impl RelayRun<'_> {
    /// What may be shown of what the recipient made: whoever did the work, who asked is promised what the contract of this agent
    /// says. What is decided of it while the node is being stopped is decided anew when it is up again.
    pub(super) async fn judged(&self, made: Vec<Made>) -> Result<Vec<Made>, Stop> {
        let agent = self.judge().await?;
        let turn = turn_of(self.live);
        tokio::select! {
            biased;
            () = self.runner.ending().cancelled() => Err(Stop::Node),
            judged = Box::pin(judge_outputs(self.runner.host(), &agent, turn, made)) => Ok(judged?),
        }
    }

    /// The agent by whose contract that is decided, once it runs: in the version that gave the work away, or, where that one does
    /// not come back beside another one, in that one. Work is followed before the node has started its agents.
    async fn judge(&self) -> Result<AgentRef, Stop> {
        let agent = &self.live.agent;
        let (begun, mut other_since) = (Instant::now(), None);
        let late = turn::late(self.live);
        tokio::pin!(late);
        loop {
            let running = self.runner.host().versions(agent.name());
            if running.contains(agent) {
                return Ok(agent.clone());
            }
            if let Some(other) = running.into_iter().next()
                && other_since.get_or_insert_with(Instant::now).elapsed() >= VERSION_PATIENCE
            {
                return Ok(other);
            }
            if begun.elapsed() >= AGENT_PATIENCE {
                let why = "the work that it gave away is done, and what may be shown of that is not known without it";
                return Err(AgentError::Down { agent: agent.name().to_owned(), why: why.to_owned() }.into());
            }
            tokio::select! {
                biased;
                () = self.runner.ending().cancelled() => return Err(Stop::Node),
                // As of an agent that was removed: nothing of it is shown.
                () = self.live.cancel.cancelled() => return Err(AgentError::Cancelled.into()),
                why = late.as_mut() => return Err(AgentError::Failed(why).into()),
                () = sleep(RETRY) => {}
            }
        }
    }
}
