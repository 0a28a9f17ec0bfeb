//! `althing handoff`: hands the work of a task over; and `show|verify|sign`, which need no running node.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use althing_api::{HandoffCondition, HandoffOutcome, HandoffReply, HandoffRequest};
use althing_node::owner;
use althing_protocol::limits::WORK_NAME_BYTES_MAX;
use althing_protocol::object::{ApprovalError, Authored, Handoff, sign_off_statement};
use althing_protocol::{Digest, ObjectError, PublicKey, hex, sign_off};
use althing_store::file::read_text;
use althing_td::{HANDOFF_FILE_BYTES_MAX, HandoffFile, handoff_json, handoff_text, is_hidden, parse_handoff};
use serde::Serialize;

use crate::args;
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, one_line};
use crate::config::Config;
use crate::exit::{Failure, code};
use crate::paths::Paths;
use crate::ports;

/// Bytes of a list of keys: 500 of them.
const SIGNERS_BYTES_MAX: u64 = 64 << 10;

/// Runs `althing handoff`.
pub async fn run(at: &Paths, handoff: &args::Handoff, out: &Out) -> Result<(), Failure> {
    match &handoff.work {
        None => offer(at, &handoff.offer, out).await,
        Some(work) => alone(at, work, out),
    }
}

/// Hands the work of a task over, or writes the document for it.
async fn offer(at: &Paths, offer: &args::OfferArgs, out: &Out) -> Result<(), Failure> {
    let args::OfferArgs { task, agent, remaining, check, draft, sign_off } = offer;
    let (Some(task), Some(agent)) = (task, agent) else {
        return Err(Failure::usage("name a task and an agent: `althing handoff TASK AGENT`"));
    };
    let document = sign_off.as_deref().map(read).transpose()?.map(|file| handoff_json(&file));
    let request = HandoffRequest {
        agent: agent.clone(),
        remaining: remaining.clone(),
        checklist: check.clone(),
        document,
        draft: draft.is_some(),
    };
    let path = format!("/tasks/{}/handoff", escape(task));
    let reply: HandoffReply = at.connect().await?.ask(&path, &request).await?;
    match (reply, draft) {
        (HandoffReply::Draft(made), Some(file)) => {
            write(file, &made.document)?;
            out.show(&made, |_| format!("{}  fill and sign it, then offer it with `--sign-off`", file.display()));
            Ok(())
        }
        (HandoffReply::Draft(made), None) => {
            out.show(&made, |made| handoff_text(&made.document));
            Ok(())
        }
        (HandoffReply::Outcome(outcome), _) => {
            out.show(&outcome, told);
            let is_kept = !matches!(outcome.state, HandoffCondition::Given | HandoffCondition::Waiting);
            if is_kept { Err(Failure::shown(code::REFUSED)) } else { Ok(()) }
        }
    }
}

/// What became of an offer, for people.
fn told(outcome: &HandoffOutcome) -> String {
    let HandoffOutcome { handoff, task, recipient, state, becomes, original, reason, message } = outcome;
    // The recipient's node wrote them.
    let text = |text: &Option<String>| one_line(text.as_deref().unwrap_or_default());
    match state {
        HandoffCondition::Given => {
            format!("{task}  handed over to {recipient}, as its task {}; handoff {handoff}", text(becomes))
        }
        HandoffCondition::Waiting => format!(
            "{task}  is offered to {recipient} ({}), and offered again for as long as the handoff {handoff} is in force and this node \
             runs; its agent goes on meanwhile, and after a restart it is offered no more: hand it over again then",
            text(message)
        ),
        HandoffCondition::Duplicate => {
            format!("{task}  not handed over: {recipient} has the work by the handoff {}", text(original))
        }
        HandoffCondition::Rejected => {
            format!("{task}  not handed over: {recipient} rejected it [{}]: {}", text(reason), text(message))
        }
        HandoffCondition::Unanswered => {
            format!("{task}  not handed over: {recipient} did not answer while the handoff {handoff} was in force")
        }
    }
}

