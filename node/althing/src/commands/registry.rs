//! `althing registry`, `publish`, `release`, `install`, `outdated`, `update` and `uninstall`.

use std::path::Path;

use althing_api::{
    AddRegistry, Folder, InstallAddition, InstallCompletion, InstallList, InstallOffer, InstallRemoval, InstallRequest,
    InstallStatus, InstallTerms, MarkRequest, NameProof, PublishRequest, RegistryList, RegistryRemoval, RegistryStatus,
    ReleaseContents, ReleaseList, ReleaseMark, ReleaseOffer, ReleasePublication, ReleaseVersions, UpdateCompletion,
    UpdateLook, UpdateRequest, UpdateRule, UpdateRuleRequest, UpdateRuleStatus,
};

use crate::args::{Install, MarkArgs, Publish, Registry, Release, Uninstall, Update, UpdateBy};
use crate::commands::adopt::{callers, who};
use crate::commands::agent::{escape, standing, stays};
use crate::commands::agreement::{ReleaseReference, agree, of_release, of_update};
use crate::commands::panes::exposed;
use crate::commands::{Out, attesting, contents, date_time, one_line, org, receipts, staging, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Follows registries.
pub async fn registry(at: &Paths, registry: &Registry, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match registry {
        Registry::Add { url, key, witnesses, wanted } => {
            let (url, key, witnesses, wanted) = (url.clone(), key.clone(), witnesses.clone(), *wanted);
            let request = AddRegistry { url, key, witnesses, wanted };
            let added: RegistryStatus = client.ask("/registries", &request).await?;
            out.show(&added, newly_followed);
        }
        Registry::List => {
            let list: RegistryList = client.read("/registries").await?;
            out.show(&list, |list| match list.registries.as_slice() {
                [] => "this node follows no registry: `althing registry add URL --key KEY` adds one".to_owned(),
                all => all.iter().map(followed).collect::<Vec<_>>().join("\n"),
            });
        }
        Registry::Remove { registry } => {
            let path = format!("/registries?registry={}", escape(registry));
            let removed: RegistryRemoval = client.remove(&path).await?;
            out.show(&removed, |RegistryRemoval { removed }| format!("{removed} is followed no more"));
        }
    }
    Ok(())
}

fn newly_followed(added: &RegistryStatus) -> String {
    let RegistryStatus { name, at, .. } = added;
    if added.forked.is_none() {
        return format!("this node follows {name} at {at}, {}", entries(added));
    }
    format!(
        "this node follows {name} at {at} already, which showed two histories: it is still asked nothing. `althing registry list` \
         shows both checkpoints that it signed; take them to its operator and to others who use it. If you trust it again, \
         `althing registry remove {at}` forgets both, and adding it once more believes the history that it shows then"
    )
}

/// How many entries the log of a registry has.
fn entries(row: &RegistryStatus) -> String {
    row.entries.map_or_else(|| "an unknown number of entries".to_owned(), |entries| format!("{entries} entries"))
}

fn followed(row: &RegistryStatus) -> String {
    let mut line = format!("{}  {}  {}\n  key {}", row.name, row.at, entries(row), row.key);
    if let Some(witnesses) = row.witnesses.as_ref().filter(|witnesses| !witnesses.keys.is_empty()) {
        line += &format!("\n  {} of these witnesses must have cosigned", witnesses.wanted);
        line += &witnesses.keys.iter().map(|witness| format!("\n    {witness}")).collect::<String>();
    }
    match &row.forked {
        None => line,
        Some(forked) => format!(
            "{line}\n  it showed two histories, and is asked nothing more. It signed both of these:\n\n{}\n{}",
            forked.before, forked.now
        ),
    }
}

/// Releases an agent, a workflow or a Thing.
pub async fn publish(at: &Paths, publish: &Publish, out: &Out) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::usage(format!("{}: {error}", publish.file.display()));
    let file = publish.file.canonicalize().map_err(cannot)?;
    let folder = Folder::here(file.parent().unwrap_or(Path::new("/")));
    let (file, with) =
        (word(file.file_name().map_or(file.as_path(), Path::new))?, publish.with.iter().map(|path| word(path)));
    let (audience, registry) = (Some(publish.audience.clone()), publish.registry.clone());
    let request = PublishRequest { folder, file, with: with.collect::<Result<_, _>>()?, audience, registry };
    let published: ReleasePublication = at.connect().await?.ask("/publish", &request).await?;
    out.show(&published, |ReleasePublication { agent, version, registry, entries, bytes }| {
        let size = match bytes {
            0 => "a Thing that runs elsewhere: it is found, and there is nothing to install".to_owned(),
            bytes => format!("{bytes} bytes"),
        };
        format!("{agent} {version} is released, {size}\nthe log of {registry} proves it, {entries} entries")
    });
    Ok(())
}

