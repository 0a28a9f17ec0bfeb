//! What the doctor says of the collector of telemetry.

use super::{Finding, fine, wrong};
use crate::collector::CollectorTrouble;

/// What to do about it.
fn remedy(trouble: CollectorTrouble) -> &'static str {
    match trouble {
        CollectorTrouble::Status(404 | 405) => {
            "`[telemetry] otlp_endpoint` is the collector's address without the path of a signal, such as \
             http://127.0.0.1:4318, and takes OTLP over HTTP, not gRPC (port 4317)"
        }
        CollectorTrouble::Status(401 | 403) => {
            "give the node the header that the collector wants: OTEL_EXPORTER_OTLP_HEADERS"
        }
        CollectorTrouble::Status(_) => "the collector's log says why; the node tries again by itself",
        CollectorTrouble::Unreachable | CollectorTrouble::Silent => {
            "check that the collector runs, and `[telemetry] otlp_endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT; the node tries \
             again by itself, and what it could not send is lost"
        }
    }
}

/// Judges a collector by its troubles.
pub(super) fn judge(troubles: &[(String, CollectorTrouble)]) -> Vec<Finding> {
    if troubles.is_empty() {
        return vec![fine("L7", "the collector takes what is measured")];
    }
    let judged = |(address, trouble): &(String, CollectorTrouble)| {
        wrong("L7", format!("the collector at {address} takes nothing: {trouble}"), remedy(*trouble))
    };
    troubles.iter().map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_takes_nothing_is_a_finding_with_what_to_do() {
        assert!(judge(&[]).iter().all(|finding| finding.fine));
        for (trouble, what, remedy) in [
            (CollectorTrouble::Status(404), "status 404", "without the path of a signal"),
            (CollectorTrouble::Status(401), "status 401", "OTEL_EXPORTER_OTLP_HEADERS"),
            (CollectorTrouble::Status(503), "status 503", "the collector's log"),
            (CollectorTrouble::Unreachable, "cannot be reached", "check that the collector runs"),
            (CollectorTrouble::Silent, "not answer in time", "check that the collector runs"),
        ] {
            let found = judge(&[("http://c/v1/traces".to_owned(), trouble)]);
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert!(!one.fine && one.what.contains(what) && one.remedy.contains(remedy), "{one:?}");
        }
    }
}
