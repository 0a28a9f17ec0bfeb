//! `althing registry`, `publish`, `release`, `install`, `outdated`, `update` and `uninstall`.

use althing_api::{AddRegistry, InstallRequest, MarkRequest, PublishRequest, UpdateRequest};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{Install, MarkArgs, Publish, Registry, Release, Uninstall, Update};
use crate::commands::adopt::{callers, who};
use crate::commands::agent::{addition, escape, standing, stays};
use crate::commands::agreement::{agree, of_release, of_update};
use crate::commands::panes::exposed;
use crate::commands::{Out, attesting, org, receipts, rows, staging, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Follows registries.
pub async fn registry(at: &Paths, registry: &Registry, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match registry {
        Registry::Add { url, key, witnesses, wanted } => {
            let (url, key, witnesses, wanted) = (url.clone(), key.clone(), witnesses.clone(), *wanted);
            let added = client.post("/registries", &AddRegistry { url, key, witnesses, wanted }).await?;
            out.show(&added, newly_followed);
        }
        Registry::List => {
            let list = client.get("/registries").await?;
            out.show(&list, |list| match rows(list, "registries") {
                [] => "this node follows no registry: `althing registry add URL --key KEY` adds one".to_owned(),
                all => all.iter().map(followed).collect::<Vec<_>>().join("\n"),
            });
        }
        Registry::Remove { registry } => {
            let removed = client.delete(&format!("/registries?registry={}", escape(registry))).await?;
            out.show(&removed, |removed| format!("{} is followed no more", text(removed, "removed")));
        }
    }
    Ok(())
}

fn newly_followed(added: &Value) -> String {
    let (name, at) = (text(added, "name"), text(added, "at"));
    if added.get("forked").is_none() {
        return format!("this node follows {name} at {at}, {} entries", added["entries"]);
    }
    format!(
        "this node follows {name} at {at} already, which showed two histories: it is still asked nothing. `althing registry list` \
         shows both checkpoints that it signed; take them to its operator and to others who use it. If you trust it again, \
         `althing registry remove {at}` forgets both, and adding it once more believes the history that it shows then"
    )
}

fn followed(row: &Value) -> String {
    let mut line =
        format!("{}  {}  {} entries\n  key {}", text(row, "name"), text(row, "at"), row["entries"], text(row, "key"));
    let witnesses = rows(&row["witnesses"], "keys");
    if !witnesses.is_empty() {
        line += &format!("\n  {} of these witnesses must have cosigned", row["witnesses"]["wanted"]);
    }
    for witness in witnesses.iter().filter_map(Value::as_str) {
        line += &format!("\n    {witness}");
    }
    match row.get("forked") {
        None => line,
        Some(forked) => format!(
            "{line}\n  it showed two histories, and is asked nothing more. It signed both of these:\n\n{}\n{}",
            text(forked, "before"),
            text(forked, "now")
        ),
    }
}

/// Releases an agent, a workflow or a Thing.
pub async fn publish(at: &Paths, publish: &Publish, out: &Out) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", publish.file.display()));
    let file = publish.file.canonicalize().map_err(cannot)?;
    let (with, audience, registry) = (publish.with.clone(), Some(publish.audience.clone()), publish.registry.clone());
    let request = PublishRequest { file, with, audience, registry };
    let published = at.connect().await?.post("/publish", &request).await?;
    out.show(&published, |published| {
        format!(
            "{} {} is released, {}\nthe log of {} proves it, {} entries",
            text(published, "agent"),
            text(published, "version"),
            match published["bytes"].as_u64() {
                None | Some(0) =>
                    "a Thing that runs elsewhere: it is found, and there is nothing to install".to_owned(),
                Some(bytes) => format!("{bytes} bytes"),
            },
            text(published, "registry"),
            published["entries"]
        )
    });
    Ok(())
}

