//! Reads the files that an app file names, and checks that they fit together.

use althing_protocol::contract::did_you_mean;
use althing_protocol::group::{Action, Schedule, Target, Workflow};

use super::{App, AppAgent, AppAgentFile, AppFile};
use crate::agent_file::{AgentFile, AgentFileError};
use crate::json::excerpt;
use crate::reader::yaml::At;
use crate::reader::{self, FileProblem};
use crate::workflow_file::{WorkflowFileError, parse_workflow};

/// The app of a file. What refers to names is checked once every file could be read, since names are in the files.
pub(super) fn resolve(
    file: AppFile,
    mut read: impl FnMut(&str) -> Result<String, String>,
) -> Result<App, Vec<FileProblem>> {
    let mut resolver = Resolver { root: &file.root, problems: Vec::new() };
    let agents = file.agents.iter().enumerate();
    let agents: Vec<AppAgent> = agents.filter_map(|(n, agent)| resolver.agent(n, agent, &mut read)).collect();
    let workflows = file.workflows.iter().enumerate();
    let workflows: Vec<Workflow> = workflows.filter_map(|(n, path)| resolver.workflow(n, path, &mut read)).collect();
    resolver.done()?;
    let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    let flows: Vec<&str> = workflows.iter().map(|workflow| workflow.name.as_str()).collect();
    resolver.distinct("agents", "agent", &names);
    resolver.distinct("workflows", "workflow", &flows);
    resolver.steps(&workflows, &names);
    let schedules: Vec<Schedule> = resolver.schedules(&file, &workflows, &flows);
    let waits = resolver.needs(&agents, &names);
    resolver.done()?;
    let order = reader::order(&waits).map_err(|circle| {
        let path: Vec<&str> = circle.iter().map(|place| names[*place]).collect();
        let message = format!("these agents need each other: {}", path.join(" → "));
        resolver.problem(format!("agents[{}].needs", circle[0]), "circle", message, "Take one of them out".to_owned());
        std::mem::take(&mut resolver.problems)
    })?;
    let agents = order.iter().map(|place| agents[*place].clone()).collect();
    Ok(App { name: file.name.clone(), group: file.group.clone(), agents, workflows, schedules })
}

struct Resolver<'a> {
    root: &'a At,
    problems: Vec<FileProblem>,
}

type Read<'a> = dyn FnMut(&str) -> Result<String, String> + 'a;

