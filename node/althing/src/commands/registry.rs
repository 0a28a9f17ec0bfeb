//! `althing registry`, `publish`, `release`, `install`, `outdated`, `update` and `uninstall`.

use althing_control::{AddRegistry, InstallRequest, MarkRequest, PublishRequest, UpdateRequest};
use serde::Serialize;
use serde_json::Value;

use crate::args::{Install, MarkArgs, Publish, Registry, Release, Uninstall, Update};
use crate::commands::adopt::{callers, who};
use crate::commands::agent::escape;
use crate::commands::agreement::{agree, of_release};
use crate::commands::{Out, attesting, org, rows, staging, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Follows registries.
pub async fn registry(at: &Paths, registry: &Registry, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match registry {
        Registry::Add { url, key, witnesses, wanted } => {
            let (url, key, witnesses, wanted) = (url.clone(), key.clone(), witnesses.clone(), *wanted);
            let added = client.post("/registries", &AddRegistry { url, key, witnesses, wanted }).await?;
            out.show(&added, |added| {
                format!(
                    "this node follows {} at {}, {} entries",
                    text(added, "name"),
                    text(added, "at"),
                    added["entries"]
                )
            });
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
        Release::Attest(args) => return attesting::attest(at, args, out).await,
        Release::Stage(args) => return staging::stage(args, out).await,
        Release::Pending { registry } => return org::pending(at, registry, out).await,
        Release::Approve(args) => return org::approve(at, args, out).await,
        Release::Purge(args) => return org::purge(at, args, out).await,
        Release::Reject(args) => return org::reject(at, args, out).await,
        Release::Deprecate(mark) => (mark, "deprecated"),
        Release::Yank(mark) => (mark, "yanked"),
        Release::Restore(mark) => (mark, "good"),
        Release::Revoke(mark) => (mark, "revoked"),
    };
    let MarkArgs { release, reason, registry } = mark;
    let parts = release.rsplit_once('@');
    let (agent, version) =
        parts.ok_or_else(|| Failure::usage(format!("{release:?} has no version: write {release}@1.2.3")))?;
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
    let attested = attesting::lines(list);
    let gap = if attested.is_empty() { "" } else { "\n" };
    format!("{}{gap}{}", table(&["agent", "version", "standing", "reason"], &cells), attested.trim_end())
}

/// Installs a release: an agent of this node's owner, or a workflow.
pub async fn install(at: &Paths, install: &Install, out: &Out) -> Result<(), Failure> {
    let mut request = InstallRequest {
        reference: install.reference.clone(),
        name: install.agent.clone(),
        callers: callers(&install.callers),
        young: install.young,
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
    let mut request = UpdateRequest { name: update.agent.clone(), young: update.young, agreed: None };
    let offer = at.connect().await?.post("/update", &request).await?;
    if offer["before"] == offer["version"] {
        out.show(&offer, |offer| format!("{} is up to date: {}", update.agent, text(offer, "version")));
        return Ok(());
    }
    request.agreed = Some(agree(&offer, &described(&offer), update.yes, "update to", out)?);
    done(at, "/update", &request, out).await
}

async fn done<T: Serialize>(at: &Paths, path: &str, request: &T, out: &Out) -> Result<(), Failure> {
    let done = at.connect().await?.post(path, request).await?;
    out.show(&done, |done| {
        let added = &done["added"];
        if !done["workflow"].is_null() {
            let (name, version) = (text(added, "name"), text(done, "version"));
            return format!("{name} {version} is installed\nnext: althing workflow run GROUP {name} INPUT");
        }
        format!("{} {} runs as {}", text(added, "name"), text(done, "version"), text(added, "id"))
    });
    Ok(())
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
        "{name}release   {} {}, {standing}\nsince     {}; {trusted}\n{}{}{callers}",
        text(offer, "agent"),
        text(offer, "version"),
        time(&offer["acceptedMs"]),
        attesting::lines(offer),
        of_release(offer),
    )
}

/// Lists installed agents and workflows, and what their registries have now.
pub async fn outdated(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list = at.connect().await?.get("/outdated").await?;
    out.show(&list, |list| {
        let cells = |row: &Value| {
            let newest = match (row["newest"].as_str(), row["why"].as_str(), row["revoked"].as_str()) {
                (_, _, Some(why)) => why.to_owned(),
                (Some(newest), ..) if newest == text(row, "version") => "up to date".to_owned(),
                (Some(newest), ..) => newest.to_owned(),
                (None, Some(why), _) => why.to_owned(),
                (None, None, _) => "nothing in its range".to_owned(),
            };
            let newest = match row["quarantined"].as_str() {
                Some(why) => format!("{newest}; its registry's operator hides {}: {why}", text(row, "version")),
                None => newest,
            };
            vec![text(row, "name"), text(row, "version"), text(row, "range"), newest, text(row, "agent")]
        };
        match rows(list, "installed") {
            [] => "nothing was installed from a registry".to_owned(),
            all => {
                table(&["name", "version", "range", "newest", "release of"], &all.iter().map(cells).collect::<Vec<_>>())
            }
        }
    });
    Ok(())
}

/// Removes what was installed.
pub async fn uninstall(at: &Paths, uninstall: &Uninstall, out: &Out) -> Result<(), Failure> {
    let removed = at.connect().await?.delete(&format!("/installed/{}", escape(&uninstall.installed))).await?;
    out.show(&removed, |removed| format!("{} is removed", text(removed, "removed")));
    Ok(())
}
