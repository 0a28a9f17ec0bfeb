//! Agents whose names look like those of others who were there before: they are not refused, and everybody is told.

use crate::party::{Party, client};
use crate::support::{NOW, Served, open};
use althing_protocol::AgentId;
use althing_protocol::inquiry::Inquiry;
use althing_protocol::registry::{Audience, Role};
use althing_registry_client::RegistryClient;

/// Those that an agent is said to look like.
async fn twins(client: &RegistryClient, agent: &AgentId) -> Vec<AgentId> {
    client.agent(agent).await.expect("it is listed").twins
}

async fn publishes(served: &Served, party: &Party, name: &str, audience: Audience) {
    let release = party.release(name, "1.0.0", audience, b"files");
    party.publishes(served, release).await.expect("it is not refused");
}

#[tokio::test]
async fn who_comes_later_with_a_name_that_looks_like_another_is_flagged() {
    let served = Served::start(open()).await;
    let (alice, eve) = (Party::new(1), Party::new(2));
    publishes(&served, &alice, "billing", Audience::public()).await;
    for name in ["bi11ing", "billing", "echo"] {
        publishes(&served, &eve, name, Audience::public()).await;
    }
    let mut thing = eve.release("bil-ling", "1.0.0", Audience::public(), b"");
    thing.bundle = None;
    eve.publishes(&served, thing).await.expect("it is not refused");
    // The same follows from the log after a start.
    let served = served.again().await;
    let first = alice.agent("billing");
    for name in ["bi11ing", "billing", "bil-ling"] {
        assert_eq!(twins(&client(&served), &eve.agent(name)).await, std::slice::from_ref(&first), "{name}");
    }
    assert_eq!(twins(&client(&served), &eve.agent("echo")).await, []);
    assert_eq!(twins(&client(&served), &first).await, [], "nobody makes those look bad who were there before");
    let listed = client(&served).agents(None).await.expect("a list");
    assert_eq!(listed.iter().filter(|one| one.twins == [first.clone()]).count(), 3, "lists say it too");
    let anything = Inquiry { capability: None, action: None, target: None, agent: None };
    let found = client(&served).published(&anything).await.expect("a list");
    let found: Vec<_> = found.into_iter().map(|one| (one.agent, one.twins)).collect();
    assert_eq!(found, [(eve.agent("bil-ling"), vec![first.clone()])], "and what is found by search");
    // What nobody sees any more looks like nothing.
    served.registry.purging().quarantine(&first, None, Some("it leaks")).await.expect("hidden");
    assert_eq!(twins(&client(&served), &eve.agent("bi11ing")).await, []);
}

/// P-185
#[tokio::test]
async fn what_is_hidden_makes_nothing_look_like_it() {
    let served = Served::start(open()).await;
    let (alice, eve, reader) = (Party::new(1), Party::new(2), Party::new(3));
    publishes(&served, &alice, "payroll", Audience::listed([reader.id()])).await;
    publishes(&served, &alice, "weather", Audience::public()).await;
    publishes(&served, &eve, "payro11", Audience::public()).await;
    publishes(&served, &eve, "we-ather", Audience::listed([reader.id()])).await;
    let visits = reader.visits(&served).await;
    for asking in [&client(&served), &visits, &alice.visits(&served).await] {
        assert_eq!(twins(asking, &eve.agent("payro11")).await, [], "whoever asks, nothing tells of the hidden one");
    }
    assert_eq!(twins(&visits, &eve.agent("we-ather")).await, [alice.agent("weather")], "who sees it is told");
}

#[tokio::test]
async fn an_organisation_and_its_members_are_no_strangers() {
    let served = Served::start(open()).await;
    let (org, member, eve) = (Party::new(1), Party::new(2), Party::new(3));
    org.is_organisation(&served, vec![member.member(&[Role::Approve], &["pay*"])], 1).await;
    publishes(&served, &org, "payments", Audience::public()).await;
    publishes(&served, &member, "payment", Audience::public()).await;
    publishes(&served, &eve, "paymemts", Audience::public()).await;
    assert_eq!(twins(&client(&served), &member.agent("payment")).await, [], "the organisation says so");
    let named = [org.agent("payments")];
    assert_eq!(twins(&client(&served), &eve.agent("paymemts")).await, named);
    // Whoever comes later cannot say it.
    let mut roster = eve.roster(vec![org.member(&[Role::Approve], &["*"])], 1, NOW);
    roster.domain = None;
    eve.names(&served, roster).await.expect("anybody may name members");
    assert_eq!(twins(&client(&served), &eve.agent("paymemts")).await, named);
}
