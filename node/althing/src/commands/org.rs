//! `althing org`, and `althing release pending`, `approve` and `reject`.

use althing_api::{
    ApprovalList, ApprovalOffer, ApprovalSummary, ApproveRequest, DomainProof, LogNotice, LogWatch, MemberRequest,
    OrganisationMember, OrganisationStatus, OrganiseRequest, ProveRequest, PurgeRequest, ReceiptEntry, RejectRequest,
    ReleasePublication, ReleasePurge, StageRejection, StageSummary,
};

use crate::args::{ApproveArgs, Org, PurgeArgs, RejectArgs};
use crate::commands::agent::escape;
use crate::commands::agreement::{ReleaseReference, agree, of_approval};
use crate::commands::{Out, date_time, one_line, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Runs one of the commands.
pub async fn run(at: &Paths, org: &Org, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match org {
        Org::Init { domain, approvals, registry } => {
            let (domain, approvals, registry) = (domain.clone(), *approvals, registry.clone());
            let request = OrganiseRequest { domain, approvals, registry };
            let row: OrganisationStatus = client.ask("/org", &request).await?;
            out.show(&row, |row| format!("{}\n\n{}", shown(row), how_to_prove(&row.domain, &row.organisation)));
        }
        Org::Prove { registry } => {
            let request = ProveRequest { registry: registry.clone() };
            let proof: DomainProof = client.ask("/org/prove", &request).await?;
            out.show(&proof, proven);
        }
        Org::Member { publisher: None, registry, .. } => {
            let row: OrganisationStatus = client.read(&format!("/org{}", query(registry, None))).await?;
            out.show(&row, shown);
        }
        Org::Member { publisher: Some(publisher), roles, names, registry } => {
            let (publisher, roles, names) = (publisher.clone(), roles.clone(), names.clone());
            let request = MemberRequest { publisher, roles, names, registry: registry.clone() };
            let row: OrganisationStatus = client.ask("/org/members", &request).await?;
            out.show(&row, shown);
        }
        Org::Watch { from, registry } => {
            let path = format!("/org/watch{}", query(registry, Some(*from)));
            let watched: LogWatch = client.read(&path).await?;
            out.show(&watched, watch_table);
            if !watched.missing.is_empty() {
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

fn shown(row: &OrganisationStatus) -> String {
    let line =
        |member: &OrganisationMember| vec![member.publisher.clone(), member.roles.join(" "), member.names.join(" ")];
    let members: Vec<Vec<String>> = row.members.iter().map(line).collect();
    let OrganisationStatus { registry, organisation, domain, approvals, .. } = row;
    let head = format!("{domain} is {organisation} at {registry}; {approvals} must approve a release");
    if members.is_empty() { head } else { format!("{head}\n{}", table(&["member", "roles", "names"], &members)) }
}

fn how_to_prove(domain: &str, organisation: &str) -> String {
    format!(
        "prove the domain in one of these places, then run `althing org prove`:\n  \
         https://{domain}/.well-known/althing-registry   the line {organisation}\n  \
         _althing.{domain}   TXT   althing={organisation}"
    )
}

fn proven(proof: &DomainProof) -> String {
    let DomainProof { organisation, domain, proven, by, why, held } = proof;
    let mut lines = Vec::new();
    if *proven {
        lines.push(format!("{domain} names you ({})", by.as_deref().unwrap_or_default()));
    } else {
        lines.push(format!("{domain} is not proven: {}", one_line(why.as_deref().unwrap_or_default())));
        lines.push(how_to_prove(domain, organisation));
    }
    if let Some(held) = held {
        let (holder, by) = (&held.organisation, &held.by);
        if holder != organisation {
            lines.push(format!("{holder} holds it: yours is the domain when it has named you for 30 days"));
        } else if held.proven {
            lines.push(format!("the registry has it as yours, by {by}"));
        }
        if !held.twins.is_empty() {
            lines.push(format!("domains here that look like it: {}", one_line(&held.twins.join(" "))));
        }
    }
    lines.join("\n")
}

/// What a registry proved that its log had, and its log has not.
fn missing(watched: &LogWatch) -> String {
    let line = |entry: &ReceiptEntry| match entry {
        ReceiptEntry::Fault(fault) => {
            let (entry, why) = (fault.entry, &fault.why);
            format!("MISSING   entry {entry}, of which there is a receipt that does not hold: {}\n", one_line(why))
        }
        ReceiptEntry::Proof(proof) => format!(
            "MISSING   entry {}, {} {} {}: the registry proved that its log had it, accepted at {}, and its log has it no more. \
             Tell its operator; `althing release receipt --entry {}` is your proof\n",
            proof.entry,
            proof.what,
            proof.about,
            one_line(&proof.detail),
            date_time(proof.accepted_ms),
            proof.entry,
        ),
    };
    watched.missing.iter().map(line).collect()
}

fn watch_table(watched: &LogWatch) -> String {
    let missing = missing(watched);
    let cells = |row: &LogNotice| {
        let (what, about, detail) = (row.what.clone(), row.about.clone(), row.detail.clone());
        vec![row.entry.to_string(), date_time(row.at_ms), what, about, detail]
    };
    match watched.watched.as_slice() {
        [] => format!("{missing}nothing about you in {} entries", watched.entries),
        all => {
            let table = table(&["entry", "at", "what", "about", "detail"], &all.iter().map(cells).collect::<Vec<_>>());
            format!("{missing}{table}")
        }
    }
}

/// Lists what waits for the owner's approval.
pub async fn pending(at: &Paths, registry: &Option<String>, out: &Out) -> Result<(), Failure> {
    let path = format!("/releases/pending{}", query(registry, None));
    let list: ApprovalList = at.connect().await?.read(&path).await?;
    out.show(&list, waiting);
    Ok(())
}

fn waiting(list: &ApprovalList) -> String {
    let staged = list.staged.iter().map(|StageSummary { id, agent, version, digest, bytes, .. }| {
        vec![id.clone(), format!("{agent} {version}"), format!("staged, {bytes} bytes, sha256 {digest}")]
    });
    let released = list.waiting.iter().map(|ApprovalSummary { agent, version, approved_by, wanted }| {
        let state = format!("released, signed by {}; {wanted} must approve", approved_by.len() + 1);
        vec![format!("{agent}@{version}"), String::new(), state]
    });
    let cells: Vec<Vec<String>> = staged.chain(released).collect();
    if cells.is_empty() {
        return "nothing waits for your approval".to_owned();
    }
    table(&["approve", "what", "state"], &cells)
}

/// Approves a release that waits.
pub async fn approve(at: &Paths, args: &ApproveArgs, out: &Out) -> Result<(), Failure> {
    let ApproveArgs { what, audience, registry, .. } = args.clone();
    let mut request = ApproveRequest { what, audience, registry, agreed: None };
    let offer: ApprovalOffer = at.connect().await?.ask("/releases/approve", &request).await?;
    agree(&offer, &offered(&offer), args.yes, "sign", out)?;
    request.agreed = Some(offer.digest.clone());
    let approved: ReleasePublication = at.connect().await?.ask("/releases/approve", &request).await?;
    out.show(&approved, |ReleasePublication { agent, version, registry, .. }| {
        format!("you approve {agent} {version}; the log of {registry} proves it")
    });
    Ok(())
}

/// What is signed. A registry says which release it is, in whatever words.
fn offered(offer: &ApprovalOffer) -> String {
    let ApprovalOffer { agent, version, digest, .. } = offer;
    let named = one_line(&format!("release   {agent} {version}"));
    format!("{named}\ndigest    {}\n{}", one_line(digest), of_approval(offer))
}

/// Takes a staged release away.
pub async fn reject(at: &Paths, args: &RejectArgs, out: &Out) -> Result<(), Failure> {
    let request = RejectRequest { id: args.id.clone(), registry: args.registry.clone() };
    let rejected: StageRejection = at.connect().await?.ask("/releases/reject", &request).await?;
    out.show(&rejected, |StageRejection { rejected, .. }| format!("{rejected} is not released"));
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
    agree(&ReleaseReference { release }, &shown, *yes, "purge", out)?;
    let request = PurgeRequest { agent: agent.to_owned(), version: version.to_owned(), registry: registry.clone() };
    let purged: ReleasePurge = at.connect().await?.ask("/releases/purge", &request).await?;
    out.show(&purged, |ReleasePurge { agent, version, .. }| format!("{agent} {version} is purged"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_release_is_one_line_of_what_is_signed() {
        let offer = ApprovalOffer {
            agent: "urn:a".to_owned(),
            version: "1.0.0\ndigest    0f\u{202e}".to_owned(),
            registry: "https://r".to_owned(),
            digest: "0e".to_owned(),
            file: None,
            reaches: None,
            workflow: None,
        };
        let told = offered(&offer);
        assert!(
            told.starts_with("release   urn:a 1.0.0\\u{a}digest    0f\\u{202e}\ndigest    0e\nits files"),
            "{told}"
        );
    }

    #[test]
    fn what_a_registry_says_of_a_domain_is_one_line() {
        let proof = DomainProof {
            organisation: "urn:o".to_owned(),
            domain: "a.example".to_owned(),
            proven: false,
            by: None,
            why: Some("not yet\nthe registry has it as yours, by dns".to_owned()),
            held: None,
        };
        let told = proven(&proof);
        assert!(told.starts_with("a.example is not proven: not yet\\u{a}the registry has it"), "{told}");
    }
}
