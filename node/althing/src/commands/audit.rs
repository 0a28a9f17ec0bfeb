//! `althing audit`

use std::io::Write as _;
use std::path::Path;

use althing_api::{
    AuditBody, AuditDetails, AuditEntry, AuditGateVerdict, AuditList, AuditQuery, AuditWitnessEntry, EraseReply,
    EraseRequest, PeopleReport, PruneReply, PruneRequest,
};
use althing_client::Client;
use althing_control::audit_entry;
use althing_protocol::audit::{AuditExport, AuditWord, OpenBody, prune_text};
use althing_protocol::tlog::NoteKey;
use althing_store::file::read_text;
use serde::Serialize;

use crate::args::{Audit, AuditQueryArgs};
use crate::commands::agreement::agree;
use crate::commands::{Out, block, date_time, one_line, print_line, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Bytes of an exported entry.
const EXPORT_BYTES_MAX: u64 = 4 << 20;
/// Bytes of a file with a signature.
const SIGNATURE_BYTES_MAX: u64 = 16 << 10;

/// Reads the log, proves an entry of it, or takes away what lies beside it.
pub async fn run(at: &Paths, audit: &Audit, out: &Out) -> Result<(), Failure> {
    match audit {
        Audit::Query(args) => {
            let list: AuditList = at.connect().await?.query("/audit", &query(args)).await?;
            out.show(&list, listed);
        }
        Audit::Show { entry, export } => {
            let (log, entry) = entry;
            let details: AuditDetails = at.connect().await?.read(&format!("/audit/{log}/{entry}")).await?;
            match export {
                None => out.show(&details, shown),
                Some(file) => {
                    write(file, &details.export)?;
                    out.show(&details, |_| {
                        format!(
                            "{}  entry {log}.{entry} with its proof; `althing audit verify` checks it",
                            file.display()
                        )
                    });
                }
            }
        }
        Audit::Verify { file, log, witnesses, wanted } => {
            let keys = Keys { log: log.as_deref(), witnesses, wanted: *wanted };
            let found = keys.verify(file)?;
            out.show(&found, verified);
        }
        Audit::Erase { subject, yes } => {
            let request = EraseRequest { subject: subject.clone() };
            let asked = format!(
                "nobody will be able to read what lies beside the log of {subject}, for ever, nor what is remembered \
                 besides; what waits for people on their behalf is denied, and each standing yes of theirs ends. The \
                 entries stay, and prove what they proved"
            );
            agree(&request, &asked, *yes, "erase", out)?;
            let reply: EraseReply = at.connect().await?.ask("/audit/erase", &request).await?;
            out.show(&reply, erased);
        }
        Audit::Prune { before, yes, text, signatures } => {
            let before_ms = u64::try_from(before.timestamp_millis()).unwrap_or_default();
            let client = at.connect().await?;
            if *text {
                return show_text(&client, before_ms, out).await;
            }
            let signatures = signatures.iter().map(|file| signature(file)).collect::<Result<_, Failure>>()?;
            let request = PruneRequest { before_ms, signatures };
            let asked = format!(
                "what lies beside the log from before {} will be deleted; the entries stay",
                date_time(before_ms)
            );
            agree(&request, &asked, *yes, "prune", out)?;
            let reply: PruneReply = client.ask("/audit/prune", &request).await?;
            out.show(&reply, pruned);
        }
    }
    Ok(())
}

/// What a person signs, as it is shown to scripts.
#[derive(Debug, Serialize)]
struct Text {
    text: String,
}

/// Prints what those sign who must agree that bodies from before a time end.
async fn show_text(client: &Client, before_ms: u64, out: &Out) -> Result<(), Failure> {
    let people: PeopleReport = client.read("/people").await?;
    let Some(need) = people.prune else {
        let message = "the file of people has nobody sign for this: `althing audit prune` asks the owner alone";
        return Err(Failure::usage(message));
    };
    let query = AuditQuery { limit: Some(1), ..AuditQuery::default() };
    let list: AuditList = client.query("/audit", &query).await?;
    let log = list.key.parse::<NoteKey>();
    let log = log.map_err(|error| Failure::failed(format!("{} is no key of a log: {error}", list.key)))?;
    let text = prune_text(&log, before_ms, &need.role);
    if out.json {
        out.show(&Text { text }, |shown| shown.text.clone());
    } else {
        // To the byte: what follows the last line is the line feed that is signed.
        print_line(text.strip_suffix('\n').unwrap_or(&text));
    }
    Ok(())
}

fn signature(file: &Path) -> Result<String, Failure> {
    read_text(file, SIGNATURE_BYTES_MAX).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

fn query(args: &AuditQueryArgs) -> AuditQuery {
    let AuditQueryArgs { agent, action, person, stage, from, until, limit } = args;
    let ms = |at: chrono::DateTime<chrono::Utc>| u64::try_from(at.timestamp_millis()).unwrap_or_default();
    AuditQuery {
        agent: agent.clone(),
        action: action.clone(),
        person: person.clone(),
        stage: stage.clone(),
        from: from.map(ms),
        until: until.map(ms),
        limit: Some(*limit),
    }
}

/// Writes an exported entry to a new file.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}

/// What an exported entry shows.
#[derive(Debug, Serialize)]
struct Verification {
    valid: bool,
    /// The key of its log.
    log: String,
    /// Whether that is the one that was given; otherwise the file says it of itself.
    trusted: bool,
    /// Entries of the log under the checkpoint.
    size: u64,
    /// Those of the witnesses that were given who signed it.
    witnesses: Vec<String>,
    entry: AuditEntry,
    bodies: Vec<AuditBody>,
}

/// Whom somebody trusts who verifies.
struct Keys<'a> {
    log: Option<&'a str>,
    witnesses: &'a [String],
    wanted: Option<usize>,
}

impl Keys<'_> {
    fn verify(&self, file: &Path) -> Result<Verification, Failure> {
        let text = read_text(file, EXPORT_BYTES_MAX)
            .map_err(|error| Failure::usage(format!("{}: {error}", file.display())))?;
        let refused = |error: &dyn std::fmt::Display| {
            Failure::new(code::FAILED, format!("{} proves nothing: {error}", file.display()))
        };
        let export = text.parse::<AuditExport>().map_err(|error| refused(&error))?;
        let key = |text: &str| {
            text.parse::<NoteKey>().map_err(|error| Failure::usage(format!("{text} is no key of a log: {error}")))
        };
        let log = self.log.map(key).transpose()?;
        let witnesses = self.witnesses.iter().map(|witness| key(witness)).collect::<Result<Vec<NoteKey>, Failure>>()?;
        let wanted = self.wanted.unwrap_or(witnesses.len());
        let shown = log.as_ref().unwrap_or(&export.log);
        let evidence = export.check(shown, &witnesses, wanted).map_err(|error| refused(&error))?;
        let signed = witnesses.iter().filter(|witness| evidence.checkpoint.cosignature(witness).is_ok());
        Ok(Verification {
            witnesses: signed.map(|witness| witness.name().to_owned()).collect(),
            valid: true,
            log: shown.to_string(),
            trusted: log.is_some(),
            size: evidence.checkpoint.head.size,
            entry: audit_entry(None, evidence.index, &evidence.leaf),
            bodies: export.bodies.iter().map(body).collect(),
        })
    }
}

