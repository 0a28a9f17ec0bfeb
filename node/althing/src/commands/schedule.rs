//! `althing schedule`

use althing_api::{
    OverlapRule, ScheduleAddition, ScheduleList, ScheduleRemoval, ScheduleRequest, ScheduleStatus, ScheduledWork,
};

use crate::args::{AddSchedule, Schedule};
use crate::commands::agent::escape;
use crate::commands::workflow::read;
use crate::commands::{Out, date_time, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Gives a group work at certain times, and shows what became of it.
pub async fn run(at: &Paths, schedule: &Schedule, out: &Out) -> Result<(), Failure> {
    let path = |group: &str| format!("/groups/{}/schedules", escape(group));
    match schedule {
        Schedule::Add(given) => {
            let request = add(given)?;
            let done: ScheduleAddition = at.connect().await?.ask(&path(&given.group), &request).await?;
            out.show(&done, |done| format!("{} runs at {} (UTC)", done.schedule, times(&done.next_ms)));
        }
        Schedule::List { group } => {
            let list: ScheduleList = at.connect().await?.read(&path(group)).await?;
            out.show(&list, listed);
        }
        Schedule::Show { group, schedule } => {
            let list: ScheduleList = at.connect().await?.read(&path(group)).await?;
            out.show(one(&list, schedule)?, shown);
        }
        Schedule::Remove { group, schedule } => {
            let request = ScheduleRequest::Remove { name: schedule.clone() };
            let done: ScheduleRemoval = at.connect().await?.ask(&path(group), &request).await?;
            out.show(&done, |done| format!("{} is removed", done.removed));
        }
    }
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
fn times(next_ms: &[u64]) -> String {
    let all: Vec<String> = next_ms.iter().copied().map(date_time).collect();
    if all.is_empty() { "no time".to_owned() } else { all.join(", ") }
}

/// The schedule of that name.
fn one<'a>(list: &'a ScheduleList, name: &str) -> Result<&'a ScheduleStatus, Failure> {
    let all = &list.schedules;
    all.iter().find(|one| one.schedule == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| one.schedule.as_str()).collect();
        let known = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        Failure::new(code::NOT_FOUND, format!("the group has no schedule {name:?}; {known}"))
    })
}

/// How the runs of a schedule ended, and how many times were passed over.
fn health(one: &ScheduleStatus) -> String {
    let health = match (one.alarm_ms, one.failures) {
        (Some(_), failures) => format!("ALARM: {failures} failed in a row"),
        (None, failures) if failures > 0 => format!("{failures} failed in a row"),
        _ if one.last_run.is_none() => "none yet".to_owned(),
        _ => "good".to_owned(),
    };
    let health = if one.skipped > 0 { format!("{health}; {} skipped", one.skipped) } else { health };
    match waits(one) {
        Some(waits) => format!("{health}; {waits}"),
        None => health,
    }
}

/// Which run of a schedule waits for somebody's approval, if one does.
fn waits(one: &ScheduleStatus) -> Option<String> {
    let asking = one.asking.as_ref()?;
    let (number, step, begun) = (asking.number, &asking.step, date_time(asking.started_ms));
    Some(format!("run {number} of {begun} waits for approval of step {step:?}"))
}

fn shown(one: &ScheduleStatus) -> String {
    let missed = if one.catch_up { "the last time that was missed counts" } else { "times that were missed pass" };
    let overlap = match one.overlap {
        OverlapRule::Skip => "skip: a time passes while a run has not ended",
        OverlapRule::Replace => "replace: a run that has not ended is canceled for the next one",
        OverlapRule::Allow => "allow: runs begin beside each other",
    };
    let mut lines = vec![
        format!("schedule  {}", one.schedule),
        format!("times     {} {}", one.cron, one.zone),
        format!("next      {} (UTC)", times(&one.next_ms)),
        format!("workflow  {}", one.workflow),
        format!("author    {}", one.author),
        format!("last run  {}", one.last_run.as_deref().unwrap_or_default()),
        format!("runs      {}", health(one)),
        format!("missed    {missed}"),
        format!("overlap   {overlap}"),
    ];
    if let Some(last_ms) = one.last_skipped_ms {
        let (count, last) = (one.skipped, date_time(last_ms));
        lines.push(format!("skipped   {count}, the last one {last}: a run had not ended"));
    }
    if let (Some(waits), Some(asking)) = (waits(one), &one.asking) {
        let run = &asking.run;
        lines.push(format!("waits     {waits}: `althing workflow approve GROUP {run}`, or `--reject`, ends that"));
    }
    lines.join("\n")
}

