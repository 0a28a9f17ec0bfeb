//! `althing org`, and `althing release pending`, `approve` and `reject`.

use althing_api::{ApproveRequest, MemberRequest, OrganiseRequest, ProveRequest, PurgeRequest, RejectRequest};
use serde_json::{Value, json};

use crate::args::{ApproveArgs, Org, PurgeArgs, RejectArgs};
use crate::commands::agent::escape;
use crate::commands::agreement::{agree, of_release};
use crate::commands::{Out, rows, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Runs one of the commands.
pub async fn run(at: &Paths, org: &Org, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match org {
        Org::Init { domain, approvals, registry } => {
            let (domain, approvals, registry) = (domain.clone(), *approvals, registry.clone());
            let row = client.post("/org", &OrganiseRequest { domain, approvals, registry }).await?;
            out.show(&row, |row| format!("{}\n\n{}", shown(row), how_to_prove(row)));
        }
        Org::Prove { registry } => {
            let proof = client.post("/org/prove", &ProveRequest { registry: registry.clone() }).await?;
            out.show(&proof, proven);
        }
        Org::Member { publisher: None, registry, .. } => {
            let row = client.get(&format!("/org{}", query(registry, None))).await?;
            out.show(&row, shown);
        }
        Org::Member { publisher: Some(publisher), roles, names, registry } => {
            let (publisher, roles, names) = (publisher.clone(), roles.clone(), names.clone());
            let request = MemberRequest { publisher, roles, names, registry: registry.clone() };
            let row = client.post("/org/members", &request).await?;
            out.show(&row, shown);
        }
        Org::Watch { from, registry } => {
            let watched = client.get(&format!("/org/watch{}", query(registry, Some(*from)))).await?;
            out.show(&watched, told);
            if !rows(&watched, "missing").is_empty() {
                return Err(Failure::failed("the registry's log lacks what it proved to have; see above"));
            }
        }
    }
    Ok(())
}

fn query(registry: &Option<String>, from: Option<u64>) -> String {
    let registry = registry.as_ref().map(|registry| format!("registry={}", escape(registry)));
    let parts: Vec<String> = registry.into_iter().chain(from.map(|from| format!("from={from}"))).collect();
    if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
}

fn shown(row: &Value) -> String {
    let lines = rows(row, "members").iter().map(|member| {
        let words = |name: &str| rows(member, name).iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        vec![text(member, "publisher"), words("roles"), words("names")]
    });
    let members: Vec<Vec<String>> = lines.collect();
    let head = format!(
        "{} is {} at {}; {} must approve a release",
        text(row, "domain"),
        text(row, "organisation"),
        text(row, "registry"),
        row["approvals"]
    );
    if members.is_empty() { head } else { format!("{head}\n{}", table(&["member", "roles", "names"], &members)) }
}

fn how_to_prove(row: &Value) -> String {
    let (domain, organisation) = (text(row, "domain"), text(row, "organisation"));
    format!(
        "prove the domain in one of these places, then run `althing org prove`:\n  \
         https://{domain}/.well-known/althing-registry   the line {organisation}\n  \
         _althing.{domain}   TXT   althing={organisation}"
    )
}

fn proven(proof: &Value) -> String {
    let held = &proof["held"];
    let mut lines = Vec::new();
    if proof["proven"] == true {
        lines.push(format!("{} names you ({})", text(proof, "domain"), text(proof, "by")));
    } else {
        lines.push(format!("{} is not proven: {}", text(proof, "domain"), text(proof, "why")));
        lines.push(how_to_prove(proof));
    }
    if held["proven"] == true && held["organisation"] == proof["organisation"] {
        lines.push(format!("the registry has it as yours, by {}", text(held, "by")));
    } else if !held.is_null() && held["organisation"] != proof["organisation"] {
        let other = text(held, "organisation");
        lines.push(format!("{other} holds it: yours is the domain when it has named you for 30 days"));
    }
    let twins: Vec<&str> = rows(held, "twins").iter().filter_map(Value::as_str).collect();
    if !twins.is_empty() {
        lines.push(format!("domains here that look like it: {}", twins.join(" ")));
    }
    lines.join("\n")
}

/// What a registry proved that its log had, and its log has not.
fn missing(watched: &Value) -> String {
    let line = |row: &Value| match row["why"].as_str() {
        Some(why) => {
            format!("MISSING   entry {}, of which there is a receipt that does not hold: {why}\n", row["entry"])
        }
        None => format!(
            "MISSING   entry {}, {} {} {}: the registry proved that its log had it, accepted at {}, and its log has it no more. \
             Tell its operator; `althing release receipt --entry {}` is your proof\n",
            row["entry"],
            text(row, "what"),
            text(row, "about"),
            text(row, "detail"),
            time(&row["acceptedMs"]),
            row["entry"],
        ),
    };
    rows(watched, "missing").iter().map(line).collect()
}

fn told(watched: &Value) -> String {
    let missing = missing(watched);
    let cells = |row: &Value| {
        vec![row["entry"].to_string(), time(&row["atMs"]), text(row, "what"), text(row, "about"), text(row, "detail")]
    };
    match rows(watched, "watched") {
        [] => format!("{missing}nothing about you in {} entries", watched["entries"]),
        all => {
            let table = table(&["entry", "at", "what", "about", "detail"], &all.iter().map(cells).collect::<Vec<_>>());
            format!("{missing}{table}")
        }
    }
}

/// Lists what waits for the owner's approval.
pub async fn pending(at: &Paths, registry: &Option<String>, out: &Out) -> Result<(), Failure> {
    let list = at.connect().await?.get(&format!("/releases/pending{}", query(registry, None))).await?;
    out.show(&list, |list| {
        let staged = rows(list, "staged").iter().map(|row| {
            let what = format!("{} {}", text(row, "agent"), text(row, "version"));
            vec![text(row, "id"), what, format!("staged, {} bytes, sha256 {}", row["bytes"], text(row, "digest"))]
        });
        let waiting = rows(list, "waiting").iter().map(|row| {
            let what = format!("{}@{}", text(row, "agent"), text(row, "version"));
            let by = rows(row, "approvedBy").len() + 1;
            vec![what, String::new(), format!("released, signed by {by}; {} must approve", row["wanted"])]
        });
        let cells: Vec<Vec<String>> = staged.chain(waiting).collect();
        if cells.is_empty() {
            return "nothing waits for your approval".to_owned();
        }
        table(&["approve", "what", "state"], &cells)
    });
    Ok(())
}

/// Approves a release that waits.
pub async fn approve(at: &Paths, args: &ApproveArgs, out: &Out) -> Result<(), Failure> {
    let ApproveArgs { what, audience, registry, .. } = args.clone();
    let mut asked = ApproveRequest { what, audience, registry, agreed: None };
    let waiting = at.connect().await?.post("/releases/approve", &asked).await?;
    let shown = format!(
        "release   {} {}\ndigest    {}\n{}",
        text(&waiting, "agent"),
        text(&waiting, "version"),
        text(&waiting, "digest"),
        of_release(&waiting)
    );
    asked.agreed = Some(agree(&waiting, &shown, args.yes, "sign", out)?);
    let approved = at.connect().await?.post("/releases/approve", &asked).await?;
    out.show(&approved, |approved| {
        format!(
            "you approve {} {}; the log of {} proves it",
            text(approved, "agent"),
            text(approved, "version"),
            text(approved, "registry")
        )
    });
    Ok(())
}

/// Takes a staged release away.
pub async fn reject(at: &Paths, args: &RejectArgs, out: &Out) -> Result<(), Failure> {
    let request = RejectRequest { id: args.id.clone(), registry: args.registry.clone() };
    let rejected = at.connect().await?.post("/releases/reject", &request).await?;
    out.show(&rejected, |rejected| format!("{} is not released", text(rejected, "rejected")));
    Ok(())
}

/// Purges a release.
pub async fn purge(at: &Paths, args: &PurgeArgs, out: &Out) -> Result<(), Failure> {
    let PurgeArgs { release, yes, registry } = args;
    let parts = release.rsplit_once('@');
    let (agent, version) =
        parts.ok_or_else(|| Failure::usage(format!("{release:?} has no version: write {release}@1.2.3")))?;
    let shown = format!(
        "{release} will be deleted from the registry's disk, with its files, its marks and its approvals. Nobody can install \
         it, nor hear that it was revoked; what runs goes on. It cannot be brought back"
    );
    agree(&json!({ "release": release }), &shown, *yes, "purge", out)?;
    let (agent, version, registry) = (agent.to_owned(), version.to_owned(), registry.clone());
    let purged = at.connect().await?.post("/releases/purge", &PurgeRequest { agent, version, registry }).await?;
    out.show(&purged, |purged| format!("{} {} is purged", text(purged, "agent"), text(purged, "version")));
    Ok(())
}
