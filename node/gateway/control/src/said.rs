//! What an entry of a registry's log says, for people.

use althing_operations::registries::Said;

/// What an entry says, whom it is about, and more of it, for people.
pub fn words(said: &Said) -> (&'static str, String, String) {
    match said {
        Said::Release(agent, version, by) if *by == agent.publisher() => {
            ("release", agent.to_string(), version.to_string())
        }
        Said::Release(agent, version, by) => ("approval", agent.to_string(), format!("{version} by {by}")),
        Said::Mark(agent, version, standing) => ("mark", agent.to_string(), format!("{version} is {standing}")),
        Said::Attestation(agent, name, by) => {
            let of = agent.as_ref().map_or_else(String::new, ToString::to_string);
            ("attestation", of, format!("{name} by {by}"))
        }
        Said::Roster(organisation) => ("roster", organisation.to_string(), String::new()),
        Said::Domain(finding) => {
            let found = if finding.proven { "names" } else { "does not name" };
            let by = finding.means.name();
            ("domain", finding.domain.to_string(), format!("{found} {} ({by})", finding.organisation))
        }
        Said::Quarantine(agent, version, reason) => {
            let what = version.as_ref().map_or_else(|| "all versions".to_owned(), ToString::to_string);
            let said = match reason {
                Some(reason) => format!("{what}: {reason}"),
                None => format!("{what}: shown again"),
            };
            ("quarantine", agent.to_string(), said)
        }
        Said::Other | Said::Unseen => ("entry", String::new(), String::new()),
    }
}
