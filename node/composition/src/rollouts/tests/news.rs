//! Two nodes of one owner, each with a rollout of its own of the same version, that tell each other what came of it.

use althing_protocol::{PublicKey, SecretKey};
use althing_verification::machine::rollout::{Reason, RolloutNews, RolloutWord};

use super::super::news_decisions::{all_news, hear};
use super::*;

pub(super) fn key(number: u8) -> PublicKey {
    SecretKey::from_seed(&[number; 32]).public()
}

/// That the new version went back.
pub(super) fn back() -> RolloutNews {
    RolloutNews { agent: "shop".to_owned(), version: NEW, word: RolloutWord::Back, at_ms: 1 }
}

/// The first hears all that the other one tells.
async fn told(hears: &Traffic, by: &Traffic) {
    hear(&hears.rollouts, key(2), all_news(&by.rollouts).expect("it is read")).await;
}

/// New conversations, and those of the new version, are the stable one's, whose file is the agent's.
async fn is_back(traffic: &Traffic) {
    let reason = Reason::Elsewhere { node: key(2) };
    assert_eq!((traffic.phase(), traffic.on_disk().stable()), (Phase::WentBack(reason), STABLE));
    assert_eq!(traffic.file().version, "1.0.0");
    let kept = rows::others(traffic.store.as_ref(), "shop").expect("readable");
    assert_eq!(kept.keys().copied().collect::<Vec<Digest>>(), [NEW]);
    for number in 0..50 {
        let (fresh, before) = (format!("fresh-{number}"), format!("c-{number}"));
        assert_eq!(traffic.version(&fresh, &fresh, false).await.as_deref(), Some("1.0.0"));
        assert_eq!(traffic.version(&before, "later", true).await.as_deref(), Some("1.0.0"));
    }
    let new = AgentRef { id: traffic.agent.clone(), version: "1.1.0".into() };
    assert!(!traffic.rollouts.may_answer(&new));
    let refused = traffic.on_disk().begin(Plan::of(NEW), u64::MAX / 2).expect_err("it was tried").to_string();
    assert!(refused.contains("went back on another node of its owner"), "{refused}");
}

#[tokio::test]
async fn what_goes_back_on_one_node_goes_back_on_the_other_one_and_stays_back() {
    let (one, other) = (Traffic::begin().await, Traffic::begin().await);
    for number in 0..50 {
        let id = format!("c-{number}");
        assert!(one.version(&id, &id, false).await.is_some());
    }
    other.until_over(TurnCourse::Crashed).await;
    assert_eq!(one.phase(), Phase::Running);
    for _ in 0..2 {
        told(&one, &other).await;
    }
    is_back(&one).await;
    is_back(&one.again()).await;
}

/// They were apart, and decided each for itself.
#[tokio::test]
async fn a_promotion_is_undone_with_its_file_where_the_version_went_back_on_another_node() {
    let (one, other) = (Traffic::begin().await, Traffic::begin().await);
    one.until_over(TurnCourse::Good).await;
    other.until_over(TurnCourse::Crashed).await;
    assert_eq!((one.file().version.as_str(), other.file().version.as_str()), ("1.1.0", "1.0.0"));
    told(&other, &one).await;
    assert_eq!(other.file().version, "1.0.0", "going back wins");
    told(&one, &other).await;
    is_back(&one).await;
    is_back(&one.again()).await;
}

#[tokio::test]
async fn what_is_promoted_on_one_node_is_promoted_where_it_is_tried_and_stays_so() {
    let (mut one, other) = (Traffic::begin().await, Traffic::begin().await);
    other.until_over(TurnCourse::Good).await;
    told(&one, &other).await;
    for _ in 0..2 {
        assert_eq!(one.phase(), Phase::PromotedElsewhere { node: key(2) });
        assert_eq!((one.file().version.as_str(), one.on_disk().stable()), ("1.1.0", NEW));
        assert_eq!(one.version("fresh", "fresh", false).await.as_deref(), Some("1.1.0"));
        one = one.again();
    }
}

/// Where its calls are not divided, it is remembered by whoever changes agents; where there is no such agent, not at all.
#[tokio::test]
async fn what_went_back_waits_where_no_rollout_was_begun() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(&FAMILIES));
    publish::write(store.as_ref(), &stored("1.0.0")).await.expect("it is written");
    let traffic = Traffic::on(store);
    let other = RolloutNews { agent: "other".to_owned(), ..back() };
    hear(&traffic.rollouts, key(2), vec![other, back()]).await;
    assert_eq!(traffic.rollouts.news().next_waiting().await, (key(2), back()));
    let mut versions = Versions::new(STABLE);
    assert!(versions.remember_back(&back(), key(2), 5));
    traffic.store.write(rows::change("shop", &versions), Durability::Synced).await.expect("it is written");
    hear(&traffic.rollouts, key(2), vec![back()]).await;
    let waits = tokio::time::timeout(Duration::from_millis(50), traffic.rollouts.news().next_waiting()).await;
    assert!(waits.is_err(), "it is on disk: {waits:?}");
    assert_eq!(all_news(&traffic.rollouts).expect("readable"), [back()], "and told to others");
}
