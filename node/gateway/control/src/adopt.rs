//! Adopts what exists already.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use althing_api::{
    AcceptReply, AcceptRequest, AdoptReply, AdoptRequest, AgentAcceptance, AgentAdoption, AgentDraft, AgentStep,
    DraftChange, DraftOmission, Kind, Offers, ProgramNeeds, ThingAdoption, ThingDirectory, ThingEntry, ThingFailure,
    UnansweredProgram,
};
use althing_execution::process::holds_more;
use althing_execution::{Advice, Lacks};
use althing_operations::{
    AdoptError, Adoption, Change, Draft, Offer, Operations, adopted, changes, drop_environment, keep_environment,
};
use althing_td::{Environment, FileFolder, ToolServerSpec, reach};
use althing_things::{Entry, Omissions, Unrecognised};
use axum::Json;
use axum::extract::State;

use crate::agents::added;
use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};
use crate::near::agent_problem;
use crate::place::Place;
use crate::requester::Requester;

/// The most Things of a directory that are adopted at once.
const THINGS_MAX: usize = 64;

/// `POST /adopt`: shows what is at an address or behind a command, and adds it as an agent.
pub async fn adopt(
    State(node): State<Arc<Operations>>,
    requester: Requester,
    Body(request): Body<AdoptRequest>,
) -> Answer<AdoptReply> {
    detached(async move {
        let AdoptRequest { at, folder, name, callers, allow, things, all, env, offers, dry_run } = request;
        if let Some(name) = name.as_ref().filter(|_| !dry_run) {
            node.agents.names.check_free(name)?;
        }
        let mut place = Place::of(&node, &requester, &folder)?;
        let folder = place.path().to_owned();
        let adoption = Adoption { at, name, callers, allow, environment: env };
        let offer = match adoption.look(&node.host, &folder).await {
            Ok(offer) => offer,
            Err(error) => {
                return unanswered(&adoption, error, offers).map(AdoptReply::Unanswered).map(Json);
            }
        };
        match offer {
            Offer::One(_) if all || !things.is_empty() => {
                Err(ApiError::invalid("one agent or Thing is there, and no directory to choose from"))
            }
            Offer::One(draft) => {
                let (needs, lacks) = (offered(&adoption, &draft.lacks), draft.lacks.clone());
                let is_only_shown = dry_run || (offers == Offers::Always && needs.is_some());
                let mut told = one(&node, *draft, &adoption.environment, &folder, is_only_shown).await?;
                if told.added.is_some() {
                    place.keep();
                }
                (told.refused, told.more_refused) = unoffered(needs.as_ref(), &lacks);
                told.needs = needs;
                Ok(Json(AdoptReply::Agent(told)))
            }
            Offer::Directory(entries, unlisted) => {
                let chosen = chosen(&entries, &things, all)?;
                let adopted = each(&node, &adoption, &chosen, &folder, dry_run).await?;
                if adopted.iter().any(is_added) {
                    place.keep();
                }
                Ok(Json(AdoptReply::Directory(directory(entries, unlisted, adopted))))
            }
        }
    })
    .await
}

fn is_added(adoption: &ThingAdoption) -> bool {
    matches!(adoption, ThingAdoption::Agent(agent) if agent.added.is_some())
}

fn directory(entries: Vec<Entry>, unlisted: Omissions, adopted: Vec<ThingAdoption>) -> ThingDirectory {
    let entry = |Entry { id, title, url }: Entry| ThingEntry { id, title, url };
    ThingDirectory {
        kind: "directory of Things".to_owned(),
        things: entries.into_iter().map(entry).collect(),
        without_id: unlisted.count,
        left_out: unlisted.named.into_iter().map(omission).collect(),
        adopted,
    }
}

fn omission((what, why): (String, String)) -> DraftOmission {
    DraftOmission { what, why }
}

/// What a program needs that does not answer, where that is offered; else why it does not.
fn unanswered(adoption: &Adoption, error: AdoptError, offers: Offers) -> Result<UnansweredProgram, ApiError> {
    let offer = match &error {
        AdoptError::Unrecognised(Unrecognised::Program { why, lacks, .. }) if offers != Offers::Never => {
            offered(adoption, lacks).map(|needs| UnansweredProgram { unanswered: why.clone(), needs })
        }
        _ => None,
    };
    offer.ok_or_else(|| problem(error))
}

/// What a program needs beyond what it is granted; none if that is nothing that can be granted.
fn offered(adoption: &Adoption, lacks: &Lacks) -> Option<ProgramNeeds> {
    let sandbox = adoption.offer(lacks)?;
    Some(ProgramNeeds {
        sandbox,
        block: lacks.needs.to_string(),
        words: lacks.needs.words(),
        refused: words(lacks),
        more_refused: lacks.more,
    })
}

fn words(lacks: &Lacks) -> Vec<String> {
    lacks.refused.iter().map(Advice::words).collect()
}

