//! What became of each host that a call could go to, for the span of the call.

use althing_execution::CandidateList;
use althing_protocol::PublicKey;

/// What a call's span says of the hosts that it could go to.
const HOST_CANDIDATES: &str = "althing.host.candidates";
/// A host that is not asked: one before it took the call, or refused it for all.
const NOT_ASKED: &str = "not asked";
/// A host to which nothing is sent: this node's owner denies it.
const DENIED: &str = "denied by the owner of this node";

/// The hosts of an agent, in the order in which they would be asked, each with what became of it.
#[derive(Debug, Default)]
pub(super) struct HostVerdicts(Vec<(PublicKey, &'static str)>);

impl HostVerdicts {
    /// All of them, of which only some may be asked.
    pub fn of(all: &[PublicKey], permitted: &[PublicKey]) -> HostVerdicts {
        let verdict = |host: &PublicKey| (*host, if permitted.contains(host) { NOT_ASKED } else { DENIED });
        HostVerdicts(all.iter().map(verdict).collect())
    }

    /// All of them, of which none was asked yet.
    pub fn open(all: Vec<PublicKey>) -> HostVerdicts {
        HostVerdicts(all.into_iter().map(|host| (host, NOT_ASKED)).collect())
    }

    /// Notes what became of one, which may be none of those that were known.
    pub fn note(&mut self, host: PublicKey, why: &'static str) {
        self.0.retain(|(known, _)| *known != host);
        let asked = self.0.iter().position(|(_, why)| [NOT_ASKED, DENIED].contains(why)).unwrap_or(self.0.len());
        self.0.insert(asked, (host, why));
    }

    /// Says it on the span of the call, which is the current one.
    pub fn record(&self) {
        CandidateList::record(&tracing::Span::current(), HOST_CANDIDATES, || self.told());
    }

    /// As a span says it, those first that were asked; nothing where there was no choice.
    fn told(&self) -> CandidateList {
        let mut list = CandidateList::default();
        if self.0.len() > 1 || self.0.iter().any(|(_, why)| *why == DENIED) {
            self.0.iter().for_each(|(host, why)| list.add(host, None, *why));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    fn host(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    #[test]
    fn of_several_hosts_each_is_told_in_the_order_in_which_they_were_asked() {
        let [one, two, three, four] = [1, 2, 3, 4].map(host);
        let mut verdicts = HostVerdicts::of(&[one, two, three], &[one, two]);
        verdicts.note(two, "redirected the call");
        verdicts.note(four, "answered");
        let told = verdicts.told().text();
        let all = format!(r#"[{{"id":"{two}","why":"redirected the call"}},{{"id":"{four}","why":"answered"}},"#)
            + &format!(r#"{{"id":"{one}","why":"{NOT_ASKED}"}},{{"id":"{three}","why":"{DENIED}"}}]"#);
        assert_eq!(told, all);
    }

    #[test]
    fn where_there_is_no_choice_nothing_is_told() {
        let mut alone = HostVerdicts::of(&[host(1)], &[host(1)]);
        alone.note(host(1), "answered");
        assert!(alone.told().is_empty() && HostVerdicts::default().told().is_empty());
        assert!(!HostVerdicts::of(&[host(1)], &[]).told().is_empty(), "a denial is told");
    }
}
