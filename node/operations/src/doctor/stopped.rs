//! Agents of this node that do not run.

use althing_failure::{AgentStep, NodeStep};

use super::finding::{Finding, note, wrong};

/// Why an agent does not run, as far as that decides what starts it again.
pub(super) enum Stop {
    /// Its owner stopped it.
    Halted,
    /// Policies do not permit it.
    Forbidden,
    /// Its release was revoked.
    Revoked,
    /// It failed, and is adopted.
    Adopted,
    /// It broke its contract, which wants no more jobs then.
    Suspended,
    /// It failed.
    Failed,
}

/// An agent that does not run, with what its program said last, and what starts it again.
pub(super) fn judge(stop: &Stop, (agent, why): (&str, &str), said: Option<&str>) -> Finding {
    let told = match said {
        Some(said) if !why.contains(said) => format!("; its program said: {said}"),
        _ => String::new(),
    };
    let (name, said) = (agent.to_owned(), said.is_some());
    let step = match stop {
        Stop::Halted => {
            let remedy = "it stays added, and does nothing until its owner starts it again";
            return note("L7", format!("agent {agent:?} does not run: {why}"), remedy).then(AgentStep::AddAgain(name));
        }
        Stop::Forbidden => {
            let remedy = "it stays added, and runs again by itself once the policies permit it: correct their text";
            return note("L7", format!("control loop {agent:?} does not run: {why}"), remedy)
                .then(NodeStep::LoadPolicy);
        }
        Stop::Revoked => AgentStep::Update { agent: name, said },
        Stop::Adopted => AgentStep::MendOrAccept { agent: name, said },
        Stop::Suspended => AgentStep::StartAgain(name),
        Stop::Failed => AgentStep::Mend { agent: name, said },
    };
    wrong("L1", format!("agent {agent:?} does not run: {why}{told}"), "").then(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_loop_that_is_suspended_is_not_said_to_be_tried_again() {
        let next = |stop| judge(&stop, ("stuck", "it exceeded its budget"), None).next;
        assert_eq!(next(Stop::Suspended), Some(AgentStep::StartAgain("stuck".to_owned()).into()));
        let tried = AgentStep::Mend { agent: "stuck".to_owned(), said: false };
        assert_eq!(next(Stop::Failed), Some(tried.into()));
    }
}
