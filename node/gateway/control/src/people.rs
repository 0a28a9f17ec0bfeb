//! People in the control API: whom this node asks.

use std::sync::Arc;

use althing_api::{PeopleReport, PeopleText, PersonEntry, SignOffNeed};
use althing_operations::Operations;
use althing_operations::governance::{People, Person};
use althing_td::ReachSpec;
use axum::Json;
use axum::extract::State;

use crate::body::{Body, detached};
use crate::error::Answer;
use crate::requester::{Requester, actor};

/// `GET /people`
pub async fn show(State(node): State<Arc<Operations>>) -> Json<PeopleReport> {
    Json(report(&node.governance.people()))
}

/// `POST /people`
pub async fn load(
    State(node): State<Arc<Operations>>,
    Requester(principal): Requester,
    Body(PeopleText { text }): Body<PeopleText>,
) -> Answer<PeopleReport> {
    let by = actor(&node, &principal)?;
    detached(async move {
        let people = node.governance.load_people(&text, by).await?;
        Ok(Json(report(&people)))
    })
    .await
}

fn report(people: &People) -> PeopleReport {
    let entry = |(name, person): (&str, &Person)| PersonEntry {
        name: name.to_owned(),
        keys: person.fingerprints().collect(),
        roles: person.roles().map(str::to_owned).collect(),
        users: people.users_of(name).map(str::to_owned).collect(),
        reach: person.reach().iter().map(way).collect(),
    };
    let prune = people.prune().map(|need| SignOffNeed { role: need.role.clone(), count: need.count });
    PeopleReport { owner: people.owner().to_owned(), people: people.iter().map(entry).collect(), prune }
}

/// A way to a person, without the arguments of a command, which may have secrets in them.
fn way(reach: &ReachSpec) -> String {
    match reach {
        ReachSpec::Url { url, .. } => format!("url {url}"),
        ReachSpec::Command { command, .. } => format!("command {}", command.first().map_or("", String::as_str)),
        ReachSpec::Agent(agent) => format!("agent {agent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_with_how_they_are_reached_and_with_no_argument_of_a_command() {
        let text = "owner: grace\npeople:\n  grace: {}\n  ada:\n    roles: [auditor]\n    users: [maria]\n    reach: [{ command: [notify, s3cret] }, \
                    { agent: pager }]\n";
        let told = report(&People::read(text).expect("a good file"));
        let [ada, _] = told.people.as_slice() else { panic!("{told:?}") };
        assert_eq!((told.owner.as_str(), ada.name.as_str()), ("grace", "ada"));
        assert_eq!((&ada.roles, &ada.users), (&vec!["auditor".to_owned()], &vec!["maria".to_owned()]));
        assert_eq!(ada.reach, ["command notify", "agent pager"]);
    }
}
