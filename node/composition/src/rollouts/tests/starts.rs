//! Versions that do not run yet when their node starts, and those that cannot.

use super::*;

fn starting(traffic: &Traffic) -> Vec<String> {
    traffic.rollouts.starting(&traffic.agent).iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn a_version_is_waited_for_until_it_runs_and_for_half_a_minute_at_most() {
    let traffic = Traffic::begin().await;
    assert_eq!(starting(&traffic), ["1.0.0", "1.1.0"]);
    let divided = traffic.rollouts.named("shop").expect("it is known");
    divided.note_failure(NEW, Some("no model answers".to_owned()));
    assert_eq!(starting(&traffic), ["1.0.0", "1.1.0"], "it is tried again");
    divided.note_failure(NEW, None);
    assert_eq!(starting(&traffic), ["1.0.0"]);
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(starting(&traffic), ["1.0.0"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(starting(&traffic), [""; 0]);
}

#[tokio::test]
async fn why_a_version_does_not_run_is_told_as_long_as_it_should() {
    let traffic = Traffic::begin().await;
    let fails = |traffic: &Traffic| {
        let divided = traffic.rollouts.named("shop").expect("it is known");
        divided.note_failure(NEW, Some("no model answers".to_owned()));
        traffic.rollouts.failures()
    };
    let told = ("shop".to_owned(), Arc::<str>::from("1.1.0"), "no model answers".to_owned());
    assert_eq!(fails(&traffic), [told]);
    traffic.until_over(TurnCourse::Failed).await;
    // One that went back is neither started nor waited for.
    assert!(fails(&traffic).is_empty());
    let traffic = traffic.again();
    assert_eq!((starting(&traffic), fails(&traffic)), (vec!["1.0.0".to_owned()], Vec::new()));
}