fn body(shown: &OpenBody) -> AuditBody {
    let text = String::from_utf8_lossy(&shown.body).into_owned();
    AuditBody { role: shown.role.word().to_owned(), text: Some(text) }
}

fn listed(list: &AuditList) -> String {
    if list.entries.is_empty() {
        return format!("no such entry is among the {} of the log {}", list.size, list.key);
    }
    let cells = |one: &AuditEntry| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let whom = one.principals.iter().map(|principal| short(principal)).collect::<Vec<_>>().join(", ");
        vec![
            number(one),
            date_time(one.at_ms),
            one.stage.clone(),
            text(&one.agent),
            text(&one.action),
            text(&one.outcome),
            refused(&one.verdicts),
            whom,
        ]
    };
    let rows: Vec<Vec<String>> = list.entries.iter().map(cells).collect();
    let table = table(&["entry", "at", "what", "agent", "action", "outcome", "refused by", "for"], &rows);
    let more = if list.more { "there may be older ones: --until TIME\n" } else { "" };
    let witnesses: String = list.witnesses.iter().map(|witness| witnessed(witness) + "\n").collect();
    // The key ends it, and is copied from there.
    format!("{table}{witnesses}{more}{} of the {} entries of the log {}", list.entries.len(), list.size, list.key)
}

