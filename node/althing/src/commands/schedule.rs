//! `althing schedule`

use althing_control::{ScheduleRequest, ScheduledWork};
use serde_json::Value;

use crate::args::{AddSchedule, Schedule};
use crate::commands::agent::escape;
use crate::commands::workflow::read;
use crate::commands::{Out, rows, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Gives a group work at certain times, and shows what became of it.
pub async fn run(at: &Paths, schedule: &Schedule, out: &Out) -> Result<(), Failure> {
    let (group, request) = match schedule {
        Schedule::Add(given) => (&given.group, add(given)?),
        Schedule::List { group } => (group, ScheduleRequest::List),
        Schedule::Remove { group, schedule } => (group, ScheduleRequest::Remove { name: schedule.clone() }),
    };
    let client = at.connect().await?;
    let done = client.post(&format!("/groups/{}/schedules", escape(group)), &request).await?;
    out.show(&done, |done| match request {
        ScheduleRequest::Add { .. } => {
            format!("{} runs at {} (UTC)", text(done, "schedule"), times(done))
        }
        ScheduleRequest::List => listed(done),
        ScheduleRequest::Remove { .. } => format!("{} is removed", text(done, "removed")),
    });
    Ok(())
}

fn add(given: &AddSchedule) -> Result<ScheduleRequest, Failure> {
    let work = match (&given.workflow, &given.capability, &given.agent) {
        (Some(file), ..) => ScheduledWork::Workflow(read(file)?),
        (None, Some(capability), _) => ScheduledWork::Capability(capability.clone()),
        (None, None, Some(agent)) => ScheduledWork::Agent(agent.clone()),
        (None, None, None) => return Err(Failure::usage("name --workflow, --cap or --agent")),
    };
    Ok(ScheduleRequest::Add {
        name: given.schedule.clone(),
        cron: given.cron.clone(),
        zone: given.zone.clone(),
        work,
        input: given.input.join(" "),
        catch_up: given.catch_up,
    })
}

/// The next times.
fn times(one: &Value) -> String {
    let all: Vec<String> = rows(one, "nextMs").iter().map(time).collect();
    if all.is_empty() { "no time".to_owned() } else { all.join(", ") }
}

fn listed(list: &Value) -> String {
    let cells = |one: &Value| {
        let next = rows(one, "nextMs").first().map(time).unwrap_or_default();
        let health = match (one["alarmMs"].as_u64(), one["failures"].as_u64()) {
            (Some(_), failures) => format!("ALARM: {} failed in a row", failures.unwrap_or_default()),
            (None, Some(failures)) if failures > 0 => format!("{failures} failed in a row"),
            _ if one["lastRun"].is_null() => "none yet".to_owned(),
            _ => "good".to_owned(),
        };
        let pattern = format!("{} {}", text(one, "cron"), text(one, "zone"));
        vec![text(one, "schedule"), pattern, text(one, "workflow"), next, text(one, "lastRun"), health]
    };
    let all: Vec<Vec<String>> = rows(list, "schedules").iter().map(cells).collect();
    if all.is_empty() {
        return "no schedule; `althing schedule add GROUP NAME CRON --workflow FILE` adds one".to_owned();
    }
    table(&["schedule", "times", "workflow", "next (UTC)", "last run", "runs"], &all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_that_has_not_run_yet_is_not_called_good() {
        let one = |last: Value| json!({ "schedule": "s", "cron": "0 6 * * *", "zone": "UTC", "lastRun": last });
        let shown = listed(&json!({ "schedules": [one(Value::Null), one(json!("0123"))] }));
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert!(lines[0].contains("next (UTC)") || lines[0].contains("NEXT (UTC)"), "{shown}");
        assert!(lines[1].ends_with("none yet") && lines[2].ends_with("good"), "{shown}");
    }
}
