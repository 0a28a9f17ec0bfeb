//! `althing release show` and `althing release attest`.

use althing_api::{AttestRequest, Attestation, AttestationStatement, ReleaseDetails, ThingForm};

use crate::args::{AttestArgs, ShowArgs};
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, one_line};
use crate::exit::Failure;
use crate::paths::Paths;

/// Signs what the owner found of a release.
pub async fn attest(at: &Paths, args: &AttestArgs, out: &Out) -> Result<(), Failure> {
    let AttestArgs { release, claim, value, days, digest, registry } = args.clone();
    let request = AttestRequest { release, claim, finding: value, days, digest, registry };
    let attested: AttestationStatement = at.connect().await?.ask("/releases/attest", &request).await?;
    out.show(&attested, |AttestationStatement { agent, version, name, finding, content, .. }| {
        let said = if finding.is_null() {
            format!("you attest {name} of {agent} {version} no more")
        } else {
            format!("you attest {name} of {agent} {version}: {finding}")
        };
        format!("{said}\ncontent   sha256 {}", content.as_deref().unwrap_or_default())
    });
    Ok(())
}

/// Shows a release.
pub async fn show(at: &Paths, args: &ShowArgs, out: &Out) -> Result<(), Failure> {
    let registry = args.registry.as_ref().map_or_else(String::new, |name| format!("&registry={}", escape(name)));
    let path = format!("/releases/show?release={}{registry}", escape(&args.release));
    let shown: ReleaseDetails = at.connect().await?.read(&path).await?;
    out.show(&shown, described);
    Ok(())
}

fn described(shown: &ReleaseDetails) -> String {
    let runs = match shown.bundle_bytes {
        Some(bytes) if shown.is_workflow => format!("a workflow of {bytes} bytes, which can be installed"),
        Some(bytes) => format!("an agent of {bytes} bytes, which can be installed"),
        None => "a Thing that runs elsewhere; there is nothing to install".to_owned(),
    };
    let attested = match lines(&shown.attested) {
        none if none.is_empty() => "attested  nothing is".to_owned(),
        lines => lines.trim_end().to_owned(),
    };
    let form = |form: &ThingForm| format!("{}\n", one_line(&format!("form      {}  {}", form.of, address(form))));
    let forms: String = shown.forms.iter().map(form).collect();
    format!(
        "release   {} {}, {}\n{}since     {} in {}\nis        {runs}\ncontent   sha256 {}\n{forms}{attested}",
        shown.agent,
        shown.version,
        standing(&shown.standing, shown.reason.as_deref()),
        careful(&shown.twins),
        date_time(shown.accepted_ms),
        shown.registry,
        shown.content,
    )
}

/// Where a form leads, as its publisher wrote it.
fn address(form: &ThingForm) -> String {
    match form.href.as_str() {
        Some(text) => text.to_owned(),
        None if form.href.is_null() => String::new(),
        None => form.href.to_string(),
    }
}

/// The standing of a release, with what its publisher says of it on one line.
pub fn standing(standing: &str, reason: Option<&str>) -> String {
    match reason {
        None | Some("") => standing.to_owned(),
        Some(reason) => format!("{standing}: {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// Agents that are easily taken for the one that is shown; a line, or nothing.
pub fn careful(twins: &[String]) -> String {
    resemblance(&twins.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Those whose names look like that of what is shown; a line, or nothing.
pub fn resemblance(twins: &[&str]) -> String {
    if twins.is_empty() {
        return String::new();
    }
    format!("CAREFUL   its name looks like those of others, who were here before: {}\n", one_line(&twins.join(" ")))
}

/// What was found of a release, a line each.
pub fn lines(attested: &[Attestation]) -> String {
    let line = |row: &Attestation| {
        let of = row.version.as_deref().unwrap_or("all versions");
        let (name, finding, by) = (&row.name, &row.finding, &row.by);
        let said = format!("attested  {name} of {of}: {finding}, by {by} at {}", date_time(row.accepted_ms));
        format!("{}\n", one_line(&said))
    };
    attested.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_of_a_release_is_one_line_each() {
        let one = Attestation {
            name: "audit\nattested  audit".to_owned(),
            by: "urn:a".to_owned(),
            version: Some("1.0.0".to_owned()),
            finding: "good\u{202e}".into(),
            accepted_ms: 0,
            until_ms: 1,
        };
        let told = lines(&[one.clone(), one]);
        let line = r#"attested  audit\u{a}attested  audit of 1.0.0: "good\u{202e}", by urn:a at 1970-01-01T00:00:00Z"#;
        assert_eq!(told.lines().collect::<Vec<_>>(), [line, line]);
        assert_eq!(resemblance(&["urn:b\nis        fine"]).lines().count(), 1);
    }
}