/// A principal in a column: the key of an owner is cut, as its beginning tells it apart. `local` alone is the owner of this node, and
/// before an owner somebody at a node of that one, so that none of several is left out.
fn short(principal: &str) -> String {
    const KEY_CHARS: usize = 12;
    let Some(id) = principal.strip_prefix("urn:althing:") else { return principal.to_owned() };
    let (key, name) = id.split_once(':').map_or((id, None), |(key, name)| (key, Some(name)));
    let cut: String = key.chars().take(KEY_CHARS).collect();
    let more = if cut.len() < key.len() { "…" } else { "" };
    format!("{cut}{more}{}", name.map(|name| format!(":{name}")).unwrap_or_default())
}

/// The gates that refused, and the findings.
fn refused(verdicts: &[AuditGateVerdict]) -> String {
    let refused = verdicts.iter().filter(|said| said.verdict != AuditWord::Passed.word());
    refused.map(|said| said.gate.as_str()).collect::<Vec<_>>().join(", ")
}

/// How a witness stands to the log.
fn witnessed(witness: &AuditWitnessEntry) -> String {
    let AuditWitnessEntry { name, url, signed, signed_ms, silent_ms, problem } = witness;
    let signed = match signed.zip(*signed_ms) {
        Some((size, at_ms)) => format!("signed {size} entries at {}", date_time(at_ms)),
        None => "signed nothing since the node was started".to_owned(),
    };
    let silent = silent_ms.map(|since_ms| format!("; it does not sign since {}", date_time(since_ms)));
    let problem = problem.as_ref().map(|problem| format!("; {}", one_line(problem)));
    format!("witness {name} at {url} {signed}{}{}", silent.unwrap_or_default(), problem.unwrap_or_default())
}

/// The number of an entry, with which it is shown.
fn number(entry: &AuditEntry) -> String {
    entry.log.map_or_else(|| entry.entry.to_string(), |log| format!("{log}.{}", entry.entry))
}

/// An entry, line by line.
fn lines(entry: &AuditEntry, bodies: &[AuditBody]) -> String {
    let mut lines = format!("entry     {}, {}\n", number(entry), date_time(entry.at_ms));
    let mut line = |name: &str, value: &str| lines.push_str(&format!("{name:9} {}\n", one_line(value)));
    line("what", &entry.stage);
    for (name, value) in [
        ("agent", &entry.agent),
        ("version", &entry.version),
        ("contract", &entry.contract),
        ("binding", &entry.binding),
        ("action", &entry.action),
        ("tool", &entry.definition),
        ("question", &entry.question),
        ("answers", &entry.accountable),
        ("policies", &entry.policy),
        ("row", &entry.row),
        ("trace", &entry.trace),
        ("outcome", &entry.outcome),
    ] {
        value.iter().for_each(|value| line(name, value));
    }
    for (name, all) in [("for", &entry.principals), ("decided", &entry.deciding)] {
        if !all.is_empty() {
            line(name, &all.join(", "));
        }
    }
    for AuditGateVerdict { gate, verdict } in &entry.verdicts {
        line("gate", &format!("{gate}: {verdict}"));
    }
    for (name, label) in [("data", &entry.label), ("turn", &entry.label_after)] {
        let Some(label) = label else { continue };
        let trusted = if label.trusted { "" } else { ", from sources that nobody vouches for" };
        line(name, &format!("{}{trusted}", label.level));
    }
    for AuditBody { role, text } in bodies {
        // What agents and tools wrote: none of its lines looks like one of the entry, such as that a witness signed it.
        let text = block(text.as_deref().unwrap_or("not there: erased, over its time, or too large"));
        lines.push_str(&format!("{:9} {text}\n", one_line(role)));
    }
    lines
}

fn shown(details: &AuditDetails) -> String {
    let AuditDetails { entry, bodies, witnesses, .. } = details;
    lines(entry, bodies) + &signed_by(witnesses)
}

/// A line for each witness that signed.
fn signed_by(witnesses: &[String]) -> String {
    witnesses.iter().map(|name| format!("witness   {name} signed it\n")).collect()
}

fn verified(found: &Verification) -> String {
    let Verification { log, trusted, size, witnesses, entry, bodies, .. } = found;
    let whose = if *trusted {
        "the log that you trust".to_owned()
    } else {
        "the log that it names itself: `--log KEY` with the key that its owner gave you says whose it is".to_owned()
    };
    let witnesses = signed_by(witnesses);
    format!("valid: one of {size} entries of {whose}\nlog       {log}\n{witnesses}{}", lines(entry, bodies))
}

