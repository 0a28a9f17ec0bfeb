//! Decides what bringing an application up, changing it or removing it changes in a group, and in which order that is done.

use std::collections::BTreeMap;
use std::path::Path;

use althing_coordination::Deployed;
use althing_coordination::service::calendar::{self, CalendarError};
use althing_failure::Kind;
use althing_protocol::group::{Command, Deployment, Remove, Schedule, Set};
use althing_td::{App, AppAgent};

use super::parts::{APPS, AppInventory, GroupParts, PartKind, WORKFLOWS};

/// Why an application cannot be brought up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A part of that name belongs to another application of the group.
    #[error("the {} {name:?} belongs to the application {other:?} of the group; choose another name", .kind.name())]
    OtherApp {
        /// What the part is.
        kind: PartKind,
        /// What it is called.
        name: String,
        /// The application to which it belongs.
        other: String,
    },
    /// A schedule has no times.
    #[error("schedules[{at}].{field} of {name:?}: {why}")]
    Times {
        /// Its place in the app file.
        at: usize,
        /// `cron` or `zone`.
        field: &'static str,
        /// What it is called.
        name: String,
        /// What is wrong with it.
        why: CalendarError,
    },
    /// An agent file has no form in which it can be deployed.
    #[error("the agent file of {0:?} cannot be written as JSON: write its paths in UTF-8")]
    File(String),
}

impl PlanError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            PlanError::OtherApp { .. } => Kind::Refused,
            PlanError::Times { .. } => Kind::Invalid,
            PlanError::File(_) => Kind::Failed,
        }
    }
}

/// How a part of an application differs from what the group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// The group does not have it.
    Added,
    /// The group has another one of that name.
    Changed,
    /// The group has it.
    Same,
    /// The application does not have it any more.
    Removed,
}

impl Difference {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Difference::Added => "added",
            Difference::Changed => "changed",
            Difference::Same => "same",
            Difference::Removed => "removed",
        }
    }
}

/// What becomes of a part of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartChange {
    /// What it is.
    pub kind: PartKind,
    /// What it is called.
    pub name: String,
    /// How it differs from what the group has.
    pub difference: Difference,
}

/// Checks the times of all schedules, before anything is done.
///
/// # Errors
/// [`PlanError::Times`] of the first one that has none.
pub fn check_times(app: &App, now_ms: u64) -> Result<(), PlanError> {
    for (at, schedule) in app.schedules.iter().enumerate() {
        calendar::upcoming(schedule, now_ms, 1).map_err(|why| {
            let field = if matches!(why, CalendarError::Zone(_)) { "zone" } else { "cron" };
            PlanError::Times { at, field, name: schedule.name.clone(), why }
        })?;
    }
    Ok(())
}

/// An agent of an application, as it is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppDeployment {
    /// Its name.
    pub agent: String,
    /// The agent file, as JSON.
    pub file: Vec<u8>,
    folder: String,
    app: String,
    instances: u8,
    instances_max: Option<u8>,
    labels: Vec<String>,
    needs: Vec<String>,
}

impl AppDeployment {
    /// `folder` is where the path of its agent file begins.
    fn of(agent: &AppAgent, app: &str, folder: &Path) -> Result<AppDeployment, PlanError> {
        let file = serde_json::to_vec(&agent.file).map_err(|_| PlanError::File(agent.name.clone()))?;
        let at = folder.join(&agent.path);
        Ok(AppDeployment {
            agent: agent.name.clone(),
            file,
            folder: at.parent().map(|at| at.to_string_lossy().into_owned()).unwrap_or_default(),
            app: app.to_owned(),
            instances: agent.instances,
            instances_max: agent.instances_max,
            labels: agent.labels.clone(),
            needs: agent.needs.clone(),
        })
    }

    /// Sets what it says beside its agent and its file.
    pub fn describe(&self, mut made: Deployment) -> Deployment {
        (made.instances, made.instances_max) = (self.instances, self.instances_max);
        (made.folder, made.app) = (self.folder.clone(), Some(self.app.clone()));
        (made.labels, made.needs) = (self.labels.clone(), self.needs.clone());
        made
    }

    /// Whether that is what it says, and is hosted.
    fn equals(&self, deployed: &Deployed) -> bool {
        let it = &deployed.placed.deployment;
        deployed.is_signed
            && it.file.as_slice() == self.file
            && it.folder == self.folder
            && it.instances == self.instances
            && it.instances_max == self.instances_max
            && it.labels == self.labels
            && it.needs == self.needs
            && it.app.as_ref() == Some(&self.app)
    }
}

/// One step of what is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanStep {
    /// An agent is deployed.
    Deploy(Box<AppDeployment>),
    /// The deployment of the agent of that name ends.
    Undeploy(String),
    /// The group executes this.
    Execute(Box<Command>),
}

/// What is to be done for an application to be as somebody wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppPlan {
    /// What becomes of each part: of what the application has, in its order, then of what it does not have any more.
    pub changes: Vec<PartChange>,
    app: String,
    is_removal: bool,
    deployments: BTreeMap<String, AppDeployment>,
    workflows: BTreeMap<String, Vec<u8>>,
    schedules: BTreeMap<String, Schedule>,
}

