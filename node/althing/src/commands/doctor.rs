//! `althing doctor`.

use althing_api::{
    DialBack, DialBackOutcome, DialResult, DoctorFinding, DoctorReport, DoctorRequest, LayerOverhead, OverheadReport,
};
use serde_json::json;

use crate::args::Doctor;
use crate::commands::{Out, one_line, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;
use crate::words;

/// Diagnoses the node, or the way from it to an agent. Exits with 1 if something is wrong.
pub async fn run(at: &Paths, asked: &Doctor, out: &Out) -> Result<(), Failure> {
    if asked.overhead {
        let measured: OverheadReport = at.connect().await?.ask("/doctor/overhead", &json!({})).await?;
        out.show(&measured, overhead);
        return Ok(());
    }
    let request = DoctorRequest { agent: asked.agent.clone(), anyone: asked.anyone };
    let mut report: DoctorReport = at.connect().await?.ask("/doctor", &request).await?;
    report.findings.iter_mut().for_each(word);
    out.show(&report, people);
    if report.fine {
        return Ok(());
    }
    Err(Failure::new(code::FAILED, "something is wrong; see above"))
}

/// Says the next step of a finding in the words of the command line; scripts read these too.
fn word(finding: &mut DoctorFinding) {
    finding.remedy = words::with_step(&finding.remedy, finding.next.as_deref());
}

fn people(report: &DoctorReport) -> String {
    let findings = report.findings.iter().flat_map(finding);
    // Others say why they refuse, and what they dialled.
    let lines = findings.chain(report.dialled_back.iter().flat_map(dials)).map(|line| one_line(&line));
    lines.collect::<Vec<_>>().join("\n")
}

fn finding(DoctorFinding { layer, fine, what, remedy, .. }: &DoctorFinding) -> Vec<String> {
    let mark = match (fine, remedy.is_empty()) {
        (true, true) => "ok   ",
        (true, false) => "note ",
        (false, _) => "WRONG",
    };
    let mut lines = vec![format!("{mark} {layer}  {what}")];
    if !remedy.is_empty() {
        let about = if *fine { "what can be done" } else { "what to do" };
        lines.push(format!("          {about}: {remedy}"));
    }
    lines
}

/// The dials of a peer, a line for each.
fn dials(DialBack { peer, from_internet, outcome }: &DialBack) -> Vec<String> {
    let from = if *from_internet { "from the internet" } else { "from the same network" };
    match outcome {
        DialBackOutcome::NotAsked(why) if why.is_empty() => Vec::new(),
        DialBackOutcome::NotAsked(why) => vec![format!("      {peer} could not be asked to dial back: {why}")],
        DialBackOutcome::Dials(dials) => {
            let line = |dial: &DialResult| {
                let came = if dial.reached { "succeeded" } else { dial.why.as_str() };
                format!("      {peer} dialled {} {from}: {came}", dial.address)
            };
            dials.iter().map(line).collect()
        }
    }
}

/// What each layer adds to a call, microseconds.
fn overhead(measured: &OverheadReport) -> String {
    let us = |value: f64| format!("{value:.1}");
    let cells = |row: &LayerOverhead| {
        vec![row.layer.clone(), row.what.clone(), us(row.us.p50), us(row.us.p99), us(row.adds_us)]
    };
    let all: Vec<Vec<String>> = measured.overhead.iter().map(cells).collect();
    let mut shown = table(&["layer", "what", "p50 µs", "p99 µs", "adds µs"], &all);
    if !measured.remote {
        shown.push_str("no node of the same owner is connected: what the way to another node takes is not measured\n");
    }
    shown
}

#[cfg(test)]
mod tests {
    use althing_api::NodeStep;

    use super::*;

    #[test]
    fn a_report_is_told_line_by_line() {
        let finding = |fine: bool, remedy: &str| DoctorFinding {
            layer: "L2".to_owned(),
            fine,
            what: "a key".to_owned(),
            remedy: remedy.to_owned(),
            next: None,
        };
        let dial = |reached: bool, why: &str| DialResult { address: "a".to_owned(), reached, why: why.to_owned() };
        let asked = |from_internet: bool, outcome: DialBackOutcome| DialBack {
            peer: "z6Mk".to_owned(),
            from_internet,
            outcome,
        };
        let report = DoctorReport {
            fine: false,
            findings: vec![finding(true, ""), finding(true, "look"), finding(false, "mend it")],
            dialled_back: vec![
                asked(true, DialBackOutcome::Dials(vec![dial(true, ""), dial(false, "timed out")])),
                asked(false, DialBackOutcome::NotAsked("it left".to_owned())),
            ],
        };
        let expected = [
            "ok    L2  a key",
            "note  L2  a key",
            "          what can be done: look",
            "WRONG L2  a key",
            "          what to do: mend it",
            "      z6Mk dialled a from the internet: succeeded",
            "      z6Mk dialled a from the internet: timed out",
            "      z6Mk could not be asked to dial back: it left",
        ];
        assert_eq!(people(&report).lines().collect::<Vec<_>>(), expected);
        let forged = "it left\nok    L7  all is well";
        let dialled_back = vec![asked(false, DialBackOutcome::NotAsked(forged.to_owned()))];
        let findings = vec![DoctorFinding { what: forged.to_owned(), ..finding(false, forged) }];
        let told = people(&DoctorReport { fine: false, findings, dialled_back });
        assert_eq!(told.lines().filter(|line| line.starts_with("ok")).count(), 0, "{told}");
        assert_eq!(told.lines().count(), 3, "{told}");
    }

    #[test]
    fn the_next_step_of_a_finding_is_said_with_its_command() {
        let mut one = DoctorFinding {
            layer: "L3".to_owned(),
            fine: false,
            what: "no peer is connected".to_owned(),
            remedy: "have the LAN searched".to_owned(),
            next: Some(Box::new(NodeStep::NamePeer.into())),
        };
        word(&mut one);
        let told = [
            "WRONG L3  no peer is connected",
            "          what to do: have the LAN searched; or `--peer ADDRESS` of any node",
        ];
        assert_eq!(finding(&one), told);
    }
}
