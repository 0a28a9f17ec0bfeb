//! Adopts what exists already.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use althing_api::{AcceptRequest, AdoptRequest, Kind, Offers};
use althing_execution::process::holds_more;
use althing_execution::{Advice, Lacks};
use althing_node::{
    AdoptError, Adoption, Draft, FileFolder, Node, NodeError, Offer, adopted, changes, drop_environment,
    keep_environment, reach,
};
use althing_td::{Environment, ToolServerSpec};
use althing_things::{Entry, Unrecognised};
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::agent_problem;
use crate::agents::added;
use crate::error::{Answer, ApiError};

/// The most Things of a directory that are adopted at once.
const THINGS_MAX: usize = 64;

/// `POST /adopt`: shows what is at an address or behind a command, and adds it as an agent.
pub async fn adopt(State(node): State<Arc<Node>>, Json(request): Json<AdoptRequest>) -> Answer {
    // In a task of its own: it is completed even if the command line hangs up.
    let adopting = tokio::spawn(async move {
        let AdoptRequest { at, folder, name, callers, allow, things, all, env, offers, dry_run } = request;
        if let Some(name) = name.as_ref().filter(|name| !dry_run && node.agents.file(name).is_ok()) {
            return Err(NodeError::AgentExists(name.clone()).into());
        }
        let adoption = Adoption { at, name, callers, allow, environment: env };
        let offer = match adoption.look(&node.host, &folder).await {
            Ok(offer) => offer,
            Err(error) => return unanswered(&adoption, error, offers).map(Json),
        };
        match offer {
            Offer::One(_) if all || !things.is_empty() => {
                Err(ApiError::invalid("one agent or Thing is there, and no directory to choose from"))
            }
            Offer::One(draft) => {
                let (needs, lacks) = (offered(&adoption, &draft.lacks), draft.lacks.clone());
                let is_only_shown = dry_run || (offers == Offers::Always && needs.is_some());
                let mut answer = one(&node, *draft, &adoption.environment, &folder, is_only_shown).await?;
                put(&mut answer, needs);
                tell(&mut answer, &lacks);
                Ok(Json(answer))
            }
            Offer::Directory(entries, unlisted) => {
                let chosen = chosen(&entries, &things, all)?;
                let left_out = unlisted.named.iter().map(|(what, why)| json!({ "what": what, "why": why }));
                let mut answer = json!({
                    "kind": "directory of Things",
                    "things": entries.iter().map(listed).collect::<Vec<_>>(),
                    "withoutId": unlisted.count,
                    "leftOut": left_out.collect::<Vec<_>>(),
                });
                if !chosen.is_empty() {
                    answer["adopted"] = each(&node, &adoption, &chosen, &folder, dry_run).await?;
                }
                Ok(Json(answer))
            }
        }
    });
    adopting.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

/// What a program needs that does not answer, where that is offered; else why it does not.
fn unanswered(adoption: &Adoption, error: AdoptError, offers: Offers) -> Result<Value, ApiError> {
    let (why, needs) = match &error {
        AdoptError::Unrecognised(Unrecognised::Program { why, lacks, .. }) if offers != Offers::Never => {
            (why.clone(), offered(adoption, lacks))
        }
        _ => (String::new(), None),
    };
    if needs.is_none() {
        return Err(problem(error));
    }
    let mut answer = json!({ "unanswered": why });
    put(&mut answer, needs);
    Ok(answer)
}

/// What a program needs beyond what it is granted; none if that is nothing that can be granted.
fn offered(adoption: &Adoption, lacks: &Lacks) -> Option<Value> {
    let sandbox = adoption.offer(lacks)?;
    Some(json!({
        "sandbox": sandbox,
        "block": lacks.needs.to_string(),
        "words": lacks.needs.words(),
        "refused": words(lacks),
        "moreRefused": lacks.more,
    }))
}

fn words(lacks: &Lacks) -> Vec<String> {
    lacks.refused.iter().map(Advice::words).collect()
}

/// Tells what a program was refused of which nothing is offered.
fn tell(answer: &mut Value, lacks: &Lacks) {
    if answer.get("needs").is_none() && !lacks.refused.is_empty() {
        answer["refused"] = json!(words(lacks));
        answer["moreRefused"] = lacks.more.into();
    }
}

fn put(answer: &mut Value, needs: Option<Value>) {
    if let Some(needs) = needs {
        answer["needs"] = needs;
    }
}

/// Adds one agent, or only shows it.
async fn one(
    node: &Node,
    draft: Draft,
    environment: &Environment,
    folder: &Path,
    is_only_shown: bool,
) -> Result<Value, ApiError> {
    let mut answer = shown(node, &draft, folder);
    let name = draft.file.name.clone();
    let is_taken = node.agents.file(&name).is_ok();
    if is_only_shown {
        answer["taken"] = is_taken.into();
        return Ok(answer);
    }
    if is_taken {
        return Err(NodeError::AgentExists(name).into());
    }
    // The agent reads them when it starts.
    keep_environment(environment, &name, node.data())?;
    match node.agents.adopt(draft.file, folder, draft.pins).await {
        Ok(id) => answer["added"] = json!(added(node, &id).await),
        Err(error) => {
            drop_environment(environment, &name, node.data());
            return Err(error.into());
        }
    }
    Ok(answer)
}

fn listed(entry: &Entry) -> Value {
    json!({ "id": entry.id, "title": entry.title, "url": entry.url })
}

/// The entries that were chosen; none where none was.
fn chosen(entries: &[Entry], things: &[String], all: bool) -> Result<Vec<Entry>, ApiError> {
    let chosen: Vec<Entry> = match all {
        true => entries.to_vec(),
        false => {
            let find = |id: &String| {
                let found = entries.iter().find(|entry| entry.id == *id).cloned();
                found.ok_or_else(|| {
                    let known: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
                    ApiError::new(Kind::NotFound, format!("the directory has no Thing {id:?}")).or_meant(id, &known)
                })
            };
            things.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    if chosen.len() > THINGS_MAX {
        let message =
            format!("{} Things are chosen, and {THINGS_MAX} are adopted at once: name them (--thing)", chosen.len());
        return Err(ApiError::invalid(message));
    }
    Ok(chosen)
}

/// Adopts each of them; one that cannot be keeps no other from it.
async fn each(
    node: &Node,
    adoption: &Adoption,
    chosen: &[Entry],
    folder: &Path,
    dry_run: bool,
) -> Result<Value, ApiError> {
    if adoption.name.is_some() && chosen.len() > 1 {
        return Err(ApiError::invalid("--as names one agent, and several Things are chosen"));
    }
    let mut answers = Vec::new();
    for entry in chosen {
        let secret = adoption.at.secret().map(str::to_owned);
        let (thing, allow) = (entry.url.clone(), adoption.allow.clone());
        let at = ToolServerSpec::Thing { thing, secret, allow, td: None, leads_to: Vec::new() };
        let adoption = Adoption { at, ..adoption.clone() };
        let adopting = async {
            let draft = adoption.draft(&node.host, folder).await.map_err(problem)?;
            one(node, draft, &adoption.environment, folder, dry_run).await
        };
        answers.push(adopting.await.unwrap_or_else(|error| json!({ "id": entry.id, "failed": error.0.message })));
    }
    Ok(answers.into())
}

/// `POST /adopt/accept`: shows what an adopted agent is now, and adopts it again, under its name and with its callers, if the
/// request has the digest of exactly that.
pub async fn accept(State(node): State<Arc<Node>>, Json(request): Json<AcceptRequest>) -> Answer {
    let accepting = tokio::spawn(async move {
        let AcceptRequest { name, digest, grants, offers } = request;
        let (file, folder) = node.agents.file(&name).map_err(|error| agent_problem(&node, &name, error))?;
        let mut adoption = adopted(&file).ok_or_else(|| {
            ApiError::invalid(format!("{name:?} was not adopted: change its agent file, remove it and add it again"))
        })?;
        if !grants.is_default() {
            adoption.grant(&grants).map_err(problem)?;
        }
        let draft = match adoption.draft(&node.host, &folder).await {
            Ok(draft) => draft,
            Err(error) => return unanswered(&adoption, error, offers).map(Json),
        };
        let mut answer = shown(&node, &draft, &folder);
        let pins = node.host.tools(&name).and_then(|tools| tools.pins());
        answer["changes"] = json!(changes(&file, pins.as_ref(), &draft));
        put(&mut answer, offered(&adoption, &draft.lacks));
        tell(&mut answer, &draft.lacks);
        let Some(digest) = digest else { return Ok(Json(answer)) };
        // All of it: of a shorter one its maker could find two drafts that share it.
        if draft.digest() != digest {
            let message =
                format!("{name:?} is not what you looked at any more: look again (althing adopt --accept {name})");
            return Err(ApiError::new(Kind::Refused, message));
        }
        let id = node.agents.replace(draft.file, &folder, draft.pins).await?;
        answer["added"] = json!(added(&node, &id).await);
        Ok(Json(answer))
    });
    accepting.await.unwrap_or_else(|error| Err(ApiError::failed(error.to_string())))
}

fn problem(error: AdoptError) -> ApiError {
    match error {
        AdoptError::Unrecognised(_) | AdoptError::Nowhere { .. } => ApiError::failed(error.to_string()),
        AdoptError::Unfit(_) | AdoptError::Environment(_) | AdoptError::NoProgram | AdoptError::Directory => {
            ApiError::invalid(error.to_string())
        }
    }
}

fn shown(node: &Node, draft: &Draft, folder: &Path) -> Value {
    let own: Vec<PathBuf> = node.data().map(Path::to_owned).into_iter().collect();
    let folder = if holds_more(folder, &own) { FileFolder::Common(folder) } else { FileFolder::At(folder) };
    let left_out = draft.left_out.iter().map(|(what, why)| json!({ "what": what, "why": why }));
    json!({
        "kind": draft.kind,
        "file": draft.file,
        "reaches": reach(&draft.file, folder),
        "leftOut": left_out.collect::<Vec<_>>(),
        "digest": draft.digest(),
        "signature": draft.signature,
        "requests": draft.requests,
    })
}
