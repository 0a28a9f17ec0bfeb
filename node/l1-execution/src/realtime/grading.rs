//! Grades this machine again and again, since its load changes.

use std::io;
use std::time::Duration;

use althing_protocol::contract::Grade;

use super::probe::{HardwareProfile, PROBE_SAMPLES, probe};
use super::threads::RtPriorities;

/// The time between two probes of the machine.
const PROBE_EVERY: Duration = Duration::from_secs(60);
/// Wake-ups of a later probe.
const REPROBE_SAMPLES: usize = 200;

/// Probes on a thread of its own, at once and every minute, until `take` answers that nobody needs the result any more.
///
/// # Errors
/// When no thread can be started.
pub fn keep_probing(
    priorities: RtPriorities,
    core: usize,
    take: impl Fn(HardwareProfile) -> bool + Send + 'static,
) -> io::Result<()> {
    let body = move || {
        let mut samples = PROBE_SAMPLES;
        let mut worst = WorstGrade::default();
        while let Ok(hardware) = probe(priorities, core, samples) {
            if !take(hardware) {
                return;
            }
            worst.note(hardware.grade);
            samples = REPROBE_SAMPLES;
            std::thread::park_timeout(PROBE_EVERY);
        }
    };
    std::thread::Builder::new().name("probes".to_owned()).spawn(body).map(drop)
}

/// The worst grade that was measured. A grade that flips under load is logged once.
#[derive(Debug, Default)]
struct WorstGrade(Option<Grade>);

impl WorstGrade {
    /// Notes the newest grade; logs it when it is worse than all before.
    fn note(&mut self, grade: Grade) {
        let fell = self.0.is_some_and(|worst| grade > worst);
        if fell {
            tracing::warn!(%grade, "this machine has a worse grade than before: it wakes threads later under load");
        }
        if fell || self.0.is_none() {
            self.0 = Some(grade);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

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

    #[test]
    fn a_grade_that_flips_under_load_is_told_of_once() {
        let log = Log::default();
        let to = log.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || to.clone()).finish();
        let told = |grades: &[Grade]| {
            let mut worst = WorstGrade::default();
            tracing::subscriber::with_default(subscriber, || grades.iter().for_each(|grade| worst.note(*grade)));
            let bytes = log.0.lock().expect("a log").clone();
            String::from_utf8(bytes).expect("text").lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let lines = told(&[Grade::A, Grade::B, Grade::A, Grade::B, Grade::B, Grade::A, Grade::C, Grade::B, Grade::C]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("WARN") && lines[0].contains("grade=B"), "{lines:?}");
        assert!(lines[1].contains("grade=C"), "{lines:?}");
    }
}
