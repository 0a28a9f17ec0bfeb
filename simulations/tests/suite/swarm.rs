//! `althing-sim swarm` with a few real nodes: what it writes is of all that was asked, and of both kinds of node.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn a_few_nodes_of_both_kinds_are_measured_and_drawn() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (report, plot) = (folder.join("swarm.json"), folder.join("swarm.svg"));
    let run = Command::new(env!("CARGO_BIN_EXE_althing-sim"))
        .args(["swarm", "--nodes", "5", "--rounds", "4", "--output"])
        .arg(&report)
        .arg("--plot")
        .arg(&plot)
        .output()
        .expect("it runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&report).expect("a report")).expect("JSON");
    for kind in ["ours", "bare"] {
        let of = &report[kind];
        assert_eq!((&of["putMs"]["n"], &of["lookUpMs"]["n"]), (&4.into(), &4.into()), "{report}");
        assert!(of["putMs"]["p50"].as_f64() > Some(0.0) && of["memoryKib"].as_f64() > Some(0.0), "{report}");
        assert!(of["putRequests"].as_f64() > Some(0.0) && of["connections"].as_f64() > Some(0.0), "{report}");
    }
    assert_eq!(report["ours"]["missed"], 0, "what is there is found: {report}");
    assert_eq!(report["ours"]["findMs"]["n"], 4, "{report}");
    for ratio in ["put", "lookUp", "findToLookUp", "memory"] {
        assert!(report["ratios"][ratio].as_f64() > Some(0.0), "{ratio}: {report}");
    }
    let plot = std::fs::read_to_string(&plot).expect("a plot");
    assert!(plot.starts_with("<svg") && plot.contains("ours") && plot.contains("bare"), "{plot}");
}
