//! Writes values. Those that deploy agents say what nodes run, so each is signed by its owner, and later than the one before.

use althing_protocol::group::{Author, Command, Deployment, Remove, Set};
use althing_protocol::limits::CLOCK_SKEW_MAX_MS;
use althing_protocol::{Authored, object};

use super::admission::is_heard;
use super::{Group, permits};
use crate::machine::outcome::Refusal;
use crate::machine::placement::AGENTS;
use crate::machine::shares::Sharers;

/// Executes a command about values; the version of the value.
pub(super) fn execute(group: &mut Group, author: Author, command: &Command) -> Result<Option<u64>, Refusal> {
    permits::check(group, author, command)?;
    match command {
        Command::Set(value) => set(group, author, value),
        Command::Remove(value) => remove(group, value),
        other => Err(Refusal::Invalid(format!("{other:?} is no command about values"))),
    }
}

fn set(group: &mut Group, author: Author, set: &Set) -> Result<Option<u64>, Refusal> {
    let owner = group.owner_of_author(author)?;
    let deployment = match set.key.strip_prefix(AGENTS) {
        Some(agent) => Some(deployment(group, agent, set)?),
        None => None,
    };
    let sharers = Sharers::of(group.charter.as_ref(), &group.members);
    let version = group.values.set(set, owner, sharers)?;
    if let Some(deployment) = deployment {
        group.agents.deploy(&deployment);
    }
    Ok(Some(version))
}

/// Removes a value. Whoever may write may end what an owner deployed.
fn remove(group: &mut Group, remove: &Remove) -> Result<Option<u64>, Refusal> {
    let version = group.values.remove(remove)?;
    if let Some(agent) = remove.key.strip_prefix(AGENTS) {
        group.agents.end(agent);
    }
    Ok(Some(version))
}

/// The deployment that is to be the value of an agent: later than each one before of its agent and owner, or the present one,
/// signed again by the owner's next key.
fn deployment(group: &Group, agent: &str, set: &Set) -> Result<Deployment, Refusal> {
    let Authored { body, signer, .. } = open(group, &set.value)?;
    if body.agent != agent || body.group != group.id {
        return Err(Refusal::Invalid(format!(
            "this deploys {:?} of {}, and no {agent:?} here",
            body.agent, body.group
        )));
    }
    if !is_heard(group, body.owner) {
        let why = format!("{} owns neither the group nor one of its members, and deploys nothing here", body.owner);
        return Err(Refusal::Author(why));
    }
    let unknown = || Refusal::Author(format!("the group does not know the publisher {}", body.owner));
    let log = group.logs.get(&body.owner).ok_or_else(unknown)?;
    log.accepts(signer, group.now_ms).map_err(|error| Refusal::Author(error.to_string()))?;
    if signer != log.current() {
        // Within the overlap of a rotation what it signed stays; whoever stole it adds nothing.
        return Err(Refusal::Author(format!("{signer} is a former key of {}; sign with the present one", body.owner)));
    }
    if body.made_ms > group.now_ms.saturating_add(CLOCK_SKEW_MAX_MS) {
        return Err(Refusal::Invalid(format!("the deployment of {agent:?} is of a time that has not come")));
    }
    if is_signed_again(group, &body, set)? {
        return Ok(body);
    }
    group.agents.check(&body, Sharers::of(group.charter.as_ref(), &group.members)).map(|()| body)
}

/// Whether a deployment is the present one.
fn is_signed_again(group: &Group, body: &Deployment, set: &Set) -> Result<bool, Refusal> {
    let Some(present) = group.values.get(&set.key).filter(|_| group.agents.is_last(body)) else { return Ok(false) };
    Ok(open(group, &present.bytes)?.body == *body)
}

fn open(group: &Group, bytes: &[u8]) -> Result<Authored<Deployment>, Refusal> {
    let opened = object::open::<Deployment>(bytes, &group.network, &group.id.to_string());
    opened.map_err(|error| Refusal::Invalid(format!("the value of an agent is its deployment: {error}")))
}
