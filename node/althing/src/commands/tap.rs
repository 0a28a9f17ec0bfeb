//! `althing tap`: the signed messages that pass between this node and others.

use althing_client::Lines;
use althing_control::TapRequest;
use serde_json::Value;

use crate::args::Tap;
use crate::commands::{Out, plain, print_line, short, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Characters of a body that are shown on a line.
const BODY_CHARS_MAX: usize = 160;

/// Prints messages as they pass, until Ctrl-C.
pub async fn run(at: &Paths, tap: &Tap, out: &Out) -> Result<(), Failure> {
    let request = TapRequest { agent: tap.agent.clone(), peer: tap.peer.clone(), protocol: tap.protocol.clone() };
    let mut lines = at.connect().await?.lines("/tap", &request).await?;
    tokio::select! {
        outcome = print(&mut lines, tap.count, out) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn print(lines: &mut Lines, count: Option<u64>, out: &Out) -> Result<(), Failure> {
    let mut left = count;
    while left != Some(0) {
        let Some(message) = lines.next::<Value>().await? else { return Ok(()) };
        print_line(&if out.json { message.to_string() } else { plain(&shown(&message), &std::io::stdout()) });
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn shown(message: &Value) -> String {
    if let Some(missed) = message["missed"].as_u64() {
        return format!("({missed} messages passed too fast to be shown)");
    }
    let arrow = if message["direction"] == "in" { "<-" } else { "->" };
    let at = message["atMs"].as_i64().and_then(chrono::DateTime::from_timestamp_millis);
    let at = at.map(|at| at.format("%H:%M:%S%.3f").to_string()).unwrap_or_default();
    let agent = text(message, "agent");
    let about: Vec<String> = [text(message, "operation"), agent.rsplit(':').next().unwrap_or_default().to_owned()]
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    let body = match (&message["body"], message["body"]["hex"].as_str()) {
        (Value::String(body), _) => body.split_whitespace().collect::<Vec<_>>().join(" "),
        (_, Some(hex)) => hex.to_owned(),
        _ => String::new(),
    };
    let body: String = body.chars().take(BODY_CHARS_MAX).collect();
    format!(
        "{at} {arrow} {} {} {} {} {} B  {body}",
        short(&text(message, "peer")),
        text(message, "protocol").trim_start_matches("/althing/"),
        text(message, "kind"),
        about.join(" "),
        message["bytes"],
    )
}