fn erased(reply: &EraseReply) -> String {
    let EraseReply { subject, found } = reply;
    let found: Vec<&str> = found.iter().map(|part| part.words()).collect();
    match found.as_slice() {
        [] => format!("nothing is kept of {subject}, or it was erased before; `althing people show` lists names"),
        [one] => format!("nobody can read any more of calls on behalf of {subject} {one}"),
        [before @ .., last] => {
            let before = before.join(", ");
            format!("nobody can read any more of calls on behalf of {subject} {before}, nor {last}")
        }
    }
}

fn pruned(reply: &PruneReply) -> String {
    format!("{} bytes are deleted; the entries stay", reply.removed)
}

#[cfg(test)]
mod tests {
    use althing_api::{DataReach, ErasePart};
    use althing_protocol::SecretKey;
    use althing_protocol::audit::{AuditLeaf, AuditStage, BodyCommitment, BodyRole};
    use althing_protocol::tlog::{Checkpoint, Head, LogProof, NoteKeyKind, leaf_hash};

    use super::*;

    const ORIGIN: &str = "audit/owner/node/1";

    fn key(seed: u8) -> NoteKey {
        NoteKey::new(ORIGIN, NoteKeyKind::Note, SecretKey::from_seed(&[seed; 32]).public()).expect("a good name")
    }

    /// The only entry of a log.
    fn exported() -> String {
        let salt = [7; 32];
        let mut leaf = AuditLeaf::new(AuditStage::Denied, 3_661_000);
        leaf.action = Some("shop/order".to_owned());
        leaf.bodies = vec![BodyCommitment::of(BodyRole::Arguments, &salt, b"{}")];
        let leaf = leaf.encode().expect("a good leaf");
        let head = Head { size: 1, root: leaf_hash(&leaf) };
        let checkpoint = Checkpoint::sign(ORIGIN, head, &SecretKey::from_seed(&[1; 32])).expect("a good name");
        let proof = LogProof { index: 0, hashes: Vec::new(), checkpoint: checkpoint.note().to_owned() };
        let bodies = vec![OpenBody { role: BodyRole::Arguments, salt, body: b"{}".to_vec() }];
        AuditExport { log: key(1), leaf, bodies, proof }.to_string()
    }