/// Lists releases, or changes their standing.
pub async fn release(at: &Paths, release: &Release, out: &Out) -> Result<(), Failure> {
    let (mark, standing) = match release {
        Release::List { agent, registry } => {
            let named = |name: &str, value: &Option<String>| {
                value.as_ref().map(|value| format!("{name}={}", escape(value))).into_iter()
            };
            let query: Vec<String> = named("agent", agent).chain(named("registry", registry)).collect();
            let list = at.connect().await?.get(&format!("/releases?{}", query.join("&"))).await?;
            out.show(&list, listed);
            return Ok(());
        }
        Release::Show(args) => return attesting::show(at, args, out).await,
        Release::Receipt(args) => return receipts::run(at, args, out).await,
        Release::Attest(args) => return attesting::attest(at, args, out).await,
        Release::Stage(args) => return staging::stage(args, out).await,
        Release::Pending { registry } => return org::pending(at, registry, out).await,
        Release::Approve(args) => return org::approve(at, args, out).await,
        Release::Purge(args) => return org::purge(at, args, out).await,
        Release::Reject(args) => return org::reject(at, args, out).await,
        Release::Deprecate(mark) => (mark, "deprecated"),
        Release::Yank(mark) => (mark, "yanked"),
        Release::Restore(mark) => (mark, "good"),
        Release::Revoke(revoke) => (&revoke.mark, "revoked"),
    };
    let MarkArgs { release: named, reason, registry } = mark;
    let parts = named.rsplit_once('@');
    let (agent, version) =
        parts.ok_or_else(|| Failure::usage(format!("{named:?} has no version: write {named}@1.2.3")))?;
    if let Release::Revoke(revoke) = release {
        let shown = format!(
            "{named} will be revoked for ever: nodes that follow the registry stop it, do not install it, and do not call it. \
             It cannot be taken back, and the version is never used again; `althing release yank` only takes it out of ranges"
        );
        agree(&json!({ "release": named }), &shown, revoke.yes, "revoke", out)?;
    }
    let request = MarkRequest {
        agent: agent.to_owned(),
        version: version.to_owned(),
        standing: standing.to_owned(),
        reason: reason.clone(),
        registry: registry.clone(),
    };
    let marked = at.connect().await?.post("/releases/mark", &request).await?;
    out.show(&marked, |marked| {
        format!("{} {} is {} from now on", text(marked, "agent"), text(marked, "version"), text(marked, "standing"))
    });
    Ok(())
}

fn listed(list: &Value) -> String {
    let cells = rows(list, "agents").iter().flat_map(|agent| {
        rows(agent, "versions").iter().map(|version| {
            vec![text(agent, "agent"), text(version, "version"), text(version, "standing"), text(version, "reason")]
        })
    });
    let cells: Vec<Vec<String>> = cells.collect();
    if cells.is_empty() {
        return format!("{} has no release", text(list, "registry"));
    }
    let of = |agent: &Value| match attesting::careful(agent) {
        careful if careful.is_empty() => careful,
        careful => format!("{}\n{careful}", text(agent, "agent")),
    };
    let careful: String = rows(list, "agents").iter().map(of).collect();
    let below = format!("{careful}{}", attesting::lines(list));
    let gap = if below.is_empty() { "" } else { "\n" };
    format!("{}{gap}{}", table(&["agent", "version", "standing", "reason"], &cells), below.trim_end())
}

/// Installs a release: an agent of this node's owner, or a workflow.
pub async fn install(at: &Paths, install: &Install, out: &Out) -> Result<(), Failure> {
    let mut request = InstallRequest {
        reference: install.reference.clone(),
        name: install.agent.clone(),
        callers: callers(&install.callers),
        young: install.young,
        uncontained: install.sandbox.is_some(),
        publisher: install.publisher.clone(),
        registry: install.registry.clone(),
        agreed: None,
    };
    let offer = at.connect().await?.post("/install", &request).await?;
    if offer["taken"] == true {
        let message = format!("something here has the name {:?}: --as gives this one another", text(&offer, "name"));
        return Err(Failure::failed(message));
    }
    request.agreed = Some(agree(&offer, &described(&offer), install.yes, "install", out)?);
    done(at, "/install", &request, out).await
}