impl AppPlan {
    /// Brings an application up in a group that has these parts. The paths of its agent files begin at `folder`.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn of(app: &App, folder: &Path, parts: &GroupParts) -> Result<AppPlan, PlanError> {
        let mut plan = AppPlan::empty(&app.name);
        for agent in &app.agents {
            let made = AppDeployment::of(agent, &app.name, folder)?;
            plan.add(PartKind::Agent, &agent.name, parts.agents.get(&agent.name).map(|it| made.equals(it)), parts)?;
            plan.deployments.insert(agent.name.clone(), made);
        }
        for workflow in &app.workflows {
            let (name, bytes) = (&workflow.name, workflow.to_bytes());
            plan.add(PartKind::Workflow, name, parts.workflows.get(name).map(|it| *it == bytes), parts)?;
            plan.workflows.insert(name.clone(), bytes);
        }
        for schedule in &app.schedules {
            let name = &schedule.name;
            plan.add(PartKind::Schedule, name, parts.schedules.get(name).map(|it| it == schedule), parts)?;
            plan.schedules.insert(name.clone(), schedule.clone());
        }
        plan.remove_rest(&parts.inventory);
        Ok(plan)
    }

    /// Removes all that an application of that name consists of.
    #[must_use]
    pub fn removal(app: &str, inventory: &AppInventory) -> AppPlan {
        let mut plan = AppPlan { is_removal: true, ..AppPlan::empty(app) };
        plan.remove_rest(inventory);
        plan
    }

    fn empty(app: &str) -> AppPlan {
        AppPlan {
            changes: Vec::new(),
            app: app.to_owned(),
            is_removal: false,
            deployments: BTreeMap::new(),
            workflows: BTreeMap::new(),
            schedules: BTreeMap::new(),
        }
    }

    /// A part that is wanted; `is_same` if the group has one of that name.
    fn add(&mut self, kind: PartKind, name: &str, is_same: Option<bool>, parts: &GroupParts) -> Result<(), PlanError> {
        let name = name.to_owned();
        if let Some(other) = parts.others.get(&(kind, name.clone())) {
            return Err(PlanError::OtherApp { kind, name, other: other.clone() });
        }
        let difference = match is_same {
            None => Difference::Added,
            Some(true) => Difference::Same,
            Some(false) => Difference::Changed,
        };
        self.changes.push(PartChange { kind, name, difference });
        Ok(())
    }

    /// What is not wanted any more: first what needs others.
    fn remove_rest(&mut self, inventory: &AppInventory) {
        let AppInventory { agents, workflows, schedules } = inventory;
        let all = [(PartKind::Schedule, schedules), (PartKind::Workflow, workflows), (PartKind::Agent, agents)];
        for (kind, names) in all {
            let is_wanted =
                |name: &&String| self.changes.iter().any(|change| change.kind == kind && change.name == **name);
            let gone: Vec<String> = names.iter().filter(|name| !is_wanted(name)).cloned().collect();
            let removed = |name: String| PartChange { kind, name, difference: Difference::Removed };
            self.changes.extend(gone.into_iter().map(removed));
        }
    }

    /// What is done, in this order. What the application consists of is written down before anything is added and after
    /// everything was removed, so that a second attempt finds what the first one left.
    #[must_use]
    pub fn steps(&self) -> Vec<PlanStep> {
        let mut steps = vec![self.write_down(true)];
        let is_brought = |change: &&PartChange| matches!(change.difference, Difference::Added | Difference::Changed);
        steps.extend(self.changes.iter().filter(is_brought).filter_map(|change| self.bring(change)));
        let is_removed = |change: &&PartChange| change.difference == Difference::Removed;
        steps.extend(self.changes.iter().filter(is_removed).map(take_away));
        steps.push(if self.is_removal { remove(self.key()) } else { self.write_down(false) });
        steps
    }

    fn key(&self) -> String {
        format!("{APPS}{}", self.app)
    }

    fn write_down(&self, with_removed: bool) -> PlanStep {
        let all = |kind: PartKind| {
            let is_part = |change: &&PartChange| {
                change.kind == kind && (with_removed || change.difference != Difference::Removed)
            };
            self.changes.iter().filter(is_part).map(|change| change.name.clone()).collect()
        };
        let inventory = AppInventory {
            agents: all(PartKind::Agent),
            workflows: all(PartKind::Workflow),
            schedules: all(PartKind::Schedule),
        };
        set(self.key(), serde_json::to_vec(&inventory).expect("names are JSON"))
    }

    fn bring(&self, change: &PartChange) -> Option<PlanStep> {
        let name = &change.name;
        Some(match change.kind {
            PartKind::Agent => PlanStep::Deploy(Box::new(self.deployments.get(name)?.clone())),
            PartKind::Workflow => set(format!("{WORKFLOWS}{name}"), self.workflows.get(name)?.clone()),
            PartKind::Schedule => execute(Command::Schedule(Box::new(self.schedules.get(name)?.clone()))),
        })
    }
}

fn take_away(change: &PartChange) -> PlanStep {
    match change.kind {
        PartKind::Agent => PlanStep::Undeploy(change.name.clone()),
        PartKind::Workflow => remove(format!("{WORKFLOWS}{}", change.name)),
        PartKind::Schedule => execute(Command::Unschedule(change.name.clone())),
    }
}

fn set(key: String, value: Vec<u8>) -> PlanStep {
    execute(Command::Set(Set { key, value: value.into(), if_version: None }))
}

fn remove(key: String) -> PlanStep {
    execute(Command::Remove(Remove { key, if_version: None }))
}

fn execute(command: Command) -> PlanStep {
    PlanStep::Execute(Box::new(command))
}

#[cfg(test)]
mod tests;
