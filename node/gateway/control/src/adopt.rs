//! Adopts what exists already.

use std::path::Path;
use std::sync::Arc;

use althing_node::{AdoptError, Adoption, Draft, Environment, Node, NodeError, Offer, adopted, changes, reach};
use althing_td::ToolServerSpec;
use althing_things::Entry;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::agents::added;
use crate::{AcceptRequest, AdoptRequest, Kind, Problem, agent_problem};

/// The most Things of a directory that are adopted at once.
const THINGS_MAX: usize = 64;

/// `POST /adopt`: shows what is at an address or behind a command, and adds it as an agent.
pub async fn adopt(State(node): State<Arc<Node>>, Json(request): Json<AdoptRequest>) -> Result<Json<Value>, Problem> {
    // In a task of its own: it is completed even if the command line hangs up.
    let adopting = tokio::spawn(async move {
        let AdoptRequest { at, folder, name, callers, allow, things, all, env, dry_run } = request;
        let adoption = Adoption { at, name, callers, allow, environment: env };
        match adoption.look(&node.host, &folder).await.map_err(problem)? {
            Offer::One(_) if all || !things.is_empty() => {
                Err(Problem::invalid("one agent or Thing is there, and no directory to choose from"))
            }
            Offer::One(draft) => one(&node, *draft, &adoption.environment, &folder, dry_run).await.map(Json),
            Offer::Directory(entries, left_out) => {
                let chosen = chosen(&entries, &things, all)?;
                let mut answer = json!({
                    "kind": "directory of Things",
                    "things": entries.iter().map(listed).collect::<Vec<_>>(),
                    "withoutId": left_out,
                });
                if !chosen.is_empty() {
                    answer["adopted"] = each(&node, &adoption, &chosen, &folder, dry_run).await?;
                }
                Ok(Json(answer))
            }
        }
    });
    adopting.await.unwrap_or_else(|error| Err(Problem::failed(error.to_string())))
}

/// Adds one agent, or only shows it.
async fn one(
    node: &Node,
    draft: Draft,
    environment: &Environment,
    folder: &Path,
    dry_run: bool,
) -> Result<Value, Problem> {
    let mut answer = shown(&draft);
    let name = draft.file.name.clone();
    let is_taken = node.agents.file(&name).is_ok();
    if dry_run {
        answer["taken"] = is_taken.into();
        return Ok(answer);
    }
    if is_taken {
        return Err(NodeError::AgentExists(name).into());
    }
    // The agent reads them when it starts.
    environment.keep(&name, node.data())?;
    match node.agents.adopt(draft.file, folder, draft.pins).await {
        Ok(id) => answer["added"] = added(node, &id),
        Err(error) => {
            environment.drop_kept(&name, node.data());
            return Err(error.into());
        }
    }
    Ok(answer)
}

fn listed(entry: &Entry) -> Value {
    json!({ "id": entry.id, "title": entry.title, "url": entry.url })
}

/// The entries that were chosen; none where none was.
fn chosen(entries: &[Entry], things: &[String], all: bool) -> Result<Vec<Entry>, Problem> {
    let chosen: Vec<Entry> = match all {
        true => entries.to_vec(),
        false => {
            let find = |id: &String| {
                let found = entries.iter().find(|entry| entry.id == *id).cloned();
                found.ok_or_else(|| {
                    let known: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
                    Problem::new(Kind::NotFound, format!("the directory has no Thing {id:?}")).or_meant(id, &known)
                })
            };
            things.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    if chosen.len() > THINGS_MAX {
        let message =
            format!("{} Things are chosen, and {THINGS_MAX} are adopted at once: name them (--thing)", chosen.len());
        return Err(Problem::invalid(message));
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
) -> Result<Value, Problem> {
    if adoption.name.is_some() && chosen.len() > 1 {
        return Err(Problem::invalid("--as names one agent, and several Things are chosen"));
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
        answers.push(adopting.await.unwrap_or_else(|problem| json!({ "id": entry.id, "failed": problem.message })));
    }
    Ok(answers.into())
}

/// `POST /adopt/accept`: shows what an adopted agent is now, and adopts it again, under its name and with its callers, if the
/// request has the digest of exactly that.
pub async fn accept(State(node): State<Arc<Node>>, Json(request): Json<AcceptRequest>) -> Result<Json<Value>, Problem> {
    let accepting = tokio::spawn(async move {
        let AcceptRequest { name, digest } = request;
        let (file, folder) = node.agents.file(&name).map_err(|error| agent_problem(&node, &name, error))?;
        let adoption = adopted(&file).ok_or_else(|| {
            Problem::invalid(format!("{name:?} was not adopted: change its agent file, remove it and add it again"))
        })?;
        let draft = adoption.draft(&node.host, &folder).await.map_err(problem)?;
        let mut answer = shown(&draft);
        let pins = node.host.tools(&name).and_then(|tools| tools.pins());
        answer["changes"] = json!(changes(&file, pins.as_ref(), &draft));
        let Some(digest) = digest else { return Ok(Json(answer)) };
        // All of it: of a shorter one its maker could find two drafts that share it.
        if draft.digest() != digest {
            let message =
                format!("{name:?} is not what you looked at any more: look again (althing adopt --accept {name})");
            return Err(Problem::new(Kind::Refused, message));
        }
        let id = node.agents.replace(draft.file, &folder, draft.pins).await?;
        answer["added"] = added(&node, &id);
        Ok(Json(answer))
    });
    accepting.await.unwrap_or_else(|error| Err(Problem::failed(error.to_string())))
}

fn problem(error: AdoptError) -> Problem {
    match error {
        AdoptError::Unrecognised(_) | AdoptError::Nowhere { .. } => Problem::failed(error.to_string()),
        AdoptError::Unfit(_) | AdoptError::Environment(_) | AdoptError::Directory => {
            Problem::invalid(error.to_string())
        }
    }
}

fn shown(draft: &Draft) -> Value {
    let left_out = draft.left_out.iter().map(|(what, why)| json!({ "what": what, "why": why }));
    json!({
        "kind": draft.kind,
        "file": draft.file,
        "reaches": reach(&draft.file),
        "leftOut": left_out.collect::<Vec<_>>(),
        "digest": draft.digest(),
        "signature": draft.signature,
        "requests": draft.requests,
    })
}