/// A path as text, which releases have.
fn word(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::usage(format!("{}: the path is no text in UTF-8: rename it", path.display())))
}

/// Lists releases, or changes their standing.
pub async fn release(at: &Paths, release: &Release, out: &Out) -> Result<(), Failure> {
    let (mark, standing) = match release {
        Release::List { agent, registry } => {
            let named = |name: &str, value: &Option<String>| {
                value.as_ref().map(|value| format!("{name}={}", escape(value))).into_iter()
            };
            let query: Vec<String> = named("agent", agent).chain(named("registry", registry)).collect();
            let path = format!("/releases?{}", query.join("&"));
            let list: ReleaseList = at.connect().await?.read(&path).await?;
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
        agree(&ReleaseReference { release: named }, &shown, revoke.yes, "revoke", out)?;
    }
    let request = MarkRequest {
        agent: agent.to_owned(),
        version: version.to_owned(),
        standing: standing.to_owned(),
        reason: reason.clone(),
        registry: registry.clone(),
    };
    let marked: ReleaseMark = at.connect().await?.ask("/releases/mark", &request).await?;
    out.show(&marked, |ReleaseMark { publication: ReleasePublication { agent, version, .. }, standing }| {
        format!("{agent} {version} is {standing} from now on")
    });
    Ok(())
}

fn listed(list: &ReleaseList) -> String {
    let of = |agent: &ReleaseVersions| {
        let cells = agent.versions.iter().map(|one| {
            let reason = one.reason.clone().unwrap_or_default();
            vec![agent.agent.clone(), one.version.clone(), one.standing.clone(), reason]
        });
        cells.collect::<Vec<_>>()
    };
    let cells: Vec<Vec<String>> = list.agents.iter().flat_map(of).collect();
    if cells.is_empty() {
        return format!("{} has no release", list.registry);
    }
    let of = |agent: &ReleaseVersions| match attesting::careful(&agent.twins) {
        careful if careful.is_empty() => careful,
        careful => format!("{}\n{careful}", agent.agent),
    };
    let careful: String = list.agents.iter().map(of).collect();
    let below = format!("{careful}{}", attesting::lines(list.attested.as_deref().unwrap_or_default()));
    let gap = if below.is_empty() { "" } else { "\n" };
    format!("{}{gap}{}", table(&["agent", "version", "standing", "reason"], &cells), below.trim_end())
}

/// Installs a release: an agent of this node's owner, or a workflow.
pub async fn install(at: &Paths, install: &Install, out: &Out) -> Result<(), Failure> {
    let mut request = InstallRequest {
        reference: install.reference.clone(),
        name: install.agent.clone(),
        callers: callers(&install.callers),
        registry: install.registry.clone(),
        update: rule(install.update),
        terms: InstallTerms {
            young: install.young,
            uncontained: install.sandbox.is_some(),
            publisher: install.publisher.clone(),
            agreed: None,
        },
    };
    let offer: InstallOffer = at.connect().await?.ask("/install", &request).await?;
    let release = &offer.release;
    if offer.taken {
        let message = format!("something here has the name {:?}: --as gives this one another", release.name);
        return Err(Failure::failed(message));
    }
    agree(&offer, &described(release), install.yes, "install", out)?;
    request.terms.agreed = Some(release.digest.clone());
    let done: InstallCompletion = at.connect().await?.ask("/install", &request).await?;
    out.show(&done, |InstallCompletion { release, added }| outcome(release, added));
    runs(&done.added)
}

fn rule(update: UpdateBy) -> UpdateRule {
    match update {
        UpdateBy::Asked => UpdateRule::Asked,
        UpdateBy::Rollout => UpdateRule::Rollout,
    }
}

/// Says how newer releases come from now on.
async fn set_rule(at: &Paths, name: &str, update: UpdateBy, out: &Out) -> Result<(), Failure> {
    let (path, request) = (format!("/installed/{}/update", escape(name)), UpdateRuleRequest { update: rule(update) });
    let set: UpdateRuleStatus = at.connect().await?.ask(&path, &request).await?;
    out.show(&set, |UpdateRuleStatus { name, update }| match update {
        UpdateRule::Asked => format!("`althing update {name}` brings newer releases"),
        UpdateRule::Rollout => format!("newer releases of {name} begin a rollout by themselves"),
    });
    Ok(())
}

/// Updates what was installed.
pub async fn update(at: &Paths, update: &Update, out: &Out) -> Result<(), Failure> {
    if let Some(rule) = update.update {
        return set_rule(at, &update.agent, rule, out).await;
    }
    let (name, publisher) = (update.agent.clone(), update.publisher.clone());
    let (young, uncontained) = (update.young, update.sandbox.is_some());
    let mut request = UpdateRequest { name, terms: InstallTerms { young, uncontained, publisher, agreed: None } };
    let look: UpdateLook = at.connect().await?.ask("/update", &request).await?;
    let offer = match look {
        UpdateLook::Offer(offer) => offer,
        UpdateLook::Absence(absence) => {
            out.show(&absence, |absence| unchanged(&update.agent, &absence.status));
            return Ok(());
        }
    };
    let release = &offer.release;
    if offer.before == release.version && offer.before_agent == release.agent {
        out.show(&offer, |offer| up_to_date(&update.agent, &offer.release.version, &offer.release.passed_over));
        return Ok(());
    }
    let shown = described(release) + &of_update(&offer);
    agree(&offer, &shown, update.yes, "update to", out)?;
    request.terms.agreed = Some(release.digest.clone());
    let done: UpdateCompletion = at.connect().await?.ask("/update", &request).await?;
    out.show(&done, |UpdateCompletion { release, added, .. }| outcome(release, added));
    runs(&done.added)
}

fn up_to_date(name: &str, version: &str, passed: &[String]) -> String {
    format!("{name} is up to date: {version}{}", passed_over(passed))
}

/// Why there is no update.
fn unchanged(name: &str, row: &InstallStatus) -> String {
    match taken_back(row) {
        Some(why) => format!("{name} stays: {why}; nothing newer{}", passed_over(&row.passed_over)),
        None => up_to_date(name, &row.version, &row.passed_over),
    }
}

/// Who took an installed version back, and why, unless it was revoked.
fn taken_back(row: &InstallStatus) -> Option<String> {
    let version = &row.version;
    match (row.yanked.as_deref(), row.quarantined.as_deref()) {
        (Some(""), _) => Some(format!("{version} was yanked")),
        (Some(why), _) => Some(format!("{version} was yanked: {}", one_line(why))),
        (None, Some(why)) => Some(format!("its registry's operator hides {version}: {}", one_line(why))),
        (None, None) => None,
    }
}

/// What became of a release that was installed, or updated to.
fn outcome(release: &ReleaseOffer, added: &InstallAddition) -> String {
    let version = &release.version;
    match added {
        InstallAddition::Agent(added) => {
            let named = format!("{} {version}", added.name);
            format!("{}{}", exposed(added.status.as_ref()), standing(&named, added))
        }
        InstallAddition::Workflow(added) => {
            let name = &added.name;
            format!("{name} {version} is installed\nnext: althing workflow run GROUP {name} INPUT")
        }
    }
}

/// That the program of an agent which was installed ended; a workflow has none.
fn runs(added: &InstallAddition) -> Result<(), Failure> {
    match added {
        InstallAddition::Agent(added) => stays(added),
        InstallAddition::Workflow(_) => Ok(()),
    }
}

/// A release for people: who made it, how it runs, and what it may do.
fn described(offer: &ReleaseOffer) -> String {
    let callers = match &offer.contents {
        ReleaseContents::Agent { file, .. } => format!("\ncallers   {}", who(&contents::callers(file))),
        ReleaseContents::Workflow { .. } => String::new(),
    };
    let trusted = if offer.trusted { "you trust its publisher" } else { "you do not trust its publisher" };
    let name = match &offer.named {
        None => String::new(),
        Some(NameProof { domain, by, twins, .. }) if twins.is_empty() => {
            format!("name      {domain}, proven by {by}\n")
        }
        Some(NameProof { domain, by, twins, .. }) => {
            format!("name      {domain}, proven by {by}; CAREFUL, these look like it: {}\n", twins.join(" "))
        }
    };
    format!(
        "{name}release   {} {}, {}{}\n{}since     {}; {trusted}\n{}{}{callers}",
        offer.agent,
        offer.version,
        attesting::standing(&offer.standing, offer.reason.as_deref()),
        passed_over(&offer.passed_over),
        attesting::careful(&offer.twins),
        date_time(offer.accepted_ms),
        attesting::lines(&offer.attested),
        of_release(&offer.contents),
    )
}

/// Why higher versions were not chosen, as the registry says.
fn passed_over(all: &[String]) -> String {
    if all.is_empty() { String::new() } else { format!("; not chosen: {}", one_line(&all.join("; "))) }
}

/// Lists installed agents and workflows, and what their registries have now. Exits with 1 if one was revoked.
pub async fn outdated(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list: InstallList = at.connect().await?.read("/outdated").await?;
    out.show(&list, |list| {
        let cells = |row: &InstallStatus| {
            vec![row.name.clone(), row.version.clone(), row.range.clone(), newest(row), row.agent.clone()]
        };
        match list.installed.as_slice() {
            [] => "nothing was installed from a registry".to_owned(),
            all => {
                table(&["name", "version", "range", "newest", "release of"], &all.iter().map(cells).collect::<Vec<_>>())
            }
        }
    });
    match list.installed.iter().filter(|row| row.revoked.is_some()).count() {
        0 => Ok(()),
        1 => Err(Failure::failed("an agent that is installed here was revoked; see above")),
        many => Err(Failure::failed(format!("{many} agents that are installed here were revoked; see above"))),
    }
}

/// The newest version of an installed agent, and what is to be known of its own.
fn newest(row: &InstallStatus) -> String {
    let mut newest = match (&row.newest, &row.why) {
        (Some(newest), _) if *newest == row.version => "up to date".to_owned(),
        (Some(newest), _) => newest.clone(),
        (None, Some(why)) => why.clone(),
        (None, None) if taken_back(row).is_some() => "nothing newer".to_owned(),
        (None, None) => "nothing in its range".to_owned(),
    };
    newest += &passed_over(&row.passed_over);
    if let Some(why) = &row.revoked {
        newest += &format!("; REVOKED: {why}");
    }
    if let Some(why) = taken_back(row) {
        newest += &format!("; {why}");
    }
    if let Some(publisher) = &row.passed_to {
        let named = row.named.as_deref().unwrap_or_default();
        newest += &format!("; CAREFUL, {named} leads to {publisher} now: no update takes it without --publisher");
    }
    match (&row.tried, &row.held) {
        (Some(tried), _) => newest += &format!("; {tried} is tried: `althing rollout show {}`", row.name),
        (None, Some(held)) => newest += &format!("; not tried: {held}"),
        (None, None) if row.update == UpdateRule::Rollout => newest += "; newer ones begin a rollout",
        (None, None) => {}
    }
    newest
}

/// Removes what was installed.
pub async fn uninstall(at: &Paths, uninstall: &Uninstall, out: &Out) -> Result<(), Failure> {
    let path = format!("/installed/{}", escape(&uninstall.installed));
    let removed: InstallRemoval = at.connect().await?.remove(&path).await?;
    out.show(&removed, |InstallRemoval { removed }| format!("{removed} is removed"));
    Ok(())
}

#[cfg(test)]
mod tests;
