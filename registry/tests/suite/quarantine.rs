//! A quarantine hides a release in one registry, on its operator's word, on every surface; and it ends.

use crate::party::{NETWORK, Party, client, refused};
use crate::support::{Rules, Served, escaped, open};
use althing_protocol::registry::{Audience, Standing, Version};
use althing_registry::machine::Refusal;
use althing_registry::service::RequestError;
use althing_registry_client::quarantined;
use reqwest::Method;
use serde_json::Value;

const REASON: &str = "it sends data away";

fn version(text: &str) -> Version {
    text.parse().expect("a version")
}

/// What strangers find of an agent on the surfaces that name no agent.
async fn found(served: &Served, party: &Party, name: &str) -> [bool; 7] {
    let id = party.agent(name).to_string();
    served.is_indexed().await;
    let has = |value: Value| value.to_string().contains(&id);
    [
        served.json("/things?format=collection").await["total"] == 1,
        served.get(&format!("/things/{}/submitted", escaped(&id))).await.status().is_success(),
        served.get("/statements/1").await.status().is_success(),
        has(served.json("/agents").await),
        has(served.json("/things").await),
        has(served.json(&format!("/search/jsonpath?query={}", escaped("$[?@.title==\"billing\"]"))).await),
        served.get(&format!("/things/{}", escaped(&id))).await.status().is_success(),
    ]
}

async fn hides(served: &Served, party: &Party, one: Option<&str>, reason: Option<&str>) -> Result<bool, RequestError> {
    let one = one.map(version);
    served.registry.purging().quarantine(&party.agent("billing"), one.as_ref(), reason).await
}

/// P-192
#[tokio::test]
async fn what_the_operator_hides_is_nowhere_until_it_is_shown_again() {
    let served = Served::start(open()).await;
    let (alice, reader) = (Party::new(1), Party::new(2));
    alice.publishes(&served, alice.release("billing", "1.0.0", Audience::public(), b"one")).await.expect("published");
    assert_eq!(found(&served, &alice, "billing").await, [true; 7]);
    let before = served.registry.checkpoint().head.size;
    assert!(hides(&served, &alice, Some("1.0.0"), Some(REASON)).await.expect("hidden"));
    assert!(!hides(&served, &alice, Some("1.0.0"), Some(REASON)).await.expect("known"), "once more says nothing new");
    assert_eq!(served.registry.checkpoint().head.size, before + 1, "one entry says so");
    // The same follows from the log after a start.
    let served = served.again().await;
    assert_eq!(found(&served, &alice, "billing").await, [false; 7]);
    let (agent, one) = (alice.agent("billing"), version("1.0.0"));
    let (status, detail) = refused(client(&served).release(NETWORK, &agent, &one).await);
    assert!(status == 403 && detail.contains(REASON) && detail.contains("operator's word"), "{status} {detail}");
    let bundle = served.get(&format!("/agents/{agent}/1.0.0/bundle")).await.status();
    assert_eq!(bundle, 403);
    let listed = client(&served).versions(&agent).await.expect("its versions");
    assert_eq!(quarantined(&listed, "1.0.0").as_deref(), Some(REASON));
    // Others see no more than strangers; its publisher sees it, and a later version is there.
    assert_eq!(refused(reader.visits(&served).await.release(NETWORK, &agent, &one).await).0, 403);
    alice.visits(&served).await.release(NETWORK, &agent, &one).await.expect("it is the publisher's own");
    let own = alice.visits(&served).await.agents(None).await.expect("a list");
    let standings =
        own.iter().flat_map(|agent| &agent.versions).map(|one| (one.standing.as_str(), one.reason.as_deref()));
    assert_eq!(standings.collect::<Vec<_>>(), [("quarantined", Some(REASON))], "its publisher's list says so");
    assert!(reader.visits(&served).await.agents(None).await.expect("a list").is_empty(), "another's does not");
    let mut next = alice.release("billing", "1.1.0", Audience::public(), b"two");
    next.sequence += 1;
    alice.publishes(&served, next).await.expect("published");
    let first_is_hidden = [true, true, false, true, true, true, true];
    assert_eq!(found(&served, &alice, "billing").await, first_is_hidden);
    // All of it, what comes later too.
    assert!(hides(&served, &alice, None, Some(REASON)).await.expect("hidden"));
    let mut last = alice.release("billing", "1.2.0", Audience::public(), b"three");
    last.sequence += 2;
    alice.publishes(&served, last).await.expect("the log takes it");
    assert_eq!(found(&served, &alice, "billing").await, [false; 7]);
    let stopped = hides(&served, &alice, None, None).await.expect("shown");
    assert!(stopped);
    let listed = client(&served).versions(&agent).await.expect("its versions");
    let hidden: Vec<_> = listed.iter().filter(|one| one.standing == "quarantined").map(|one| &one.version).collect();
    assert_eq!(hidden, ["1.0.0"], "what was hidden alone stays hidden");
    assert_eq!(found(&served, &alice, "billing").await, first_is_hidden);
}

