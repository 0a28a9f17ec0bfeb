//! Outputs of the control loop in `examples/robot-arm` that break the limits of its contract: nobody sees them, the last good value
//! stays, and they are counted.

use std::time::Duration;

use althing_e2e::{Machine, Node, http, until};
use serde_json::{Value, json};

const ARM: &str = include_str!("../../../../examples/robot-arm/arm.yaml");
const MODULE: &str = include_str!("../../../../examples/robot-arm/arm.wat");
const SOON: Duration = Duration::from_secs(60);

/// What the job says that answers a message to the agent which sets the target: nothing where a busy machine stopped that job.
fn job(node: &Node, target: f64) -> Option<Value> {
    let params = http::says(&json!({ "inputs": { "arm.target": target } }).to_string());
    let task = http::ask(&node.gateway(), "arm", "SendMessage", &params)["task"].take();
    Some(task["artifacts"][0]["parts"][0]["data"].clone()).filter(|data| !data.is_null())
}

/// The torque for that target, and the names of outputs that broke their limits.
fn torque(node: &Node, target: f64) -> (Value, Value) {
    let mut told = Value::Null;
    until(SOON, "a job answers", || match job(node, target) {
        Some(data) => {
            told = data;
            true
        }
        None => false,
    });
    (told["outputs"]["arm.torque"].take(), told["job"]["outOfLimits"].take())
}

fn finding(machine: &Machine) -> Value {
    let ps = machine.json(&["ps"]);
    let agents = ps["agents"].as_array().expect("agents");
    agents.iter().find(|agent| agent["name"] == "arm").expect("it is there")["findings"][0].clone()
}

/// The example, in that class; the arm stands still at 0, since nothing moves it.
fn node(machine: &Machine, class: &str) -> Node {
    machine.write("arm.wat", MODULE);
    let node = machine.up_alone(&[]);
    let mut file = ARM.replace("on_overrun: suspend", "on_overrun: skip");
    if class != "hrt" {
        let times = ["period_us: 10000", "deadline_us: 5000", "budget_us: 500", "on_overrun: skip"];
        for line in times.map(|time| format!("    {time}\n")) {
            assert!(file.contains(&line), "{file}");
            file = file.replace(&line, "");
        }
        file = file.replace("latency: hrt", &format!("latency: {class}"));
    }
    machine.add("arm", &file);
    node
}

#[test]
fn what_breaks_the_limits_of_a_control_loop_is_not_shown_and_ps_and_doctor_count_it() {
    for class in ["hrt", "srt"] {
        let machine = Machine::new();
        let node = node(&machine, class);
        assert_eq!(torque(&node, 1.0), (json!(40.0), Value::Null), "{class}");
        assert_eq!(finding(&machine), Value::Null, "{class}");
        // Jobs that an executor releases by itself go on with the last target.
        let held = torque(&node, 1e6);
        assert_eq!(held, (json!(40.0), json!(["arm.torque"])), "{class}: the last good value stays");
        assert_eq!(torque(&node, -1e6), held, "{class}");
        assert_eq!(torque(&node, 2.0), (json!(80.0), Value::Null), "{class}: what is good again is shown again");
        let found = finding(&machine);
        assert_eq!(found["finding"], "output-out-of-limits", "{class}: {found}");
        assert!(found["count"].as_u64().is_some_and(|count| count >= 2), "{class}: {found}");
        assert_eq!(found["task"] == "", class == "hrt", "{class}: {found}");
        let examined = machine.run(&["--json", "doctor"]);
        let report: Value = serde_json::from_str(&examined.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("findings");
        let is_that = |one: &&Value| one["layer"] == "L6" && one["what"].to_string().contains("output-out-of-limits");
        let told = findings.iter().find(is_that).unwrap_or_else(|| panic!("{class}: {report}"));
        assert_eq!(told["fine"], false, "{class}: {told}");
        let shown = machine.run(&["ps"]).stdout;
        assert!(shown.contains("output-out-of-limits"), "{class}: {shown}");
    }
}

/// What its jobs say is shown nowhere while it is tried, and is held to its limits all the same.
#[test]
fn a_new_version_of_a_control_loop_that_breaks_its_limits_goes_back_by_itself() {
    let machine = Machine::new();
    for (module, word) in [("one.wat", "1"), ("nine.wat", "9")] {
        let code = r#"(module (import "althing" "output" (func $output (param i32 f64)))
          (func (export "turn") (call $output (i32.const 0) (f64.const WORD))))"#;
        machine.write(module, &code.replace("WORD", word));
    }
    let file = |version: &str, module: &str| {
        json!({
            "name": "loop",
            "description": "Says a number",
            "version": version,
            "runtime": { "wasm": { "module": module } },
            "contract": {
                // Far more than a job takes: what is tested is not how well a busy machine keeps time.
                "class": { "latency": "hrt", "period_us": 50_000, "deadline_us": 50_000, "budget_us": 5_000 },
                "placement": { "min_grade": "C" },
                "signals": { "inputs": [], "outputs": ["word"], "limits": { "word": { "max": 5 } } },
            },
        })
        .to_string()
    };
    let _node = machine.up_alone(&[]);
    machine.add("loop", &file("1.0.0", "one.wat"));
    let new = machine.write("new.yaml", &file("1.1.0", "nine.wat"));
    let begun = machine.run(&["rollout".as_ref(), "loop".as_ref(), "--yes".as_ref(), "--to".as_ref(), new.as_os_str()]);
    assert_eq!(begun.code, 0, "{begun:?}");
    let show = || machine.json(&["rollout", "show", "loop"]);
    until(SOON, "one look at its jobs is enough", || show()["state"] == "wentBack");
    let told = show();
    let reason = told["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("it gave what a gate refused or its limits forbid"), "{told}");
}

#[test]
fn a_limit_of_what_is_no_output_is_refused_with_its_place() {
    let machine = Machine::new();
    let file = ARM.replace("limits: { arm.torque:", "limits: { arm.torsion:");
    assert_ne!(file, ARM);
    machine.write("arm.yaml", &file);
    let refused = machine.run(&["contract", "lint", "arm.yaml"]);
    assert!(refused.code != 0, "{refused:?}");
    let told = format!("{}{}", refused.stdout, refused.stderr);
    assert!(told.contains("signals.limits.arm.torsion") && told.contains("limit-of-an-output"), "{told}");
}