/// Updates what was installed.
pub async fn update(at: &Paths, update: &Update, out: &Out) -> Result<(), Failure> {
    let (name, publisher) = (update.agent.clone(), update.publisher.clone());
    let (young, uncontained) = (update.young, update.sandbox.is_some());
    let mut request = UpdateRequest { name, young, uncontained, publisher, agreed: None };
    let offer = at.connect().await?.post("/update", &request).await?;
    if offer["before"] == offer["version"] && offer["beforeAgent"] == offer["agent"] {
        out.show(&offer, |offer| unchanged(&update.agent, offer));
        return Ok(());
    }
    let shown = described(&offer) + &of_update(&offer);
    request.agreed = Some(agree(&offer, &shown, update.yes, "update to", out)?);
    done(at, "/update", &request, out).await
}

/// Why there is no update.
fn unchanged(name: &str, offer: &Value) -> String {
    let (version, passed) = (text(offer, "version"), passed_over(offer));
    match taken_back(offer) {
        Some(why) => format!("{name} stays: {why}; nothing newer{passed}"),
        None => format!("{name} is up to date: {version}{passed}"),
    }
}

/// Who took an installed version back, and why, unless it was revoked.
fn taken_back(row: &Value) -> Option<String> {
    let version = text(row, "version");
    match (row["yanked"].as_str(), row["quarantined"].as_str()) {
        (Some(""), _) => Some(format!("{version} was yanked")),
        (Some(why), _) => Some(format!("{version} was yanked: {why}")),
        (None, Some(why)) => Some(format!("its registry's operator hides {version}: {why}")),
        (None, None) => None,
    }
}

async fn done<T: Serialize>(at: &Paths, path: &str, request: &T, out: &Out) -> Result<(), Failure> {
    let done = at.connect().await?.post(path, request).await?;
    if !done["workflow"].is_null() {
        out.show(&done, |done| {
            let (name, version) = (text(&done["added"], "name"), text(done, "version"));
            format!("{name} {version} is installed\nnext: althing workflow run GROUP {name} INPUT")
        });
        return Ok(());
    }
    let added = addition(&done["added"])?;
    out.show(&done, |done| {
        let named = format!("{} {}", added.name, text(done, "version"));
        format!("{}{}", exposed(added.status.as_ref()), standing(&named, &added))
    });
    stays(&added)
}

/// A release for people: who made it, how it runs, and what it may do.
fn described(offer: &Value) -> String {
    let callers = match &offer["file"] {
        Value::Null => String::new(),
        file => format!("\ncallers   {}", who(&text(file, "callers"))),
    };
    let trusted = if offer["trusted"] == true { "you trust its publisher" } else { "you do not trust its publisher" };
    let standing = match text(offer, "reason") {
        reason if reason.is_empty() => text(offer, "standing"),
        reason => format!("{}: {}", text(offer, "standing"), reason.split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    let named = &offer["named"];
    let twins: Vec<&str> = rows(named, "twins").iter().filter_map(Value::as_str).collect();
    let name = match (named.is_null(), twins.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("name      {}, proven by {}\n", text(named, "domain"), text(named, "by")),
        (false, false) => format!(
            "name      {}, proven by {}; CAREFUL, these look like it: {}\n",
            text(named, "domain"),
            text(named, "by"),
            twins.join(" ")
        ),
    };
    format!(
        "{name}release   {} {}, {standing}{}\n{}since     {}; {trusted}\n{}{}{callers}",
        text(offer, "agent"),
        text(offer, "version"),
        passed_over(offer),
        attesting::careful(offer),
        time(&offer["acceptedMs"]),
        attesting::lines(offer),
        of_release(offer),
    )
}

/// Why higher versions were not chosen, as the registry says.
fn passed_over(row: &Value) -> String {
    let all: Vec<&str> = rows(row, "passedOver").iter().filter_map(Value::as_str).collect();
    if all.is_empty() { String::new() } else { format!("; not chosen: {}", all.join("; ")) }
}

/// Lists installed agents and workflows, and what their registries have now. Exits with 1 if one was revoked.
pub async fn outdated(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list = at.connect().await?.get("/outdated").await?;
    out.show(&list, |list| {
        let cells = |row: &Value| {
            vec![text(row, "name"), text(row, "version"), text(row, "range"), newest(row), text(row, "agent")]
        };
        match rows(list, "installed") {
            [] => "nothing was installed from a registry".to_owned(),
            all => {
                table(&["name", "version", "range", "newest", "release of"], &all.iter().map(cells).collect::<Vec<_>>())
            }
        }
    });
    let is_revoked = |row: &&Value| row["revoked"].is_string();
    match rows(&list, "installed").iter().filter(is_revoked).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("an agent that is installed here was revoked; see above")),
        many => Err(Failure::failed(format!("{many} agents that are installed here were revoked; see above"))),
    }
}

