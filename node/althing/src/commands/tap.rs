//! `althing tap`: the signed messages that pass between this node and others.

use althing_api::{TapBody, TapDirection, TapLine, TapRequest};
use althing_client::Lines;

use crate::args::Tap;
use crate::commands::{Out, moment, one_line, reader_gone, short};
use crate::exit::Failure;
use crate::paths::Paths;

/// Characters of a body that are shown on a line.
const BODY_CHARS_MAX: usize = 160;

/// Prints messages as they pass, until Ctrl-C, or until nobody reads them.
pub async fn run(at: &Paths, tap: &Tap, out: &Out) -> Result<(), Failure> {
    let request = TapRequest { agent: tap.agent.clone(), peer: tap.peer.clone(), protocol: tap.protocol.clone() };
    let mut lines = at.connect().await?.watch("/tap", &request).await?;
    tokio::select! {
        outcome = print(&mut lines, tap.count, out) => outcome,
        _ = tokio::signal::ctrl_c() => Ok(()),
        () = reader_gone() => Ok(()),
    }
}

async fn print(lines: &mut Lines, count: Option<u64>, out: &Out) -> Result<(), Failure> {
    let mut left = count;
    while left != Some(0) {
        let Some(line) = lines.next::<TapLine>().await? else { return Ok(()) };
        if !out.line(&line, shown) {
            return Ok(());
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn shown(line: &TapLine) -> String {
    let message = match line {
        TapLine::Gap(gap) => return format!("({} messages passed too fast to be shown)", gap.missed),
        TapLine::Message(message) => message,
    };
    let arrow = match message.direction {
        TapDirection::In => "<-",
        TapDirection::Out => "->",
    };
    let at = moment(message.at_ms).map(|at| at.format("%H:%M:%S%.3f").to_string()).unwrap_or_default();
    let agent = message.agent.as_deref().and_then(|agent| agent.rsplit(':').next());
    let about: Vec<&str> =
        message.operation.as_deref().into_iter().chain(agent).filter(|word| !word.is_empty()).collect();
    let body = match &message.body {
        TapBody::Text(body) => body.split_whitespace().collect::<Vec<_>>().join(" "),
        TapBody::Bytes { hex } => hex.clone(),
    };
    let body: String = body.chars().take(BODY_CHARS_MAX).collect();
    let label = message.label.map(|label| format!(" ({label})")).unwrap_or_default();
    // What others sent is shown as it came, before anything of it was checked.
    one_line(&format!(
        "{at} {arrow} {} {} {} {} {} B{label}  {body}",
        short(&message.peer),
        message.protocol.trim_start_matches("/althing/"),
        message.kind,
        about.join(" "),
        message.bytes,
    ))
}

#[cfg(test)]
mod tests {
    use althing_api::{TapGap, TapMessage};
    use althing_protocol::Label;

    use super::*;

    #[test]
    fn a_message_is_one_line() {
        let message = TapMessage {
            at_ms: 3_661_250,
            direction: TapDirection::In,
            peer: "did:key:z6Mk".to_owned(),
            protocol: "/althing/call/1".to_owned(),
            kind: "request".to_owned(),
            operation: Some("SendMessage".to_owned()),
            agent: Some("urn:althing:z6Mk:echo".to_owned()),
            principals: Vec::new(),
            deadline_ms: None,
            traceparent: None,
            label: None,
            session: None,
            delegation_bytes: None,
            bytes: 9,
            body: TapBody::Text("{\n  \"a\": 1 }".to_owned()),
        };
        let answer = TapMessage {
            direction: TapDirection::Out,
            kind: "response".to_owned(),
            operation: None,
            agent: None,
            label: Some(Label::UNLABELLED),
            body: TapBody::Bytes { hex: "00ff".to_owned() },
            ..message.clone()
        };
        let line = |message: TapMessage| shown(&TapLine::Message(Box::new(message)));
        let forged = Some("urn:althing:z6Mk:echo\n00 -> z6Mk call/1".to_owned());
        let body = TapBody::Text("\u{202e}\u{1b}[2J".to_owned());
        let told = line(TapMessage { agent: forged, body, ..message.clone() });
        assert!(told.lines().count() == 1 && told.ends_with(r"  \u{202e}\u{1b}[2J"), "{told}");
        assert_eq!(line(message), "01:01:01.250 <- z6Mk call/1 request SendMessage echo 9 B  { \"a\": 1 }");
        assert_eq!(line(answer), "01:01:01.250 -> z6Mk call/1 response  9 B (confidential, not trusted)  00ff");
        assert_eq!(shown(&TapLine::Gap(TapGap { missed: 4 })), "(4 messages passed too fast to be shown)");
    }
}