impl Resolver<'_> {
    fn problem(&mut self, field: String, rule: &'static str, message: String, fix: String) {
        let line = self.root.line_of(&field);
        self.problems.push(FileProblem { field, line, rule, message, fix });
    }

    /// What was found so far, if anything was.
    fn done(&mut self) -> Result<(), Vec<FileProblem>> {
        if self.problems.is_empty() { Ok(()) } else { Err(std::mem::take(&mut self.problems)) }
    }

    fn text(&mut self, field: &str, path: &str, read: &mut Read<'_>) -> Option<String> {
        match read(path) {
            Ok(text) => Some(text),
            Err(why) => {
                let message = format!("{path:?} cannot be read: {}", excerpt(&why, 200));
                let fix = "Correct the path, which begins at the folder of this file, or add the file".to_owned();
                self.problem(field.to_owned(), "unreadable", message, fix);
                None
            }
        }
    }

    /// What is to be changed in a file that the app file names.
    fn inside(&mut self, field: &str, path: &str, problems: Vec<FileProblem>) {
        for problem in problems {
            let line = problem.line.map_or_else(String::new, |line| format!(", line {line}"));
            let place = if problem.field.is_empty() { String::new() } else { format!(", {}", problem.field) };
            let message = format!("in {path:?}{line}{place}: {}", problem.message);
            self.problem(field.to_owned(), problem.rule, message, problem.fix);
        }
    }

    /// A file that the app file names is wrong as a whole.
    fn whole(&mut self, field: &str, path: &str, why: &str) {
        self.problem(field.to_owned(), "not-valid", format!("in {path:?}: {why}"), "Correct that file".to_owned());
    }

    fn agent(&mut self, n: usize, agent: &AppAgentFile, read: &mut Read<'_>) -> Option<AppAgent> {
        let (field, path) = (format!("agents[{n}].file"), &agent.file);
        let text = self.text(&field, path, read)?;
        let file = match AgentFile::parse(&text) {
            Ok(file) => file,
            Err(AgentFileError::Invalid(problems)) => {
                self.inside(&field, path, problems);
                return None;
            }
            Err(error) => {
                self.whole(&field, path, &error.to_string());
                return None;
            }
        };
        let AppAgentFile { instances, instances_max, labels, needs, .. } = agent.clone();
        Some(AppAgent {
            name: file.name.clone(),
            path: path.clone(),
            text,
            file,
            instances,
            instances_max,
            labels,
            needs,
        })
    }

    fn workflow(&mut self, n: usize, path: &str, read: &mut Read<'_>) -> Option<Workflow> {
        let field = format!("workflows[{n}].file");
        let text = self.text(&field, path, read)?;
        match parse_workflow(&text) {
            Ok(workflow) => return Some(workflow),
            Err(WorkflowFileError::Invalid(problems)) => self.inside(&field, path, problems),
            Err(error) => self.whole(&field, path, &error.to_string()),
        }
        None
    }

    fn distinct(&mut self, list: &str, what: &str, names: &[&str]) {
        for (n, name) in names.iter().enumerate().filter(|(n, name)| names[..*n].contains(name)) {
            let message = format!("another {what} of this file has the name {name:?}, which stands in its file");
            let fix = match what {
                "agent" => "Give each agent a name of its own; for more of the same write `instances`".to_owned(),
                _ => format!("Give each {what} a name of its own"),
            };
            self.problem(format!("{list}[{n}].file"), "name-twice", message, fix);
        }
    }

    /// Steps by capability may be done by agents that others host; steps by name are this app's.
    fn steps(&mut self, workflows: &[Workflow], agents: &[&str]) {
        for (n, workflow) in workflows.iter().enumerate() {
            for step in &workflow.steps {
                let Action::Task(job) = &step.action else { continue };
                let Target::Agent(name) = &job.needs.target else { continue };
                if !agents.contains(&name.as_str()) {
                    let message =
                        format!("its step {:?} is for the agent {name:?}, which this file does not name", step.id);
                    let fix = format!("Add that agent, or correct the step. {}", did_you_mean(name, agents));
                    self.problem(format!("workflows[{n}].file"), "unknown-agent", message, fix);
                }
            }
        }
    }

    fn schedules(&mut self, file: &AppFile, workflows: &[Workflow], names: &[&str]) -> Vec<Schedule> {
        let mut schedules = Vec::new();
        for (n, schedule) in file.schedules.iter().enumerate() {
            let Some(workflow) = workflows.iter().find(|workflow| workflow.name == schedule.workflow) else {
                let message = format!("no workflow of this file has the name {:?}", schedule.workflow);
                let fix = if names.is_empty() {
                    "Name its file under `workflows`".to_owned()
                } else {
                    did_you_mean(&schedule.workflow, names)
                };
                self.problem(format!("schedules[{n}].workflow"), "unknown-workflow", message, fix);
                continue;
            };
            schedules.push(Schedule {
                name: schedule.name.clone(),
                cron: schedule.cron.clone(),
                zone: schedule.zone.clone(),
                missed: schedule.missed,
                workflow: workflow.clone(),
                input: schedule.input.clone(),
                overlap: schedule.overlap,
            });
        }
        schedules
    }

    /// For each agent the places of those that it needs.
    fn needs(&mut self, agents: &[AppAgent], names: &[&str]) -> Vec<Vec<usize>> {
        let mut waits = vec![Vec::new(); agents.len()];
        for (n, agent) in agents.iter().enumerate() {
            for need in &agent.needs {
                match names.iter().position(|name| name == need) {
                    Some(place) => waits[n].push(place),
                    None => {
                        let message = format!("no agent of this file has the name {:?}", excerpt(need, 80));
                        let fix =
                            format!("Write the name that stands in its agent file. {}", did_you_mean(need, names));
                        self.problem(format!("agents[{n}].needs"), "unknown-agent", message, fix);
                    }
                }
            }
        }
        waits
    }
}
