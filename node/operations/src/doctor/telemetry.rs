//! What the doctor says of the collector of telemetry.

use super::finding::{Finding, fine, wrong};
use crate::collector::CollectorTrouble;

/// The port at which collectors take gRPC.
const GRPC_PORT: &str = ":4317";

/// What to do about it.
fn remedy(address: &str, trouble: CollectorTrouble) -> &'static str {
    match trouble {
        CollectorTrouble::Unreachable | CollectorTrouble::Silent if is_grpc(address) => {
            "most collectors take gRPC at port 4317, and this node speaks OTLP over HTTP only: write the port of that, 4318, into \
             `[telemetry] otlp_endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT"
        }
        CollectorTrouble::Status(404 | 405) => {
            "`[telemetry] otlp_endpoint` is the collector's address without the path of a signal, such as \
             http://127.0.0.1:4318, and takes OTLP over HTTP, not gRPC (port 4317)"
        }
        CollectorTrouble::Status(401 | 403) => {
            "give the node the header that the collector wants: OTEL_EXPORTER_OTLP_HEADERS"
        }
        CollectorTrouble::Page => {
            "a web server is there: write the address at which the collector takes OTLP over HTTP, such as \
             http://127.0.0.1:4318, into `[telemetry] otlp_endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT"
        }
        CollectorTrouble::Rejected(_) => "the collector's log says why; what it refused is lost",
        CollectorTrouble::Status(_) => "the collector's log says why; the node tries again by itself",
        CollectorTrouble::Unreachable | CollectorTrouble::Silent => {
            "check that the collector runs, and `[telemetry] otlp_endpoint` or OTEL_EXPORTER_OTLP_ENDPOINT; the node tries \
             again by itself, and what it could not send is lost"
        }
    }
}

/// Whether an address has the port of gRPC.
fn is_grpc(address: &str) -> bool {
    let authority = address.split('/').nth(2).unwrap_or_default();
    authority.ends_with(GRPC_PORT)
}

/// Judges a collector by its troubles.
pub(super) fn judge(troubles: &[(String, CollectorTrouble)]) -> Vec<Finding> {
    if troubles.is_empty() {
        return vec![fine("L7", "the collector takes what is measured")];
    }
    let judged = |(address, trouble): &(String, CollectorTrouble)| {
        let taken = if matches!(trouble, CollectorTrouble::Rejected(_)) { "not all" } else { "nothing" };
        wrong("L7", format!("the collector at {address} takes {taken}: {trouble}"), remedy(address, *trouble))
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
            (CollectorTrouble::Page, "takes nothing: it answers with a web page", "http://127.0.0.1:4318"),
            (CollectorTrouble::Rejected(3), "takes not all: it refused 3", "the collector's log"),
        ] {
            let found = judge(&[("http://c/v1/traces".to_owned(), trouble)]);
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert!(!one.fine && one.what.contains(what) && one.remedy.contains(remedy), "{one:?}");
        }
        for trouble in [CollectorTrouble::Unreachable, CollectorTrouble::Silent] {
            let found = judge(&[("http://c:4317/v1/traces".to_owned(), trouble)]);
            assert!(found.iter().all(|one| one.remedy.contains("gRPC") && one.remedy.contains("4318")), "{found:?}");
        }
    }
}
