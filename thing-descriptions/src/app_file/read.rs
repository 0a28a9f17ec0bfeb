//! From the YAML tree to an app file: known and required keys, types, bounds and defaults.

use std::path::{Component, Path};

use althing_protocol::group::{GroupId, Missed, Overlap};
use althing_protocol::limits::{WORK_NAME_BYTES_MAX, WORKFLOW_BYTES_MAX};

use super::{
    APP_AGENTS_MAX, APP_INSTANCES_MAX, APP_SCHEDULES_MAX, APP_WORKFLOWS_MAX, AppAgentFile, AppFile, AppSchedule,
    ZONE_DEFAULT,
};
use crate::hidden::hidden_in;
use crate::json::excerpt;
use crate::reader::yaml::At;
use crate::reader::{Fields, FileProblem, Reader, is_name};

pub(super) const FILE_KEYS: [&str; 5] = ["name", "group", "agents", "workflows", "schedules"];
pub(super) const AGENT_KEYS: [&str; 5] = ["file", "instances", "instances_max", "labels", "needs"];
pub(super) const WORKFLOW_KEYS: [&str; 1] = ["file"];
pub(super) const SCHEDULE_KEYS: [&str; 7] = ["name", "cron", "zone", "workflow", "input", "missed", "overlap"];

/// The longest path of a file, in bytes.
const PATH_BYTES_MAX: usize = 1024;

/// The file as far as its shape is right, and the problems.
pub(super) fn read(root: At) -> (Option<AppFile>, Vec<FileProblem>) {
    let mut reader = Reader::default();
    let file = app(&mut reader, root);
    (file, reader.problems)
}

fn app(reader: &mut Reader, root: At) -> Option<AppFile> {
    let fields = reader.fields(&root, "", &FILE_KEYS)?;
    let name = reader.needed_name(&fields, "name");
    let group = group(reader, &fields);
    let agents = reader.counted(&fields, "agents", 1..=APP_AGENTS_MAX, |reader, at, path| agent(reader, at, &path));
    let workflows = reader.counted(&fields, "workflows", 0..=APP_WORKFLOWS_MAX, |reader, at, path| {
        let fields = reader.fields(at, &path, &WORKFLOW_KEYS)?;
        file(reader, &fields)
    });
    let mut names: Vec<String> = Vec::new();
    let schedules = reader.counted(&fields, "schedules", 0..=APP_SCHEDULES_MAX, |reader, at, path| {
        schedule(reader, at, &path, &mut names)
    });
    Some(AppFile {
        name: name?,
        group: group?,
        agents: agents?,
        workflows: workflows.unwrap_or_default(),
        schedules: schedules.unwrap_or_default(),
        root,
    })
}

fn group(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let group = reader.needed(fields, "group")?;
    if is_name(&group) || group.parse::<GroupId>().is_ok() {
        return Some(group);
    }
    let message = format!("{:?} is neither the name nor the id of a group", excerpt(&group, 80));
    let fix = "Write its name (1 to 63 of a-z, 0-9 and -, no - at either end), or its id (urn:althing:zQm…)";
    reader.refuse(fields, "group", "group-form", message, fix.to_owned());
    None
}

fn agent(reader: &mut Reader, at: &At, path: &str) -> Option<AppAgentFile> {
    let fields = reader.fields(at, path, &AGENT_KEYS)?;
    let file = file(reader, &fields);
    let instances = reader.number(&fields, "instances", 1..=APP_INSTANCES_MAX).unwrap_or(1);
    let instances_max = reader.number(&fields, "instances_max", instances..=APP_INSTANCES_MAX);
    let labels = reader.labels(&fields);
    let needs = reader.distinct(&fields, "needs");
    Some(AppAgentFile { file: file?, instances, instances_max, labels, needs })
}

/// The path of a file beside the app file, or in a folder beside it.
fn file(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let file = reader.needed(fields, "file")?;
    let file = reader.within(fields, "file", file, PATH_BYTES_MAX)?;
    let path = Path::new(&file);
    let stays = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if stays
        && path.file_name().is_some()
        && !file.ends_with('/')
        && !file.chars().any(char::is_control)
        && hidden_in(&file).is_none()
    {
        return Some(file);
    }
    let message = format!("{:?} is no file in the folder of this one", excerpt(&file, 80));
    let fix = "Write a path that begins there, such as agents/echo.yaml; no / at the front, and no ..";
    reader.refuse(fields, "file", "path", message, fix.to_owned());
    None
}

fn schedule(reader: &mut Reader, at: &At, path: &str, names: &mut Vec<String>) -> Option<AppSchedule> {
    let fields = reader.fields(at, path, &SCHEDULE_KEYS)?;
    let name = reader.needed_name(&fields, "name");
    if let Some(name) = &name {
        if names.contains(name) {
            let message = format!("{name:?} is the name of an earlier schedule");
            reader.refuse(&fields, "name", "name-twice", message, "Give each schedule a name of its own".to_owned());
        }
        names.push(name.clone());
    }
    let cron = cron(reader, &fields);
    let zone = zone(reader, &fields);
    let workflow = reader.needed_name(&fields, "workflow");
    let input = reader.text(&fields, "input").unwrap_or_default();
    if input.len() > WORKFLOW_BYTES_MAX {
        let message = format!("this text has {} bytes", input.len());
        let fix = format!("Write at most {WORKFLOW_BYTES_MAX}; let an agent read what is longer");
        reader.refuse(&fields, "input", "out-of-range", message, fix);
    }
    let word = |word: &str| match word {
        "skip" => Some(Missed::Skip),
        "once" => Some(Missed::RunOnce),
        _ => None,
    };
    let missed = reader.word(&fields, "missed", (&["skip", "once"], ""), word).unwrap_or_default();
    let word = |word: &str| match word {
        "allow" => Some(None),
        "skip" => Some(Some(Overlap::Skip)),
        "replace" => Some(Some(Overlap::Replace)),
        _ => None,
    };
    let overlap = reader.word(&fields, "overlap", (&["allow", "skip", "replace"], ""), word);
    let overlap = overlap.unwrap_or(Some(Overlap::Skip));
    Some(AppSchedule { name: name?, cron: cron?, zone: zone?, workflow: workflow?, input, missed, overlap })
}

/// The times, as far as their form shows. Whether they ever come is known where they are computed.
fn cron(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let cron = reader.needed(fields, "cron")?;
    let is_whole = cron.split_whitespace().count() == 5 || cron.starts_with('@');
    if is_whole && cron.len() <= WORK_NAME_BYTES_MAX {
        return Some(cron);
    }
    let message = format!("{:?} is no pattern of cron", excerpt(&cron, 80));
    let fix = "Write minute, hour, day of the month, month and day of the week, such as \"30 6 * * mon-fri\"";
    reader.refuse(fields, "cron", "cron", message, fix.to_owned());
    None
}

fn zone(reader: &mut Reader, fields: &Fields<'_>) -> Option<String> {
    let zone = reader.text(fields, "zone").unwrap_or_else(|| ZONE_DEFAULT.to_owned());
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_/+-".contains(c);
    if (1..=WORK_NAME_BYTES_MAX).contains(&zone.len()) && zone.chars().all(allowed) {
        return Some(zone);
    }
    let message = format!("{:?} is no time zone", excerpt(&zone, 80));
    let fix = "Write a name of the IANA's list, such as Europe/Berlin or UTC";
    reader.refuse(fields, "zone", "zone", message, fix.to_owned());
    None
}
