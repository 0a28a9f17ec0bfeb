//! `althing release show` and `althing release attest`.

use althing_api::AttestRequest;
use serde_json::Value;

use crate::args::{AttestArgs, ShowArgs};
use crate::commands::agent::escape;
use crate::commands::{Out, rows, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Signs what the owner found of a release.
pub async fn attest(at: &Paths, args: &AttestArgs, out: &Out) -> Result<(), Failure> {
    let AttestArgs { release, claim, value, days, digest, registry } = args.clone();
    let request = AttestRequest { release, claim, finding: value, days, digest, registry };
    let attested = at.connect().await?.post("/releases/attest", &request).await?;
    out.show(&attested, |attested| {
        let what = format!("{} {}", text(attested, "agent"), text(attested, "version"));
        let said = match &attested["finding"] {
            Value::Null => format!("you attest {} of {what} no more", text(attested, "name")),
            finding => format!("you attest {} of {what}: {finding}", text(attested, "name")),
        };
        format!("{said}\ncontent   sha256 {}", text(attested, "content"))
    });
    Ok(())
}

/// Shows a release.
pub async fn show(at: &Paths, args: &ShowArgs, out: &Out) -> Result<(), Failure> {
    let registry = args.registry.as_ref().map_or_else(String::new, |name| format!("&registry={}", escape(name)));
    let path = format!("/releases/show?release={}{registry}", escape(&args.release));
    let shown = at.connect().await?.get(&path).await?;
    out.show(&shown, described);
    Ok(())
}

fn described(shown: &Value) -> String {
    let standing = match text(shown, "reason") {
        reason if reason.is_empty() => text(shown, "standing"),
        reason => format!("{}: {}", text(shown, "standing"), reason.split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    let runs = match shown["bundleBytes"].as_u64() {
        Some(bytes) if shown["isWorkflow"] == true => format!("a workflow of {bytes} bytes, which can be installed"),
        Some(bytes) => format!("an agent of {bytes} bytes, which can be installed"),
        None => "a Thing that runs elsewhere; there is nothing to install".to_owned(),
    };
    let attested = match lines(shown) {
        none if none.is_empty() => "attested  nothing is".to_owned(),
        lines => lines.trim_end().to_owned(),
    };
    let form = |form: &Value| format!("form      {}  {}\n", text(form, "of"), text(form, "href"));
    let forms: String = rows(shown, "forms").iter().map(form).collect();
    format!(
        "release   {} {}, {standing}\n{}since     {} in {}\nis        {runs}\ncontent   sha256 {}\n{forms}{attested}",
        text(shown, "agent"),
        text(shown, "version"),
        careful(shown),
        time(&shown["acceptedMs"]),
        text(shown, "registry"),
        text(shown, "content"),
    )
}

/// Agents that are easily taken for one another, in an answer; a line, or nothing.
pub fn careful(answer: &Value) -> String {
    let twins: Vec<&str> = rows(answer, "twins").iter().filter_map(Value::as_str).collect();
    resemblance(&twins)
}

/// Those whose names look like that of what is shown; a line, or nothing.
pub fn resemblance(twins: &[&str]) -> String {
    if twins.is_empty() {
        return String::new();
    }
    format!("CAREFUL   its name looks like those of others, who were here before: {}\n", twins.join(" "))
}

/// The attestations in an answer, a line each.
pub fn lines(answer: &Value) -> String {
    let line = |row: &Value| {
        let of = row["version"].as_str().map_or_else(|| "all versions".to_owned(), str::to_owned);
        format!(
            "attested  {} of {of}: {}, by {} at {}\n",
            text(row, "name"),
            row["finding"],
            text(row, "by"),
            time(&row["acceptedMs"])
        )
    };
    rows(answer, "attested").iter().map(line).collect()
}
