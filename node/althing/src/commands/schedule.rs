//! `althing schedule`

use althing_api::{ScheduleRequest, ScheduledWork};
use serde_json::Value;

use crate::args::{AddSchedule, Schedule};
use crate::commands::agent::escape;
use crate::commands::workflow::read;
use crate::commands::{Out, rows, table, text, time};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Gives a group work at certain times, and shows what became of it.
pub async fn run(at: &Paths, schedule: &Schedule, out: &Out) -> Result<(), Failure> {
    let (group, request) = match schedule {
        Schedule::Add(given) => (&given.group, add(given)?),
        Schedule::List { group } | Schedule::Show { group, .. } => (group, ScheduleRequest::List),
        Schedule::Remove { group, schedule } => (group, ScheduleRequest::Remove { name: schedule.clone() }),
    };
    let client = at.connect().await?;
    let done = client.post(&format!("/groups/{}/schedules", escape(group)), &request).await?;
    if let Schedule::Show { schedule, .. } = schedule {
        out.show(one(&done, schedule)?, shown);
        return Ok(());
    }
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
        overlap: given.overlap.into(),
    })
}

/// The next times.
fn times(one: &Value) -> String {
    let all: Vec<String> = rows(one, "nextMs").iter().map(time).collect();
    if all.is_empty() { "no time".to_owned() } else { all.join(", ") }
}

/// The schedule of that name.
fn one<'a>(list: &'a Value, name: &str) -> Result<&'a Value, Failure> {
    let all = rows(list, "schedules");
    all.iter().find(|one| one["schedule"] == name).ok_or_else(|| {
        let names: Vec<String> = all.iter().map(|one| text(one, "schedule")).collect();
        let known = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        Failure::new(code::NOT_FOUND, format!("the group has no schedule {name:?}; {known}"))
    })
}

/// How the runs of a schedule ended, and how many times were passed over.
fn health(one: &Value) -> String {
    let health = match (one["alarmMs"].as_u64(), one["failures"].as_u64()) {
        (Some(_), failures) => format!("ALARM: {} failed in a row", failures.unwrap_or_default()),
        (None, Some(failures)) if failures > 0 => format!("{failures} failed in a row"),
        _ if one["lastRun"].is_null() => "none yet".to_owned(),
        _ => "good".to_owned(),
    };
    let health = match one["skipped"].as_u64() {
        Some(count) if count > 0 => format!("{health}; {count} skipped"),
        _ => health,
    };
    match waits(one) {
        Some(waits) => format!("{health}; {waits}"),
        None => health,
    }
}

/// Which run of a schedule waits for somebody's approval, if one does.
fn waits(one: &Value) -> Option<String> {
    let asking = one.get("asking").filter(|asking| asking.is_object())?;
    let (number, step) = (text(asking, "number"), text(asking, "step"));
    Some(format!("run {number} of {} waits for approval of step {step:?}", time(&asking["startedMs"])))
}

fn shown(one: &Value) -> String {
    let missed =
        if one["catchUp"] == true { "the last time that was missed counts" } else { "times that were missed pass" };
    let overlap = match one["overlap"].as_str() {
        Some("skip") => "skip: a time passes while a run has not ended",
        Some("replace") => "replace: a run that has not ended is canceled for the next one",
        _ => "allow: runs begin beside each other",
    };
    let mut lines = vec![
        format!("schedule  {}", text(one, "schedule")),
        format!("times     {} {}", text(one, "cron"), text(one, "zone")),
        format!("next      {} (UTC)", times(one)),
        format!("workflow  {}", text(one, "workflow")),
        format!("author    {}", text(one, "author")),
        format!("last run  {}", text(one, "lastRun")),
        format!("runs      {}", health(one)),
        format!("missed    {missed}"),
        format!("overlap   {overlap}"),
    ];
    if !one["lastSkippedMs"].is_null() {
        let (count, last) = (text(one, "skipped"), time(&one["lastSkippedMs"]));
        lines.push(format!("skipped   {count}, the last one {last}: a run had not ended"));
    }
    if let Some(waits) = waits(one) {
        let run = text(&one["asking"], "run");
        lines.push(format!("waits     {waits}: `althing workflow approve GROUP {run}`, or `--reject`, ends that"));
    }
    lines.join("\n")
}

fn listed(list: &Value) -> String {
    let cells = |one: &Value| {
        let next = rows(one, "nextMs").first().map(time).unwrap_or_default();
        let pattern = format!("{} {}", text(one, "cron"), text(one, "zone"));
        vec![text(one, "schedule"), pattern, text(one, "workflow"), next, text(one, "lastRun"), health(one)]
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

    /// Else it looks as if it ran for ever.
    #[test]
    fn a_run_that_waits_for_a_person_is_named_with_what_ends_that() {
        let asking = json!({ "run": "0a1b", "number": 12, "step": "publish", "startedMs": 1_774_742_400_000_u64 });
        let list = json!({ "schedules": [{
            "schedule": "s", "cron": "* * * * *", "zone": "UTC", "lastRun": "0a1b", "overlap": "skip", "skipped": 3,
            "lastSkippedMs": 1_774_742_460_000_u64, "asking": asking,
        }] });
        let waits = "run 12 of 2026-03-29T00:00:00Z waits for approval of step \"publish\"";
        assert!(listed(&list).contains(&format!("good; 3 skipped; {waits}")), "{}", listed(&list));
        let shown = shown(one(&list, "s").expect("it is there"));
        assert!(shown.contains(waits) && shown.contains("workflow approve GROUP 0a1b"), "{shown}");
    }

    #[test]
    fn times_that_were_passed_over_are_counted() {
        let list = json!({ "schedules": [{
            "schedule": "s", "cron": "* * * * *", "zone": "UTC", "lastRun": "0123", "overlap": "skip", "catchUp": false,
            "skipped": 3, "lastSkippedMs": 1_774_742_400_000_u64, "nextMs": [1_774_742_460_000_u64],
        }] });
        assert!(listed(&list).contains("good; 3 skipped"), "{}", listed(&list));
        let shown = shown(one(&list, "s").expect("it is there"));
        assert!(shown.contains("skipped   3, the last one 2026-03-29T00:00:00Z"), "{shown}");
        assert!(shown.contains("overlap   skip: "), "{shown}");
        assert!(!shown.contains("waits"), "{shown}");
        let unknown = one(&list, "t").expect_err("it is not there");
        assert_eq!(unknown.code, code::NOT_FOUND);
    }
}