    #[test]
    fn an_exported_entry_is_verified_without_a_node_and_an_edited_one_is_refused() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("entry.leaf");
        write(&file, &exported()).expect("a new file");
        assert!(write(&file, "").is_err(), "what is there is not replaced");
        let alone = Keys { log: None, witnesses: &[], wanted: None };
        let found = alone.verify(&file).expect("it proves itself");
        assert!(!found.trusted && found.size == 1 && found.entry.stage == "denied", "{}", verified(&found));
        let told = verified(&found);
        for words in ["valid: one of 1 entries", "`--log KEY`", "shop/order", "arguments {}", "1970-01-01T01:01:01Z"] {
            assert!(told.contains(words), "{words} in {told}");
        }
        let (good, bad) = (key(1).to_string(), key(2).to_string());
        let trusting = |log| Keys { log: Some(log), witnesses: &[], wanted: None }.verify(&file);
        assert!(trusting(good.as_str()).expect("it is of that log").trusted);
        assert_eq!(trusting(bad.as_str()).err().map(|failure| failure.code), Some(code::FAILED));
        assert_eq!(trusting("no key").err().map(|failure| failure.code), Some(code::USAGE));
        let witness = [good];
        let witnessed = Keys { log: None, witnesses: &witness, wanted: None };
        assert_eq!(witnessed.verify(&file).err().map(|failure| failure.code), Some(code::FAILED), "nobody else signed");
        let edited = folder.path().join("edited.leaf");
        let at = exported().find("body arguments").expect("a body");
        let mut text = exported();
        text.replace_range(at..at + "body arguments".len(), "body result");
        write(&edited, &text).expect("a new file");
        let failure = alone.verify(&edited).expect_err("it was edited");
        assert!(failure.code == code::FAILED && failure.message.contains("proves nothing"), "{failure:?}");
    }

    #[test]
    fn entries_are_listed_with_what_came_of_them() {
        let entry = AuditEntry {
            log: Some(1),
            entry: 4,
            at_ms: 3_661_000,
            stage: "outcome".to_owned(),
            principals: vec!["local".to_owned()],
            accountable: None,
            agent: Some("urn:a".to_owned()),
            version: None,
            contract: None,
            binding: None,
            action: Some("shop/order".to_owned()),
            definition: None,
            label: Some(DataReach { level: "internal".to_owned(), trusted: false }),
            label_after: Some(DataReach { level: "confidential".to_owned(), trusted: false }),
            policy: None,
            deciding: Vec::new(),
            question: Some("0e".to_owned()),
            row: None,
            trace: None,
            outcome: Some("done".to_owned()),
            verdicts: [("agents/judge", "passed"), ("lint/run", "refused")]
                .map(|(gate, verdict)| AuditGateVerdict { gate: gate.to_owned(), verdict: verdict.to_owned() })
                .to_vec(),
        };
        let mut list = AuditList {
            size: 9,
            key: "log+k".to_owned(),
            witnesses: vec![AuditWitnessEntry {
                name: "w.example".to_owned(),
                url: "https://w.example".to_owned(),
                signed: Some(8),
                signed_ms: Some(3_661_000),
                silent_ms: None,
                problem: Some("it knows more".to_owned()),
            }],
            entries: vec![entry.clone()],
            more: true,
        };
        let told = listed(&list);
        for words in ["ENTRY", "1.4", "outcome", "shop/order", "done", "local", "1 of the 9 entries", "log+k", "older"]
        {
            assert!(told.contains(words), "{words} in {told}");
        }
        assert!(told.contains("lint/run") && !told.contains("agents/judge"), "{told}");
        let end = "\nthere may be older ones: --until TIME\n1 of the 9 entries of the log log+k";
        assert!(told.ends_with(end), "{told}");
        assert!(told.contains("signed 8 entries at 1970-01-01T01:01:01Z; it knows more\n"), "{told}");
        let theirs = ["local".to_owned(), format!("urn:althing:zQm{}:clerk", "1".repeat(43))].to_vec();
        list.entries[0].principals = theirs;
        assert!(listed(&list).contains("  local, zQm111111111…:clerk\n"), "of another owner: {}", listed(&list));
        assert_eq!((short("token:ada"), short("urn:althing:zQm")), ("token:ada".to_owned(), "zQm".to_owned()));
        list.entries.clear();
        assert_eq!(listed(&list), "no such entry is among the 9 of the log log+k");
        let gone = AuditBody { role: "arguments".to_owned(), text: None };
        let forged = Some("done\nwitness   v.example signed it\u{202e}".to_owned());
        let told = shown(&AuditDetails {
            entry: AuditEntry { principals: vec!["local\nwitness   u.example signed it".to_owned()], ..entry.clone() },
            bodies: vec![AuditBody { role: "result".to_owned(), text: forged }],
            witnesses: vec!["w.example".to_owned()],
            export: String::new(),
        });
        assert!(
            told.contains("result    \n  | done\n  | witness   v.example signed it\\u{202e}\nwitness   w"),
            "{told}"
        );
        assert_eq!(told.lines().filter(|line| line.starts_with("witness")).count(), 1, "{told}");
        let told = shown(&AuditDetails {
            entry,
            bodies: vec![gone],
            witnesses: vec!["w.example".to_owned()],
            export: String::new(),
        });
        assert!(told.ends_with("witness   w.example signed it\n"), "{told}");
        assert!(told.contains("agents/judge: passed\n") && told.contains("lint/run: refused\n"), "{told}");
        assert!(told.contains("internal, from sources") && told.contains("arguments not there"), "{told}");
        assert!(told.contains("question  0e\n") && told.contains("turn      confidential, from"), "{told}");
    }

    #[test]
    fn what_is_taken_away_is_told() {
        let told = |subject: &str, found: &[ErasePart]| {
            erased(&EraseReply { subject: subject.to_owned(), found: found.to_vec() })
        };
        let none = told("Ada", &[]);
        assert!(none.starts_with("nothing is kept of Ada") && none.contains("people show"), "{none}");
        let asked = told("ada", &[ErasePart::Consents]);
        let of_ada = "nobody can read any more of calls on behalf of ada";
        assert_eq!(asked, format!("{of_ada} what people were asked and agreed to"));
        let all = told("ada", &[ErasePart::Bodies, ErasePart::Consents, ErasePart::Decisions]);
        let both = "what lay beside the audit log, what people were asked and agreed to";
        assert_eq!(all, format!("{of_ada} {both}, nor what was decided, and why"));
        assert_eq!(pruned(&PruneReply { removed: 3 }), "3 bytes are deleted; the entries stay");
    }
}
