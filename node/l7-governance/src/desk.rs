//! What decides by policies: the set in force, the people that it speaks of, and where decisions are remembered.

use althing_policy::Verdict;

use crate::audit::AuditLog;
use crate::config::Ports;
use crate::decisions::Decisions;
use crate::governance::Governance;
use crate::machine::rules::Statement;
use crate::policies::{PeopleNow, Policies, PolicyRequest};

/// By what policies decide now.
pub(crate) struct Desk<'a> {
    pub(crate) policies: &'a Policies,
    pub(crate) decisions: &'a Decisions,
    pub(crate) audit: &'a AuditLog,
    pub(crate) ports: &'a Ports,
    pub(crate) people: PeopleNow,
    /// Why the file of people cannot be read.
    fault: Option<String>,
}

impl<'a> Desk<'a> {
    /// That of a node.
    pub(crate) fn of(governance: &'a Governance) -> Desk<'a> {
        Desk {
            policies: governance.policies(),
            decisions: governance.decision_log(),
            audit: governance.audit(),
            ports: governance.ports(),
            people: governance.people_now(),
            fault: governance.people_fault(),
        }
    }

    /// What the policies in force say; nothing where none are loaded. While the file of people cannot be read nobody knows who
    /// anybody is, and everything is denied.
    pub(crate) fn decide(&self, request: &PolicyRequest) -> Option<(Statement, Option<Verdict>)> {
        match self.fault.as_ref().filter(|_| self.policies.is_loaded()) {
            Some(why) => {
                let why = format!("the file of people cannot be read ({why}): load it again");
                Some((Statement::Deny(why), None))
            }
            None => self.policies.decide(request, &self.people),
        }
    }
}

/// What the policies in force say of one request; nothing where none are loaded.
pub(crate) fn by_policies(governance: &Governance, request: &PolicyRequest) -> Option<(Statement, Option<Verdict>)> {
    Desk::of(governance).decide(request)
}
