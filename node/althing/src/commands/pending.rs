//! `althing pending`, `approve` and `deny`: one list of all that waits for people, and answers to it.

use std::path::Path;

use althing_api::{
    AnswerReply, AnswerRequest, AnswerState, AnswerText, PendingEntry, PendingGap, PendingList, PendingSource,
    PendingTrouble, PendingWant, StandingRequest, StepApproval, WorkflowRequest,
};
use althing_client::Client;
use althing_store::file::read_text;

use crate::args::{ApproveArgs, ApproveAsk, DenyAsk, RejectArgs, SigningArgs};
use crate::commands::agent::escape;
use crate::commands::agreement::agree;
use crate::commands::workflow::excerpt;
use crate::commands::{Out, date_time, one_line, org, print_line, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Bytes of a file with a signature.
const SIGNATURE_BYTES_MAX: u64 = 16 << 10;
/// Digits of an id that name it where no other begins so.
const ID_CHARS_MIN: usize = 4;

/// Lists what waits.
pub async fn list(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list: PendingList = at.connect().await?.read("/pending").await?;
    out.show(&list, listed);
    Ok(())
}

/// Says yes.
pub async fn approve(at: &Paths, args: &ApproveAsk, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let entry = found(&client, &args.id).await?;
    match &entry.source {
        PendingSource::Call => {
            let standing = args.standing.zip(args.until).map(|(count, until)| StandingRequest {
                count,
                until_ms: u64::try_from(until.timestamp_millis()).unwrap_or_default(),
                free: args.free.clone(),
            });
            let answer = AnswerRequest { approved: true, reason: None, standing, signature: None };
            call(&client, &entry, answer, (&args.signing, args.yes), out).await
        }
        PendingSource::Workflow { group, run, step } => {
            check_plain(args.standing.is_some(), &args.signing)?;
            let answer = Step { group, run, step, approved: true, note: args.note.as_deref() };
            answer.send(&client, &entry, args.yes, out).await
        }
        PendingSource::Release { registry, .. } => {
            check_plain(args.standing.is_some(), &args.signing)?;
            let registry = Some(registry.clone());
            let release = ApproveArgs { what: entry.id.clone(), audience: None, yes: args.yes, registry };
            org::approve(at, &release, out).await
        }
    }
}

/// Says no.
pub async fn deny(at: &Paths, args: &DenyAsk, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let entry = found(&client, &args.id).await?;
    match &entry.source {
        PendingSource::Call => {
            let reason = args.reason.clone();
            let answer = AnswerRequest { approved: false, reason, standing: None, signature: None };
            call(&client, &entry, answer, (&args.signing, args.yes), out).await
        }
        PendingSource::Workflow { group, run, step } => {
            check_plain(false, &args.signing)?;
            let answer = Step { group, run, step, approved: false, note: args.reason.as_deref() };
            answer.send(&client, &entry, args.yes, out).await
        }
        PendingSource::Release { staged: false, .. } => {
            let message =
                format!("{} is released already, and counts once enough approve it: do not approve it", entry.id);
            Err(Failure::new(code::REFUSED, message))
        }
        PendingSource::Release { registry, staged: true } => {
            check_plain(false, &args.signing)?;
            agree(&entry, &shown(&entry), args.yes, "reject", out)?;
            org::reject(at, &RejectArgs { id: entry.id.clone(), registry: Some(registry.clone()) }, out).await
        }
    }
}

/// Workflows and releases are answered by the owner's own keys.
fn check_plain(is_standing: bool, signing: &SigningArgs) -> Result<(), Failure> {
    if is_standing || signing.text || signing.signature.is_some() {
        let message = "--standing, --text and --signature are for calls of agents; this is a step of a workflow or a release, \
                       which the owner of this node answers";
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// What waits by that id, or by that beginning of one.
async fn found(client: &Client, id: &str) -> Result<PendingEntry, Failure> {
    let list: PendingList = client.read("/pending").await?;
    named(list, id)
}

fn named(list: PendingList, id: &str) -> Result<PendingEntry, Failure> {
    let unread = gaps(&list.unread);
    let mut all = list.pending;
    if let Some(at) = all.iter().position(|entry| entry.id == id) {
        return Ok(all.swap_remove(at));
    }
    let is_long = id.chars().count() >= ID_CHARS_MIN;
    let mut begin: Vec<PendingEntry> = all.into_iter().filter(|entry| is_long && entry.id.starts_with(id)).collect();
    match (begin.pop(), begin.len()) {
        (Some(entry), 0) => Ok(entry),
        (Some(_), others) => {
            let message = format!("{} ids begin with {id}: write more of the one that is meant", others + 1);
            Err(Failure::usage(message))
        }
        (None, _) => {
            let message =
                format!("nothing waits by the id {id}, or no longer; `althing pending` shows what does{unread}");
            Err(Failure::new(code::NOT_FOUND, message))
        }
    }
}

/// Answers what is asked of a call, or prints what is signed to answer it.
async fn call(
    client: &Client,
    entry: &PendingEntry,
    mut answer: AnswerRequest,
    (signing, yes): (&SigningArgs, bool),
    out: &Out,
) -> Result<(), Failure> {
    let path = format!("/pending/{}", escape(&entry.id));
    if signing.text {
        let text: AnswerText = client.read(&format!("{path}/text?approved={}", answer.approved)).await?;
        if out.json {
            out.show(&text, |text| text.text.clone());
        } else {
            // Its last line end is signed too.
            print_line(text.text.strip_suffix('\n').unwrap_or(&text.text));
        }
        return Ok(());
    }
    answer.signature = signing.signature.as_deref().map(signature).transpose()?;
    let mut asked = shown(entry);
    if let Some(StandingRequest { count, until_ms, free }) = &answer.standing {
        let free = if free.is_empty() { String::new() } else { format!(", with any {}", free.join(", ")) };
        asked += &format!("\nand {count} further calls like it{free}, until {}", date_time(*until_ms));
    }
    agree(entry, &asked, yes, if answer.approved { "approve" } else { "deny" }, out)?;
    let reply: AnswerReply = client.ask(&path, &answer).await?;
    out.show(&reply, |reply| answered(reply, entry));
    Ok(())
}

/// What follows from an answer.
fn answered(AnswerReply { id, state, waits }: &AnswerReply, entry: &PendingEntry) -> String {
    match state {
        AnswerState::Open => format!("{id}  your answer is taken; others must answer too"),
        AnswerState::Approved if waits.is_empty() => {
            format!("{id}  approved: {} goes on{}", entry.action, answer_at(entry))
        }
        AnswerState::Approved => {
            let others = waits.iter().map(|other| format!("{} ({})", wants(other), other.id)).collect::<Vec<_>>();
            format!("{id}  your part is agreed; {} still waits for {}", entry.action, others.join(" and "))
        }
        AnswerState::Denied => format!("{id}  denied: {} is not called", entry.action),
    }
}

/// Where the answer of the task is read that goes on, behind a sentence; nothing where nobody knows the task.
fn answer_at(entry: &PendingEntry) -> String {
    let Some((task, agent)) = entry.task.as_ref().zip(entry.agent.as_ref()) else { return String::new() };
    format!("; whoever gave it the task reads the answer with `althing call {agent} --task {task}`")
}

fn signature(file: &Path) -> Result<String, Failure> {
    read_text(file, SIGNATURE_BYTES_MAX).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

/// The answer to a step of a workflow.
struct Step<'a> {
    group: &'a str,
    run: &'a str,
    step: &'a str,
    approved: bool,
    note: Option<&'a str>,
}

impl Step<'_> {
    async fn send(&self, client: &Client, entry: &PendingEntry, yes: bool, out: &Out) -> Result<(), Failure> {
        let verb = if self.approved { "approve" } else { "deny" };
        agree(entry, &shown(entry), yes, verb, out)?;
        let request = WorkflowRequest::Approve {
            run: self.run.to_owned(),
            step: Some(self.step.to_owned()),
            approved: self.approved,
            note: self.note.unwrap_or_default().to_owned(),
        };
        let path = format!("/groups/{}/workflows", escape(self.group));
        let reply: StepApproval = client.ask(&path, &request).await?;
        out.show(&reply, |StepApproval { run, step, approved }| {
            let how = if *approved { "approved" } else { "denied" };
            format!("the step {step} of run {run} is {how}")
        });
        Ok(())
    }
}

fn kind(source: &PendingSource) -> &'static str {
    match source {
        PendingSource::Call => "call",
        PendingSource::Workflow { .. } => "step",
        PendingSource::Release { .. } => "release",
    }
}

fn wants(entry: &PendingEntry) -> String {
    let want = |want: &PendingWant| match want {
        PendingWant::Consent { person } => format!("the yes of {person}"),
        PendingWant::SignOff { count, given, role } => {
            format!("the yes of {count} as {role}, of which {given} are there")
        }
        PendingWant::Approval { count } => format!("{count} approvals"),
    };
    match entry.wants.as_slice() {
        [] => "the yes of an owner in the group".to_owned(),
        all => all.iter().map(want).collect::<Vec<_>>().join(" and "),
    }
}

fn listed(list: &PendingList) -> String {
    let unread = gaps(&list.unread);
    if list.pending.is_empty() {
        return format!("nothing waits for anybody's yes{unread}");
    }
    let cells = |entry: &PendingEntry| {
        let agent = entry.agent.clone().unwrap_or_default();
        let until = entry.expires_ms.map(date_time).unwrap_or_default();
        vec![entry.id.clone(), kind(&entry.source).to_owned(), agent, excerpt(&entry.action), wants(entry), until]
    };
    let rows: Vec<Vec<String>> = list.pending.iter().map(cells).collect();
    let table = table(&["id", "what", "agent", "action", "needs", "until"], &rows);
    let untold: String = list.pending.iter().flat_map(untold).collect();
    format!("{table}`althing approve ID` and `althing deny ID` show what is asked, and answer it{untold}{unread}")
}

/// Who could not be told of one that waits, each on a line of its own.
fn untold(entry: &PendingEntry) -> Vec<String> {
    let line = |PendingTrouble { person, way, attempts, why, next_ms }: &PendingTrouble| {
        let way = way.as_ref().map(|way| format!(" by {way}")).unwrap_or_default();
        let tried = match (attempts, next_ms) {
            (0, _) => String::new(),
            (times, None) => format!(" (tried {times} times, and no more)"),
            (times, Some(next_ms)) => format!(" (tried {times} times, again at {})", date_time(*next_ms)),
        };
        format!("\nnot told: {person}{way} of {}: {}{tried}", entry.id, one_line(why))
    };
    entry.untold.iter().map(line).collect()
}

/// What was not heard, behind a sentence; nothing where all was.
fn gaps(unread: &[PendingGap]) -> String {
    unread.iter().map(|gap| format!("\nnot heard: {}: {}", one_line(&gap.at), one_line(&gap.why))).collect()
}

/// What is agreed to: nothing of it is formatted by an agent. Of a call the node says all of it.
fn shown(entry: &PendingEntry) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &str| lines.push_str(&format!("{name:8} {}\n", one_line(value)));
    match &entry.source {
        PendingSource::Call => {}
        PendingSource::Workflow { group, run, step } => {
            line("step", &format!("{step} of run {run} in group {group}"));
            line("asks", &entry.action);
            line("whole", &format!("`althing workflow show {group} {run}` shows what is asked without a cut"));
        }
        PendingSource::Release { registry, .. } => {
            line("release", &format!("{} {}", entry.agent.as_deref().unwrap_or_default(), entry.action));
            line("at", registry);
        }
    }
    if entry.source != PendingSource::Call {
        line("needs", &wants(entry));
    }
    entry.task.iter().for_each(|task| line("task", task));
    entry.reasons.iter().for_each(|reason| line("since", reason));
    entry.expires_ms.iter().for_each(|until| line("until", &date_time(*until)));
    let outline: String = entry.outline.iter().map(|one| format!("{}\n", one_line(one))).collect();
    format!("{outline}{lines}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use althing_api::DataReach;

    use super::*;

    fn entry(id: &str, source: PendingSource) -> PendingEntry {
        PendingEntry {
            id: id.to_owned(),
            source,
            task: Some("t-1".to_owned()),
            agent: Some("urn:a".to_owned()),
            action: "shop/order".to_owned(),
            outline: vec!["count = 2".to_owned()],
            label: Some(DataReach { level: "internal".to_owned(), trusted: false }),
            difference: Vec::new(),
            reasons: vec!["it costs money".to_owned()],
            wants: vec![
                PendingWant::Consent { person: "ada".to_owned() },
                PendingWant::SignOff { count: 2, given: 1, role: "auditor".to_owned() },
            ],
            asked_ms: Some(0),
            expires_ms: Some(3_661_000),
            untold: Vec::new(),
        }
    }

    fn list(ids: &[&str]) -> PendingList {
        let pending = ids.iter().map(|id| entry(id, PendingSource::Call)).collect();
        PendingList { pending, unread: Vec::new() }
    }

    #[test]
    fn what_is_asked_is_shown_with_its_arguments_and_who_must_agree() {
        let told = shown(&entry("0a", PendingSource::Call));
        let wanted = "count = 2\ntask     t-1\nsince    it costs money\nuntil    1970-01-01T01:01:01Z";
        assert_eq!(told, wanted);
        let (group, run, step) = ("0b".to_owned(), "0c".to_owned(), "check".to_owned());
        let told = shown(&entry("0b/0c/check", PendingSource::Workflow { group, run, step }));
        for words in [
            "step     check of run 0c in group 0b\n",
            "needs    the yes of ada and the yes of 2 as auditor, of which 1 are",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }

    #[test]
    fn no_text_of_somebody_else_looks_like_a_line_of_what_is_agreed_to() {
        let forged = "Go on?\nneeds    nothing\u{202e}\nuntil    2099\n";
        let (group, run, step) = ("0b".to_owned(), "0c".to_owned(), "check".to_owned());
        let asks = PendingEntry {
            action: forged.to_owned(),
            outline: vec![format!("of the workflow {forged}")],
            reasons: vec![forged.to_owned()],
            ..entry("0b/0c/check", PendingSource::Workflow { group, run, step })
        };
        let told = shown(&asks);
        let begins = |words: &str| told.lines().filter(|line| line.starts_with(words)).count();
        assert_eq!((begins("needs"), begins("until"), told.lines().count()), (1, 1, 8), "{told}");
        assert!(told.contains("`althing workflow show 0b 0c`") && !told.contains('\u{202e}'), "{told}");
        let gap = PendingGap { at: forged.to_owned(), why: forged.to_owned() };
        let told = listed(&PendingList { pending: vec![asks], unread: vec![gap] });
        assert_eq!(told.lines().count(), 4, "a head, a row, what to do, and what was not heard: {told}");
    }

    #[test]
    fn who_approves_is_told_where_the_answer_will_be() {
        let told = answer_at(&entry("0a", PendingSource::Call));
        assert!(told.ends_with("reads the answer with `althing call urn:a --task t-1`"), "{told}");
        let none = PendingEntry { task: None, ..entry("0a", PendingSource::Call) };
        assert_eq!(answer_at(&none), "");
    }

    #[test]
    fn who_approves_is_told_for_whom_the_call_waits_still() {
        let own = entry("0a", PendingSource::Call);
        let reply = |state, waits| AnswerReply { id: "0a".to_owned(), state, waits };
        let told = answered(&reply(AnswerState::Approved, Vec::new()), &own);
        assert!(told.starts_with("0a  approved: shop/order goes on; whoever"), "{told}");
        let wants = vec![PendingWant::Consent { person: "grace".to_owned() }];
        let other = PendingEntry { wants, ..entry("b7f4", PendingSource::Call) };
        let told = answered(&reply(AnswerState::Approved, vec![other.clone()]), &own);
        assert_eq!(told, "0a  your part is agreed; shop/order still waits for the yes of grace (b7f4)");
        let told = answered(&reply(AnswerState::Denied, vec![other]), &own);
        assert_eq!(told, "0a  denied: shop/order is not called");
    }

    #[test]
    fn one_list_has_all_that_waits_and_names_what_was_not_heard() {
        assert_eq!(listed(&list(&[])), "nothing waits for anybody's yes");
        let mut all = list(&["0a0b"]);
        let release = PendingSource::Release { registry: "https://r".to_owned(), staged: true };
        all.pending.push(PendingEntry { wants: Vec::new(), ..entry("0c0d", release) });
        all.unread.push(PendingGap { at: "https://s".to_owned(), why: "it does not answer".to_owned() });
        let told = listed(&all);
        for words in ["0a0b", "call", "release", "`althing approve ID`", "not heard: https://s: it does not answer"] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }

    #[test]
    fn who_could_not_be_told_is_named_below_the_list() {
        let trouble = |way: Option<&str>, attempts, next_ms| PendingTrouble {
            person: "kay".to_owned(),
            way: way.map(str::to_owned),
            attempts,
            why: "it answered 500".to_owned(),
            next_ms,
        };
        let mut all = list(&["0a0b"]);
        let url = Some("url https://p");
        all.pending[0].untold = vec![trouble(None, 0, None), trouble(url, 2, Some(3_661_000)), trouble(url, 9, None)];
        let told = listed(&all);
        for words in [
            "\nnot told: kay of 0a0b: it answered 500\n",
            "kay by url https://p of 0a0b: it answered 500 (tried 2 times, again at 1970-01-01T01:01:01Z)",
            "(tried 9 times, and no more)",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
    }

    #[test]
    fn an_id_is_named_by_its_beginning_where_no_other_begins_so() {
        let ids = ["0a0b0c", "0a0b0d", "ffff00"];
        let of = |id: &str| named(list(&ids), id);
        assert_eq!(of("ffff").expect("one begins so").id, "ffff00");
        assert_eq!(of("0a0b0c").expect("it is one").id, "0a0b0c");
        assert_eq!(of("0a0b").expect_err("two begin so").code, code::USAGE);
        for none in ["fff", "eeee", ""] {
            assert_eq!(of(none).expect_err("none is meant").code, code::NOT_FOUND, "{none}");
        }
    }

    #[test]
    fn steps_and_releases_are_answered_without_a_signature() {
        let signing = SigningArgs { text: true, signature: None };
        assert_eq!(check_plain(false, &signing).expect_err("it is no call").code, code::USAGE);
        assert_eq!(check_plain(true, &SigningArgs::default()).expect_err("it is no call").code, code::USAGE);
        assert!(check_plain(false, &SigningArgs::default()).is_ok());
    }
}
