//! `althing key`; needs no running node. Running nodes notice the change by themselves.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use althing_node::owner::{self, Exported, NextKeys, Owner, key_name, log_state};
use althing_protocol::KeyLog;
use althing_protocol::keylog::Change;
use serde_json::{Value, json};

use crate::args::Key;
use crate::commands::{Out, rows, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;
use crate::ports::{clock, entropy};

/// Characters of a passphrase.
const PASSPHRASE_MIN: usize = 8;
/// Bytes of a passphrase.
const PASSPHRASE_MAX: usize = 1_024;

/// Shows, changes, exports or imports the owner's keys.
pub fn run(at: &Paths, key: &Key, out: &Out) -> Result<(), Failure> {
    let folder = at.owner.as_path();
    match key {
        Key::Show => show(folder, out),
        Key::Rotate { overlap_minutes, from } => {
            let next = from.as_deref().map(next_of).transpose()?;
            let overlap = Duration::from_secs(overlap_minutes * 60);
            let log = owner::rotate(folder, next, overlap, &clock(), &entropy())?;
            out.show(&about(&log), |about| {
                let old = if *overlap_minutes == 0 {
                    "the old one is no longer accepted".to_owned()
                } else {
                    format!("the old one is accepted for {overlap_minutes} minutes more")
                };
                // The key after the next was created just now, on this machine.
                let next = if from.is_some() {
                    "\nits next keys are on this machine: `althing key export FILE --remove-next` moves them away again; the exported \
                     file that was used is no longer valid"
                } else {
                    ""
                };
                format!("{} has a new key, {}; {old}{next}", text(about, "owner"), text(about, "key"))
            });
            Ok(())
        }
        Key::Revoke { node: Some(node), .. } => {
            owner::withdraw(folder, *node, &clock())?;
            out.show(&json!({ "withdrawn": node.did() }), |done| {
                format!("the memberships and grants of {} until now are withdrawn", text(done, "withdrawn"))
            });
            Ok(())
        }
        Key::Revoke { node: None, yes: false, .. } => Err(Failure::usage(
            "this ends the owner's identity, finally: its agents are no longer found, its nodes no longer trusted; `--yes` confirms. \
             (`althing key rotate --overlap-minutes 0` replaces a stolen key instead.)",
        )),
        Key::Revoke { node: None, from, .. } => {
            let next = from.as_deref().map(next_of).transpose()?;
            let log = owner::revoke(folder, next, &clock())?;
            out.show(&about(&log), |about| format!("the keys of {} are revoked", text(about, "owner")));
            Ok(())
        }
        Key::Export { file, remove_next } => {
            let owner = owner::export(folder, file, &passphrase(true)?, *remove_next, &entropy())?;
            let value = json!({ "owner": owner.id().to_string(), "file": file, "nextRemoved": remove_next });
            out.show(&value, |value| {
                let next = if *remove_next {
                    "\nthe next keys are only in that file now: `althing key rotate --from` and `revoke --from` need it"
                } else {
                    ""
                };
                format!("the keys of {} are in {}{next}", text(value, "owner"), file.display())
            });
            Ok(())
        }
        Key::Import { file } => {
            let exported = Exported::read(file, &passphrase(false)?)?;
            owner::import(folder, &exported)?;
            out.show(&about(&exported.log), |about| format!("the keys of {} are imported", text(about, "owner")));
            Ok(())
        }
    }
}

fn next_of(file: &Path) -> Result<NextKeys, Failure> {
    let exported = Exported::read(file, &passphrase(false)?)?;
    exported.next.ok_or_else(|| Failure::usage(format!("{} holds no next keys", file.display())))
}

/// A key log as JSON.
fn about(log: &KeyLog) -> Value {
    let events = log.events().map(|event| {
        let change = match event.change {
            Change::Inception => "inception",
            Change::Rotation => "rotation",
            Change::Revocation => "revocation",
        };
        json!({ "change": change, "key": key_name(event.key), "atMs": event.issued_at_ms,
            "oldKeyUntilMs": event.previous_until_ms })
    });
    json!({
        "owner": log.publisher().to_string(),
        "key": key_name(log.current()),
        "state": log_state(log, clock().now_ms()),
        "events": events.collect::<Vec<_>>(),
    })
}

fn show(folder: &Path, out: &Out) -> Result<(), Failure> {
    let owner = Owner::read(folder)?;
    let mut value = about(&owner.log);
    value["folder"] = json!(folder);
    value["nextKeyHere"] = json!(owner.has_next);
    let withdrawn = owner::withdrawn(&owner);
    let withdrawn = withdrawn.iter().map(|taken| json!({ "node": taken.node.did(), "untilMs": taken.until_ms }));
    value["withdrawn"] = withdrawn.collect();
    out.show(&value, |value| {
        let rows: Vec<Vec<String>> = rows(value, "events")
            .iter()
            .map(|event| vec![text(event, "change"), text(event, "key"), time(&event["atMs"])])
            .collect();
        // The next rotation ends the overlap of the one before.
        let until =
            owner.log.events().last().and_then(|last| last.previous_until_ms).filter(|until| *until > clock().now_ms());
        let until =
            until.map_or_else(String::new, |until| format!("\nold key   is accepted until {}", time(&json!(until))));
        let next = if owner.has_next { "here" } else { "elsewhere" };
        let taken: String = self::rows(value, "withdrawn")
            .iter()
            .map(|taken| {
                format!(
                    "\nthe memberships and grants of {} until {} are withdrawn",
                    text(taken, "node"),
                    time(&taken["untilMs"])
                )
            })
            .collect();
        format!(
            "owner     {}\nkey       {}\nstate     {}{until}\nnext key  {next}\nfolder    {}\n\n{}{taken}",
            text(value, "owner"),
            text(value, "key"),
            text(value, "state"),
            folder.display(),
            table(&["change", "key", "at"], &rows)
        )
    });
    Ok(())
}

/// Reads a passphrase from the terminal without showing it, or from the first line of standard input.
fn passphrase(new: bool) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::usage(format!("cannot read the passphrase: {error}"));
    let given = if std::io::stdin().is_terminal() {
        let given = rpassword::prompt_password("passphrase: ").map_err(failed)?;
        if new && rpassword::prompt_password("once more:  ").map_err(failed)? != given {
            return Err(Failure::usage("the two passphrases differ"));
        }
        given
    } else {
        let mut line = String::new();
        let limited = std::io::Read::take(std::io::stdin(), PASSPHRASE_MAX as u64 + 1);
        std::io::BufRead::read_line(&mut std::io::BufReader::new(limited), &mut line).map_err(failed)?;
        line.trim_end_matches(['\n', '\r']).to_owned()
    };
    if given.chars().count() < PASSPHRASE_MIN || given.len() > PASSPHRASE_MAX {
        return Err(Failure::usage(format!(
            "a passphrase has at least {PASSPHRASE_MIN} characters and at most {PASSPHRASE_MAX} bytes; without a \
             terminal it is the first line of standard input"
        )));
    }
    Ok(given)
}