fn listed(list: &ScheduleList) -> String {
    let cells = |one: &ScheduleStatus| {
        let next = one.next_ms.first().copied().map(date_time).unwrap_or_default();
        let pattern = format!("{} {}", one.cron, one.zone);
        let last_run = one.last_run.clone().unwrap_or_default();
        vec![one.schedule.clone(), pattern, one.workflow.clone(), next, last_run, health(one)]
    };
    let all: Vec<Vec<String>> = list.schedules.iter().map(cells).collect();
    if all.is_empty() {
        return "no schedule; `althing schedule add GROUP NAME CRON --workflow FILE` adds one".to_owned();
    }
    table(&["schedule", "times", "workflow", "next (UTC)", "last run", "runs"], &all)
}

#[cfg(test)]
mod tests {
    use althing_api::ScheduleQuestion;

    use super::*;

    fn schedule(last_run: Option<&str>) -> ScheduleStatus {
        ScheduleStatus {
            schedule: "s".to_owned(),
            cron: "* * * * *".to_owned(),
            zone: "UTC".to_owned(),
            catch_up: false,
            overlap: OverlapRule::Skip,
            skipped: 0,
            last_skipped_ms: None,
            asking: None,
            workflow: "letter".to_owned(),
            author: "urn:a".to_owned(),
            last_ms: None,
            last_run: last_run.map(str::to_owned),
            failures: 0,
            alarm_ms: None,
            next_ms: Vec::new(),
        }
    }

    #[test]
    fn a_schedule_that_has_not_run_yet_is_not_called_good() {
        let shown = listed(&ScheduleList { schedules: vec![schedule(None), schedule(Some("0123"))] });
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert!(lines[0].contains("next (UTC)") || lines[0].contains("NEXT (UTC)"), "{shown}");
        assert!(lines[1].ends_with("none yet") && lines[2].ends_with("good"), "{shown}");
    }

    #[test]
    fn runs_that_failed_are_counted_until_there_is_an_alarm() {
        let failed = ScheduleStatus { failures: 2, ..schedule(Some("0123")) };
        assert_eq!(health(&failed), "2 failed in a row");
        assert_eq!(health(&ScheduleStatus { failures: 3, alarm_ms: Some(7), ..failed }), "ALARM: 3 failed in a row");
    }

    /// Else it looks as if it ran for ever.
    #[test]
    fn a_run_that_waits_for_a_person_is_named_with_what_ends_that() {
        let asking = ScheduleQuestion {
            run: "0a1b".to_owned(),
            number: 12,
            step: "publish".to_owned(),
            started_ms: 1_774_742_400_000,
        };
        let waiting = ScheduleStatus {
            skipped: 3,
            last_skipped_ms: Some(1_774_742_460_000),
            asking: Some(asking),
            ..schedule(Some("0a1b"))
        };
        let list = ScheduleList { schedules: vec![waiting] };
        let waits = "run 12 of 2026-03-29T00:00:00Z waits for approval of step \"publish\"";
        assert!(listed(&list).contains(&format!("good; 3 skipped; {waits}")), "{}", listed(&list));
        let shown = shown(one(&list, "s").expect("it is there"));
        assert!(shown.contains(waits) && shown.contains("workflow approve GROUP 0a1b"), "{shown}");
    }

    #[test]
    fn times_that_were_passed_over_are_counted() {
        let skipped = ScheduleStatus {
            skipped: 3,
            last_skipped_ms: Some(1_774_742_400_000),
            next_ms: vec![1_774_742_460_000],
            ..schedule(Some("0123"))
        };
        let list = ScheduleList { schedules: vec![skipped] };
        assert!(listed(&list).contains("good; 3 skipped"), "{}", listed(&list));
        let shown = shown(one(&list, "s").expect("it is there"));
        assert!(shown.contains("skipped   3, the last one 2026-03-29T00:00:00Z"), "{shown}");
        assert!(shown.contains("next      2026-03-29T00:01:00Z (UTC)"), "{shown}");
        assert!(shown.contains("overlap   skip: "), "{shown}");
        assert!(!shown.contains("waits"), "{shown}");
        let unknown = one(&list, "t").expect_err("it is not there");
        assert_eq!(unknown.code, code::NOT_FOUND);
    }
}
