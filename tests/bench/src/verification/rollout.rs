//! Calls of an agent that a rollout divides, beside calls of another one on the same node that none does: what to choose the
//! version, to note when the conversation began and to count what came of it adds.

use std::time::Instant;

use crate::faces::{Node, call};
use crate::figures::{Goals, median, percentile, us};

const ROUNDS: usize = 11;
/// Calls of a round. The new version has a hundredth of them: too few for a decision, so that the rollout stays as it is.
const CALLS: usize = 200;
/// What routing may add to a call, by the medians, microseconds.
const ADDED_US_MAX: f64 = 5.0;

/// The file of an agent that says again what it is told.
fn file(node: &Node, (name, version): (&str, &str)) -> String {
    let path = node.folder.path().join(format!("{name}-{version}.yaml"));
    let text = format!(
        "name: {name}\nversion: {version}\ndescription: Says it again as version {version}.\n\
         runtime: {{ native: {{ builtin: echo, config: {{ answer: task }} }} }}\n\
         contract: {{ class: {{ latency: srt }} }}\ncallers: anyone\n"
    );
    std::fs::write(&path, text).expect("a file");
    path.to_string_lossy().into_owned()
}

/// Prints the figure; false if it is not measured.
pub async fn run(goals: &mut Goals) -> bool {
    let node = Node::start(&[]).await;
    for name in ["plain", "divided"] {
        node.althing(&["agent", "add", "--yes", &file(&node, (name, "1.0.0"))]).await;
    }
    let new = file(&node, ("divided", "1.1.0"));
    node.althing(&["rollout", "divided", "--to", &new, "--steps", "1,100", "--yes"]).await;
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let (plain, divided) = (node.agent("plain"), node.agent("divided"));
    let (mut bare, mut added) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut times, mut floor) = (Vec::with_capacity(CALLS), Vec::with_capacity(CALLS));
        for number in 0..CALLS {
            let mut pair = [(&plain, &mut floor), (&divided, &mut times)];
            // What a node does when it has answered slows the next call: that is each of both as often.
            if number % 2 == 1 {
                pair.reverse();
            }
            for (url, took) in pair {
                let begun = Instant::now();
                call(&http, url).await;
                took.push(begun.elapsed());
            }
        }
        if round == 0 {
            continue; // warming up
        }
        let floor = us(percentile(&mut floor, 0.5));
        bare.push(floor);
        added.push(us(percentile(&mut times, 0.5)) - floor);
    }
    let state = node.althing(&["rollout", "show", "divided"]).await["state"].take();
    if state != "running" {
        println!("  routing under a rollout: not measured, it is {state} before the end");
        return false;
    }
    let added = median(added);
    println!(
        "  a call that begins a conversation: p50 {:.0} µs; where a rollout divides them {added:.1} µs more {}",
        median(bare),
        goals.at_most(added, ADDED_US_MAX),
    );
    true
}