/// Writes a document to a new file.
fn write(path: &Path, view: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(view).map_err(|error| Failure::failed(error.to_string()))? + "\n";
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}

/// Works on documents alone.
fn alone(at: &Paths, work: &args::HandoffWork, out: &Out) -> Result<(), Failure> {
    match work {
        args::HandoffWork::Show { file, statement, until } => {
            let read = read(file)?;
            match statement.as_ref().zip(until.as_ref()) {
                Some((role, until)) => show_statement(&read.handoff, role, until.timestamp_millis(), out),
                None => {
                    out.show(&handoff_json(&read), handoff_text);
                    Ok(())
                }
            }
        }
        args::HandoffWork::Verify { files, signers } => verify(files, &keys(signers.as_deref())?, out),
        args::HandoffWork::Sign { draft, signed, signers } => {
            sign(at, (draft, signed), &keys(signers.as_deref())?, out)
        }
    }
}

fn read(file: &Path) -> Result<HandoffFile, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
    let bytes_max = u64::try_from(HANDOFF_FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let text = read_text(file, bytes_max).map_err(|error| failed(&error))?;
    parse_handoff(&text).map_err(|error| failed(&error))
}

/// The keys of a file; none if there is no file.
fn keys(file: Option<&Path>) -> Result<BTreeSet<PublicKey>, Failure> {
    let Some(file) = file else { return Ok(BTreeSet::new()) };
    let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", file.display()));
    let text = read_text(file, SIGNERS_BYTES_MAX).map_err(|error| failed(&error))?;
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys = lines
        .map(|(at, line)| sign_off::public_key(line).map_err(|error| failed(&format!("line {}: {error}", at + 1))));
    keys.collect()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    statement: String,
    document: String,
}

fn show_statement(handoff: &Handoff, role: &str, until_ms: i64, out: &Out) -> Result<(), Failure> {
    if handoff.regulation.is_none() {
        return Err(Failure::usage("the handoff has no `regulation`, which is where sign-offs are: add it first"));
    }
    if !(1..=WORK_NAME_BYTES_MAX).contains(&role.len()) || role.chars().any(|c| c.is_control() || is_hidden(c)) {
        let message = format!("a role is 1 to {WORK_NAME_BYTES_MAX} bytes in one line, with no invisible characters");
        return Err(Failure::usage(message));
    }
    let document = handoff.document();
    let until_ms = u64::try_from(until_ms).unwrap_or_default();
    let statement = sign_off_statement(&document, role, until_ms);
    out.show(&Statement { statement, document: hex(&document) }, |told| told.statement.clone());
    Ok(())
}