/// The newest version of an installed agent, and what is to be known of its own.
fn newest(row: &Value) -> String {
    let version = text(row, "version");
    let mut newest = match (row["newest"].as_str(), row["why"].as_str()) {
        (Some(newest), _) if newest == version => "up to date".to_owned(),
        (Some(newest), _) => newest.to_owned(),
        (None, Some(why)) => why.to_owned(),
        (None, None) if taken_back(row).is_some() => "nothing newer".to_owned(),
        (None, None) => "nothing in its range".to_owned(),
    };
    newest += &passed_over(row);
    if let Some(why) = row["revoked"].as_str() {
        newest += &format!("; REVOKED: {why}");
    }
    if let Some(why) = taken_back(row) {
        newest += &format!("; {why}");
    }
    if let Some(publisher) = row["passedTo"].as_str() {
        let named = text(row, "named");
        newest += &format!("; CAREFUL, {named} leads to {publisher} now: no update takes it without --publisher");
    }
    newest
}

/// Removes what was installed.
pub async fn uninstall(at: &Paths, uninstall: &Uninstall, out: &Out) -> Result<(), Failure> {
    let removed = at.connect().await?.delete(&format!("/installed/{}", escape(&uninstall.installed))).await?;
    out.show(&removed, |removed| format!("{} is removed", text(removed, "removed")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_that_was_caught_is_not_said_to_be_followed_as_others() {
        let mut added = json!({ "name": "r", "at": "http://r/", "entries": 4 });
        assert_eq!(newly_followed(&added), "this node follows r at http://r/, 4 entries");
        added["forked"] = json!({ "before": "a", "now": "b" });
        let said = newly_followed(&added);
        assert!(said.contains("still asked nothing") && said.contains("registry remove http://r/"), "{said}");
    }

    #[test]
    fn what_is_newer_than_a_revoked_version_is_said() {
        let mut row =
            json!({ "version": "1.0.0", "newest": "1.2.0", "revoked": "x 1.0.0 was revoked by its publisher" });
        assert_eq!(newest(&row), "1.2.0; REVOKED: x 1.0.0 was revoked by its publisher");
        row["passedOver"] = json!(["1.3.0 is yanked: it forgets"]);
        row["revoked"] = Value::Null;
        assert_eq!(newest(&row), "1.2.0; not chosen: 1.3.0 is yanked: it forgets");
        row["newest"] = Value::Null;
        assert!(newest(&row).starts_with("nothing in its range; not chosen"));
        let same = json!({ "version": "1.0.0", "newest": "1.0.0" });
        assert_eq!(newest(&same), "up to date");
        let yanked = json!({ "version": "1.2.0", "newest": null, "yanked": "it forgets" });
        assert_eq!(newest(&yanked), "nothing newer; 1.2.0 was yanked: it forgets");
        let passed = json!({ "version": "1.0.0", "newest": "1.0.0", "named": "example.org/a", "passedTo": "urn:b" });
        assert!(newest(&passed).starts_with("up to date; CAREFUL, example.org/a leads to urn:b now"));
        assert_eq!(unchanged("echo", &yanked), "echo stays: 1.2.0 was yanked: it forgets; nothing newer");
    }
}