/// What a program was refused of which nothing is offered, and whether that is not all of it.
fn unoffered(needs: Option<&ProgramNeeds>, lacks: &Lacks) -> (Vec<String>, Option<bool>) {
    if needs.is_some() || lacks.refused.is_empty() { (Vec::new(), None) } else { (words(lacks), Some(lacks.more)) }
}

/// Adds one agent, or only shows it.
async fn one(
    node: &Operations,
    draft: Draft,
    environment: &Environment,
    folder: &Path,
    is_only_shown: bool,
) -> Result<Box<AgentAdoption>, ApiError> {
    let name = draft.file.name.clone();
    let free = node.agents.names.check_free(&name);
    let mut told = Box::new(AgentAdoption {
        draft: shown(node, &draft, folder),
        taken: is_only_shown.then_some(free.is_err()),
        added: None,
        needs: None,
        refused: Vec::new(),
        more_refused: None,
    });
    if is_only_shown {
        return Ok(told);
    }
    free?;
    // The agent reads them when it starts.
    keep_environment(environment, &name, node.data())?;
    match node.agents.adopt(draft.file, folder, draft.pins).await {
        Ok(id) => told.added = Some(added(node, &id).await),
        Err(error) => {
            drop_environment(environment, &name, node.data());
            return Err(error.into());
        }
    }
    Ok(told)
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
        let message = format!("{} Things are chosen, and {THINGS_MAX} are adopted at once: name them", chosen.len());
        return Err(ApiError::invalid(message));
    }
    Ok(chosen)
}

/// Adopts each of them; one that cannot be keeps no other from it.
async fn each(
    node: &Operations,
    adoption: &Adoption,
    chosen: &[Entry],
    folder: &Path,
    dry_run: bool,
) -> Result<Vec<ThingAdoption>, ApiError> {
    if adoption.name.is_some() && chosen.len() > 1 {
        return Err(ApiError::invalid("the name is for one agent, and several Things are chosen"));
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
        answers.push(match adopting.await {
            Ok(adopted) => ThingAdoption::Agent(adopted),
            Err(error) => ThingAdoption::Failure(ThingFailure { id: entry.id.clone(), failed: error.0.message }),
        });
    }
    Ok(answers)
}

/// `POST /adopt/accept`: shows what an adopted agent is now, and adopts it again, under its name and with its callers, if the
/// request has the digest of exactly that.
pub async fn accept(State(node): State<Arc<Operations>>, Body(request): Body<AcceptRequest>) -> Answer<AcceptReply> {
    detached(async move {
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
            Err(error) => {
                return unanswered(&adoption, error, offers).map(AcceptReply::Unanswered).map(Json);
            }
        };
        let pins = node.host.tools(&name).and_then(|tools| tools.pins());
        let needs = offered(&adoption, &draft.lacks);
        let (refused, more_refused) = unoffered(needs.as_ref(), &draft.lacks);
        let changes = changes(&file, pins.as_ref(), &draft).into_iter().map(change).collect();
        let told = shown(&node, &draft, &folder);
        let mut told = Box::new(AgentAcceptance { draft: told, changes, needs, refused, more_refused, added: None });
        let Some(digest) = digest else { return Ok(Json(AcceptReply::Agent(told))) };
        // All of it: of a shorter one its maker could find two drafts that share it.
        if draft.digest() != digest {
            let message = format!("{name:?} is not what you looked at any more");
            let other = ApiError::new(Kind::Refused, message);
            return Err(other.with_remedy(Some(AgentStep::LookAgain(name.clone()).into())));
        }
        let id = node.agents.replace(draft.file, &folder, draft.pins).await?;
        told.added = Some(added(&node, &id).await);
        Ok(Json(AcceptReply::Agent(told)))
    })
    .await
}

fn problem(error: AdoptError) -> ApiError {
    match error {
        AdoptError::Unrecognised(_) | AdoptError::Nowhere { .. } => ApiError::failed(error.to_string()),
        AdoptError::Unfit(_) | AdoptError::Environment(_) | AdoptError::NoProgram | AdoptError::Directory => {
            ApiError::invalid(error.to_string())
        }
    }
}

fn change(found: Change) -> DraftChange {
    let Change { what, old, new } = found;
    DraftChange { what, old, new }
}

fn shown(node: &Operations, draft: &Draft, folder: &Path) -> AgentDraft {
    let own: Vec<PathBuf> = node.data().map(Path::to_owned).into_iter().collect();
    let folder = if holds_more(folder, &own) { FileFolder::Common(folder) } else { FileFolder::At(folder) };
    AgentDraft {
        kind: draft.kind.to_owned(),
        file: draft.file.clone(),
        reaches: reach(&draft.file, folder),
        left_out: draft.left_out.iter().cloned().map(omission).collect(),
        digest: draft.digest(),
        signature: draft.signature.clone(),
        requests: draft.requests.clone(),
    }
}
