//! Any text as a JSONPath query of a registry: it is taken or refused before the time limit of the run (`-timeout`), and within the
//! stack of a thread that reads one.
#![no_main]

use althing_registry::service::check_query;
use libfuzzer_sys::fuzz_target;

/// That of the threads that searches run on.
const STACK: usize = 2 << 20;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    std::thread::scope(|scope| {
        let read = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || drop(check_query(text)));
        read.expect("a thread").join().expect("no panic");
    });
});
