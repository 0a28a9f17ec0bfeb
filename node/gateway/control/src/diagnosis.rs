//! What a node's doctor found, in the control API.

use althing_api::{
    DialBack, DialBackOutcome, DialResult, DoctorFinding, DoctorReport, LayerOverhead, OverheadReport, OverheadTimes,
};
use althing_operations::doctor::{self, Finding, Overhead, OverheadRow, Report};

/// All that was found; fine is only what is fine everywhere.
pub fn report(found: Report) -> DoctorReport {
    DoctorReport {
        fine: found.findings.iter().all(|finding| finding.fine),
        findings: found.findings.into_iter().map(finding).collect(),
        dialled_back: found.dialled_back.into_iter().map(dial_back).collect(),
    }
}

fn finding(found: Finding) -> DoctorFinding {
    let Finding { layer, fine, what, remedy, next } = found;
    DoctorFinding { layer: layer.to_owned(), fine, what, remedy, next: next.map(Box::new) }
}

fn dial_back(asked: doctor::DialBack) -> DialBack {
    let doctor::DialBack { peer, from_internet, outcome } = asked;
    let dial = |(address, why): (String, String)| DialResult { address, reached: why.is_empty(), why };
    let outcome = match outcome {
        Ok(dials) => DialBackOutcome::Dials(dials.into_iter().map(dial).collect()),
        Err(why) => DialBackOutcome::NotAsked(why),
    };
    DialBack { peer, from_internet, outcome }
}

/// What was measured of each layer.
pub fn overhead(measured: Overhead) -> OverheadReport {
    let row = |row: OverheadRow| LayerOverhead {
        layer: row.layer.to_owned(),
        what: row.what,
        us: OverheadTimes { p50: row.p50_us, p99: row.p99_us },
        adds_us: row.adds_us,
        rounds: row.rounds,
    };
    OverheadReport { overhead: measured.rows.into_iter().map(row).collect(), remote: measured.is_remote }
}

#[cfg(test)]
mod tests {
    use althing_api::KeyStep;

    use super::*;

    #[test]
    fn what_is_wrong_anywhere_makes_all_of_it_wrong() {
        let found = |fine: bool| Finding {
            layer: "L2",
            fine,
            what: "a key".to_owned(),
            remedy: String::new(),
            next: (!fine).then(|| KeyStep::BringHere.into()),
        };
        let of = |findings: Vec<Finding>| report(Report { findings, dialled_back: Vec::new() }).fine;
        assert!(of(Vec::new()) && of(vec![found(true)]) && !of(vec![found(true), found(false)]));
    }

    #[test]
    fn a_dial_without_a_reason_reached_the_node() {
        let asked = |outcome| doctor::DialBack { peer: "z6Mk".to_owned(), from_internet: true, outcome };
        let told =
            dial_back(asked(Ok(vec![("a".to_owned(), String::new()), ("b".to_owned(), "timed out".to_owned())])));
        let DialBackOutcome::Dials(dials) = told.outcome else { panic!("it was asked") };
        assert_eq!(dials.iter().map(|dial| dial.reached).collect::<Vec<_>>(), [true, false]);
        let silent = dial_back(asked(Err("it left".to_owned()))).outcome;
        assert_eq!(silent, DialBackOutcome::NotAsked("it left".to_owned()));
    }
}
