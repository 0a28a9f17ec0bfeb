//! Versions that are better not used, on a disk that takes nothing.

use althing_testing_store::FaultStore;

use super::super::news_decisions::hear;
use super::news::{back, key};
use super::*;

/// A rollout that is under way, and its disk.
async fn begin() -> (Traffic, FaultStore) {
    let inner = MemoryStore::new(&FAMILIES);
    publish::write(&inner, &stored("1.0.0")).await.expect("it is written");
    begin_on(&inner, &[50, 100]).await.expect("it is written");
    let disk = FaultStore::over(inner);
    (Traffic::on(Arc::new(disk.clone())), disk)
}

/// The new version answers nothing, whatever is on disk; and that is there when the disk takes it, also after the node ended.
async fn check(traffic: Traffic, disk: &FaultStore, ended: impl Fn(Phase) -> bool) {
    let divided = traffic.rollouts.named("shop").expect("it is known");
    for number in 0..100 {
        let id = format!("later-{number}");
        assert_eq!(traffic.version(&id, &id, false).await.as_deref(), Some("1.0.0"));
    }
    let new = AgentRef { id: traffic.agent.clone(), version: "1.1.0".into() };
    assert!(!traffic.rollouts.may_answer(&new), "nor does it go on with its tasks");
    let on_disk = |traffic: &Traffic| traffic.on_disk().rollout().expect("one was begun").phase();
    assert!(traffic.rollouts.write_again(&divided).await.is_err());
    assert_eq!(on_disk(&traffic), Phase::Running, "the disk is full still");
    disk.set_full(false);
    traffic.rollouts.write_again(&divided).await.expect("there is room");
    assert!(ended(on_disk(&traffic)), "{:?}", on_disk(&traffic));
    assert!(divided.unwritten().is_none());
    let traffic = traffic.again();
    assert!(ended(traffic.phase()) && !traffic.rollouts.may_answer(&new));
}

#[tokio::test]
async fn a_rollout_that_is_aborted_on_a_full_disk_is_over_at_once_and_on_disk_later() {
    let (traffic, disk) = begin().await;
    disk.set_full(true);
    let divided = traffic.rollouts.named("shop").expect("it is known");
    let told = traffic.rollouts.abort(&divided, "it was ordered").await.expect_err("the disk is full");
    assert!(told.to_string().contains("its old version has all new calls"), "{told}");
    assert!(traffic.rollouts.abort(&divided, "again").await.is_err_and(|told| told.to_string().contains("under way")));
    check(traffic, &disk, |phase| phase == Phase::Aborted).await;
}

#[tokio::test]
async fn a_version_that_goes_back_on_a_full_disk_is_back_on_disk_later() {
    let (traffic, disk) = begin().await;
    disk.set_full(true);
    assert_eq!(traffic.until_over(TurnCourse::Crashed).await, 1);
    check(traffic, &disk, |phase| matches!(phase, Phase::WentBack(_))).await;
}

#[tokio::test]
async fn a_promotion_that_is_undone_on_a_full_disk_is_undone_at_once_and_with_its_file_later() {
    let (traffic, disk) = begin().await;
    traffic.until_over(TurnCourse::Good).await;
    disk.set_full(true);
    hear(&traffic.rollouts, key(2), vec![back()]).await;
    for number in 0..50 {
        let id = format!("later-{number}");
        assert_eq!(traffic.version(&id, &id, false).await.as_deref(), Some("1.0.0"));
    }
    assert_eq!((traffic.file().version.as_str(), traffic.on_disk().stable()), ("1.1.0", NEW), "the disk is full still");
    disk.set_full(false);
    // What is counted first is written with it.
    traffic.end_with("1.1.0", ("late", "late"), TurnCourse::Good, &["mail/send"]).await;
    assert_eq!((traffic.file().version.as_str(), traffic.on_disk().stable()), ("1.0.0", STABLE));
    let divided = traffic.rollouts.named("shop").expect("it is known");
    traffic.rollouts.write_again(&divided).await.expect("there is room");
    assert!(divided.unwritten().is_none());
    let traffic = traffic.again();
    assert!(matches!(traffic.phase(), Phase::WentBack(_)) && traffic.file().version == "1.0.0");
}
