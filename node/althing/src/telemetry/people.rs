//! Lines of the log for whoever watches the terminal of a node: what happened, in words. Where it happened in the program is shown
//! where `ALTHING_LOG`, or `log` of the configuration, asks for more than warnings.

use std::fmt::{self, Debug};

use althing_operations::doctor::short;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The message of an event that says that something of a peer was refused.
const REFUSED: &str = "refused";

/// A line for people.
pub struct PeopleLines;

impl<S, N> FormatEvent<S, N> for PeopleLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut told = Told::default();
        event.record(&mut told);
        let mut now = String::new();
        // RFC 3339: the time of day follows the date.
        SystemTime.format_time(&mut Writer::new(&mut now))?;
        let time = now.get(11..19).unwrap_or_default();
        writeln!(to, "{time} {}", told.words(*event.metadata().level()))
    }
}

/// What an event tells.
#[derive(Debug, Default)]
struct Told {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Told {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field.name(), format!("{value:?}"));
    }
}

impl Told {
    fn add(&mut self, name: &'static str, value: String) {
        // What peers and programs said may be in it.
        let shown = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if name == "message" { self.message = shown } else { self.fields.push((name, shown)) }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn words(&self, level: Level) -> String {
        if let (REFUSED, Some(peer), Some(reason)) = (self.message.as_str(), self.field("peer"), self.field("reason")) {
            let reason = reason.strip_prefix("object refused: ").unwrap_or(reason);
            return format!("{} was refused: {reason}; `althing doctor` there says what to do", short(peer));
        }
        let kind = match level {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            _ => "",
        };
        let fields: Vec<String> = self.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join("; ")) };
        format!("{kind}{}{fields}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_watches_a_node_reads_words_and_no_places_in_the_program() {
        let kept = Kept::default();
        let writer = kept.clone();
        let layer = tracing_subscriber::fmt::layer().event_format(PeopleLines).with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let peer = "did:key:z6MkabcdefghijklmnopqrstuvwxyZ";
            let reason = "object refused: the clock of the machine that signed it is 1 day ahead";
            tracing::warn!(%peer, protocol = "/althing/call/1", %reason, suppressed = 0, "refused");
            tracing::warn!(
                agent = "weather",
                restarts = 2,
                why = "it\u{1b}[1m ended",
                "an agent's program is restarted"
            );
            tracing::info!("ready");
        });
        let said = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
        let lines: Vec<&str> = said.lines().map(|line| line.get(9..).expect("a time")).collect();
        let expected = [
            "z6Mkab…uvwxyZ was refused: the clock of the machine that signed it is 1 day ahead; `althing doctor` there says what \
             to do",
            "warning: an agent's program is restarted (agent: weather; restarts: 2; why: it [1m ended)",
            "ready",
        ];
        assert_eq!(lines, expected);
    }
}