/// P-192, P-177
#[tokio::test]
async fn a_revocation_is_heard_in_a_quarantine_too() {
    let served = Served::start(open()).await;
    let alice = Party::new(1);
    alice.publishes(&served, alice.release("billing", "1.0.0", Audience::public(), b"one")).await.expect("published");
    hides(&served, &alice, None, Some(REASON)).await.expect("hidden");
    assert!(client(&served).revoked(0).await.expect("an answer").is_empty());
    alice.marks(&served, "billing", "1.0.0", Standing::Revoked).await;
    assert_eq!(client(&served).revoked(0).await.expect("an answer").len(), 1);
    let revoked = client(&served).release(NETWORK, &alice.agent("billing"), &version("1.0.0")).await;
    assert_eq!(revoked.expect("with its proof").standing, Standing::Revoked);
    let bundle = format!("/agents/{}/1.0.0/bundle", alice.agent("billing"));
    assert_eq!(served.get(&bundle).await.status(), 403, "its files stay hidden");
}

#[tokio::test]
async fn what_nobody_may_see_is_not_named_by_its_quarantine() {
    let served = Served::start(Rules::default()).await;
    let (alice, reader) = (Party::new(1), Party::new(2));
    let hidden = alice.release("billing", "1.0.0", Audience::listed(vec![reader.id()]), b"one");
    alice.publishes(&served, hidden).await.expect("published");
    let (agent, one) = (alice.agent("billing"), version("1.0.0"));
    let absent = |name: &str| format!("/agents/{}/1.0.0", alice.agent(name));
    let of_none = served.get(&absent("nothing")).await.status();
    hides(&served, &alice, None, Some(REASON)).await.expect("hidden");
    assert_eq!(served.get(&absent("billing")).await.status(), of_none);
    assert_eq!(served.get(&format!("/agents/{agent}")).await.status(), of_none);
    let visitor = reader.visits(&served).await;
    assert_eq!(refused(visitor.release(NETWORK, &agent, &one).await).0, 403, "who may see it reads why it is hidden");
}

#[tokio::test]
async fn what_is_not_there_is_not_hidden() {
    let served = Served::start(open()).await;
    let alice = Party::new(1);
    let none = hides(&served, &alice, None, Some(REASON)).await;
    assert!(matches!(none, Err(RequestError::Refused(Refusal::NoReleases(_)))));
    alice.publishes(&served, alice.release("billing", "1.0.0", Audience::public(), b"one")).await.expect("published");
    let none = hides(&served, &alice, Some("2.0.0"), Some(REASON)).await;
    assert!(matches!(none, Err(RequestError::Refused(Refusal::NoRelease { .. }))));
    for reason in ["", "\u{1b}[2J", "a\u{202E}b", &"x".repeat(513)] {
        let wrong = hides(&served, &alice, None, Some(reason)).await;
        assert!(matches!(wrong, Err(RequestError::Refused(Refusal::Reason { .. }))), "{reason:?}");
    }
    assert!(!hides(&served, &alice, None, None).await.expect("known"), "nothing is hidden");
}

/// P-192
#[tokio::test]
async fn a_list_names_no_version_as_the_current_one_that_the_operator_hides() {
    let served = Served::start(open()).await;
    let alice = Party::new(1);
    for (at, number) in (0..).zip(["1.0.0", "1.1.0"]) {
        let mut release = alice.release("billing", number, Audience::public(), number.as_bytes());
        release.sequence += at;
        alice.publishes(&served, release).await.expect("published");
    }
    let (versions, session) = (format!("/agents/{}", alice.agent("billing")), alice.session(&served));
    // Both name hidden versions: the one to everybody, so that who has it learns why, and the other to its publisher.
    let current = async || {
        let own = served.request(Method::GET, "/agents").bearer_auth(&session).send().await.expect("an answer");
        let lists = [served.json(&versions).await, own.json::<Value>().await.expect("JSON")];
        lists.map(|list| list["agents"][0]["current"].clone())
    };
    assert_eq!(current().await, ["1.1.0", "1.1.0"]);
    assert!(hides(&served, &alice, Some("1.1.0"), Some(REASON)).await.expect("hidden"));
    assert_eq!(current().await, ["1.0.0", "1.0.0"]);
    assert!(hides(&served, &alice, None, Some(REASON)).await.expect("hidden"));
    assert_eq!(current().await, [Value::Null, Value::Null]);
}
