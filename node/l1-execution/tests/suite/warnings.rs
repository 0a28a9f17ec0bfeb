//! What the log says of turns: a warning is for what somebody asked for and did not get.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::{Message, Part, Role};
use althing_execution::agent::{Agent, Parameters};
use althing_execution::process::ProcessConfig;
use althing_execution::{AgentError, Builtins, Host, Output, Turn};
use althing_td::AgentFile;
use futures::future::BoxFuture;

/// Says something after 300 ms.
struct Slow;

impl Agent for Slow {
    fn turn<'a>(&'a self, _: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            out.text("a", "here").await
        })
    }
}

/// What is logged while it is the default.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a log").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_ansi(false);
        let guard = tracing::subscriber::set_default(subscriber.with_writer(move || to.clone()).finish());
        (log, guard)
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().expect("a log").clone();
        String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_within_its_contracts_aim_or_without_one_warns_of_nothing() {
    let cases = [("", 0, 1), ("ttft_ms: 1000", 0, 0), ("ttft_ms: 250", 1, 1), ("ttft_ms: 100", 1, 1)];
    for (aim, warnings, late) in cases {
        let (log, _guard) = Log::begin();
        let mut builtins = Builtins::new();
        builtins.insert("slow", |_, _, _| Ok(Arc::new(Slow)));
        let host = Host::new(builtins, ProcessConfig::default());
        let yaml = format!(
            "name: slow\ndescription: takes its time\nskills: [{{ id: x.y, name: X, description: x }}]\nruntime: {{ native: \
             {{ builtin: slow }} }}\ncontract: {{ class: {{ latency: srt, {aim} }} }}\n"
        );
        host.start(&AgentFile::parse(&yaml).expect("an agent file"), Path::new("/")).expect("it starts");
        let (out, mut made) = Output::channel();
        let turn = Turn {
            task_id: "t".to_owned(),
            context_id: "c".to_owned(),
            message: Message::new(Role::User, vec![Part::text("hello")]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters::default(),
        };
        host.turn("slow", turn, out).await.expect("a turn");
        assert!(made.recv().await.is_some());
        assert_eq!(log.lines().len(), warnings, "{aim:?}: {:?}", log.lines());
        assert_eq!(host.status()[0].turns.late, late, "{aim:?}: those who look see it");
    }
}