/// What was found out about some handoffs.
#[derive(Serialize)]
struct VerifyReport {
    /// None has a problem.
    valid: bool,
    handoffs: Vec<HandoffReport>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HandoffReport {
    file: PathBuf,
    task: String,
    sender: String,
    recipient: String,
    not_after_ms: u64,
    /// The digest of the signed bytes, which the next handoff names; none if it is not signed.
    digest: Option<String>,
    /// Whose signature is good.
    signer: Option<String>,
    network: Option<String>,
    previous: Option<String>,
    level: Option<&'static str>,
    sign_offs: Vec<SignOffReport>,
    problems: Vec<Finding>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SignOffReport {
    role: String,
    until_ms: u64,
    /// As OpenSSH shows it; none if the signature is not good, or over.
    key: Option<String>,
    /// Whether it is one of those that were given.
    counts: bool,
}

/// Why a handoff would not be accepted.
#[derive(Serialize)]
struct Finding {
    /// A word that does not change, as recipients answer it.
    reason: &'static str,
    message: String,
}

fn verify(files: &[PathBuf], signers: &BTreeSet<PublicKey>, out: &Out) -> Result<(), Failure> {
    let now_ms = ports::clock().now_ms();
    let mut handoffs = Vec::with_capacity(files.len());
    let mut before: Option<Option<Digest>> = None;
    for (at, path) in files.iter().enumerate() {
        let file = read(path)?;
        // What has been followed by another one was judged in its time.
        let is_last = at + 1 == files.len();
        let at_ms = if is_last { now_ms } else { file.handoff.issued_at_ms };
        let (signed, mut problems) = problems(&file, signers, at_ms);
        let digest = signed.as_ref().map(Authored::digest);
        if before.is_some_and(|before| before.is_none() || before != file.handoff.previous) {
            let message =
                "it does not go on from the one before it: `previous` is another digest, or that is not signed";
            problems.push(Finding { reason: "chain", message: message.to_owned() });
        }
        before = Some(digest);
        handoffs.push(report(path, &file, signed.as_ref(), (signers, at_ms), problems));
    }
    let valid = handoffs.iter().all(|handoff| handoff.problems.is_empty());
    out.show(&VerifyReport { valid, handoffs }, |report| report.handoffs.iter().map(verdict).collect());
    if valid { Ok(()) } else { Err(Failure::shown(code::FAILED)) }
}

/// The signed handoff, if its signature is good; and all for which it would not be accepted.
fn problems(
    file: &HandoffFile,
    signers: &BTreeSet<PublicKey>,
    at_ms: u64,
) -> (Option<Authored<Handoff>>, Vec<Finding>) {
    let mut problems = Vec::new();
    let signed = match file.signed() {
        Some(Ok(signed)) => Some(signed),
        Some(Err(error)) => {
            let message = format!("its signature is not of this content: {error}");
            problems.push(Finding { reason: "bad_signature", message });
            None
        }
        None => {
            let message = "nobody has signed it; `althing handoff sign` does, on the node that hosts its sender";
            problems.push(Finding { reason: "bad_signature", message: message.to_owned() });
            None
        }
    };
    problems.extend(unfit(&file.handoff, signers, at_ms));
    (signed, problems)
}

/// What is wrong with a handoff, whoever signs it.
fn unfit(handoff: &Handoff, signers: &BTreeSet<PublicKey>, at_ms: u64) -> Vec<Finding> {
    let mut problems = Vec::new();
    let missing = handoff.missing();
    if !missing.is_empty() {
        let message = format!("it is not complete: {} is missing", missing.join(", "));
        problems.push(Finding { reason: "incomplete", message });
    }
    if let Err(error) = handoff.in_force(at_ms) {
        let reason = if matches!(error, ObjectError::Expired { .. }) { "expired" } else { "not_yet_valid" };
        problems.push(Finding { reason, message: error.to_string() });
    }
    if let Err(error) = handoff.check_approval(None, signers, at_ms) {
        let reason = match error {
            ApprovalError::Missing { .. } => "sign_off_missing",
            ApprovalError::Signature { .. } => "bad_signature",
        };
        let hint = if signers.is_empty() { "; `--signers FILE` says whose sign-offs count" } else { "" };
        problems.push(Finding { reason, message: format!("{error}{hint}") });
    }
    problems
}

fn report(
    path: &Path,
    file: &HandoffFile,
    signed: Option<&Authored<Handoff>>,
    (signers, at_ms): (&BTreeSet<PublicKey>, u64),
    problems: Vec<Finding>,
) -> HandoffReport {
    let handoff = &file.handoff;
    let document = handoff.document();
    let sign_offs = handoff.regulation.iter().flat_map(|it| &it.sign_offs).map(|it| {
        let key = it.verify(&document, at_ms).ok();
        SignOffReport {
            role: it.role.clone(),
            until_ms: it.until_ms,
            counts: key.is_some_and(|key| signers.contains(&key)),
            key: key.map(|key| sign_off::fingerprint(&key)),
        }
    });
    HandoffReport {
        file: path.to_owned(),
        task: handoff.task_id.clone(),
        sender: handoff.sender.agent.to_string(),
        recipient: handoff.recipient.to_string(),
        not_after_ms: handoff.not_after_ms,
        digest: signed.map(|signed| hex(&signed.digest())),
        signer: signed.map(|signed| signed.signer.did()),
        network: file.signature.as_ref().map(|signature| signature.network.clone()),
        previous: handoff.previous.map(|digest| hex(&digest)),
        level: handoff.level(None).map(|level| level.name()),
        sign_offs: sign_offs.collect(),
        problems,
    }
}

fn verdict(report: &HandoffReport) -> String {
    let is_valid = report.problems.is_empty();
    let mut lines = format!("{}: {}\n", report.file.display(), if is_valid { "valid" } else { "not valid" });
    let mut line = |name: &str, value: &str| lines.push_str(&format!("  {name:10} {}\n", one_line(value)));
    line("task", &report.task);
    line("from", &report.sender);
    line("to", &report.recipient);
    line("until", &date_time(report.not_after_ms));
    if let (Some(signer), Some(network)) = (&report.signer, &report.network) {
        line("signed by", &format!("{signer}, for the network {network}"));
    }
    for (name, value) in [("digest", report.digest.as_deref()), ("previous", report.previous.as_deref())] {
        value.into_iter().for_each(|value| line(name, value));
    }
    report.level.into_iter().for_each(|level| line("level", level));
    for it in &report.sign_offs {
        let key = it.key.as_deref().unwrap_or("no key: the signature is not valid, or over");
        let counts = if it.counts { "counts" } else { "does not count here" };
        line("signed off", &format!("{} until {}, {key}; {counts}", it.role, date_time(it.until_ms)));
    }
    for problem in &report.problems {
        line("problem", &format!("[{}] {}", problem.reason, problem.message));
    }
    lines
}

/// Signs what would be accepted.
fn sign(at: &Paths, (draft, signed): (&Path, &Path), signers: &BTreeSet<PublicKey>, out: &Out) -> Result<(), Failure> {
    let file = read(draft)?;
    let problems = unfit(&file.handoff, signers, ports::clock().now_ms());
    if !problems.is_empty() {
        let line = |problem: &Finding| format!("[{}] {}", problem.reason, problem.message);
        let said: Vec<String> = problems.iter().map(line).collect();
        return Err(Failure::new(code::REFUSED, format!("{}: {}", draft.display(), said.join("\n"))));
    }
    if !at.node_key().exists() {
        let message = format!("this node was never started; start it with `althing{} up`", at.flags());
        return Err(Failure::new(code::NO_NODE, message));
    }
    let mut config = Config::read(&at.config, at.config_named)?;
    config.unlock()?;
    let key = owner::secret(&at.node_key(), &ports::entropy())?;
    let file = file.sign(&config.network, &key);
    let view = handoff_json(&file.map_err(|error| Failure::usage(format!("{}: {error}", draft.display())))?);
    write(signed, &view)?;
    out.show(&view, |_| format!("{}  signed by {}", signed.display(), key.public()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_offer_that_waits_people_are_told_that_it_ends_with_the_node() {
        let outcome = HandoffOutcome {
            handoff: "h-1".to_owned(),
            task: "t-1".to_owned(),
            recipient: "urn:althing:zQm:auditor".to_owned(),
            state: HandoffCondition::Waiting,
            becomes: None,
            original: None,
            reason: None,
            message: Some("it has no room now".to_owned()),
        };
        let told = told(&outcome);
        for words in
            ["t-1  is offered", "(it has no room now)", "and this node runs", "after a restart it is offered no more"]
        {
            assert!(told.contains(words), "{words}: {told}");
        }
        let message = Some("no\nt-1  handed over to urn:althing:zQm:auditor".to_owned());
        let rejected = HandoffOutcome { state: HandoffCondition::Rejected, message, ..outcome };
        assert_eq!(super::told(&rejected).lines().count(), 1, "what the recipient says is no outcome");
    }
}
