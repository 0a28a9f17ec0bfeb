//! Guests that are not hard real-time: they share an engine whose epoch goes on while any of them runs.

use std::sync::{Arc, OnceLock};

use althing_execution::{Loaded, SoftRuntime};
use althing_protocol::Contract;

use crate::hrt::Hard;

/// Between two epochs: how long a guest may keep a thread before others of its class have their turn.
const TICK: std::time::Duration = std::time::Duration::from_millis(10);

/// Runs guests of the soft real-time and delay-tolerant classes. Its engine starts with the first of them.
#[derive(Default)]
pub struct Soft {
    control: OnceLock<Result<Hard, String>>,
}

impl Soft {
    /// Its engine, and the thread that makes its epoch go on; that ends with it.
    fn control(&self) -> Result<&Hard, String> {
        let start = || {
            let control = Hard::new().map_err(|error| error.to_string())?;
            let weak = control.weak();
            let tick = move || {
                while let Some(engine) = weak.upgrade() {
                    engine.increment_epoch();
                    drop(engine);
                    std::thread::park_timeout(TICK);
                }
            };
            let spawned = std::thread::Builder::new().name("wasm-epoch".to_owned()).spawn(tick);
            spawned.map_err(|error| error.to_string())?;
            Ok(control)
        };
        self.control.get_or_init(start).as_ref().map_err(Clone::clone)
    }
}

impl SoftRuntime for Soft {
    fn load(&self, module: &[u8], contract: &Contract) -> Result<Loaded, String> {
        let template = self.control()?.template(module, contract.memory_bytes());
        template.map(Loaded::Control).map_err(|error| error.to_string())
    }
}

/// For executors: each has an engine of its own.
///
/// # Errors
/// When this machine cannot run WebAssembly.
pub fn make_hard() -> Result<Arc<dyn althing_execution::kernel::HardRuntime>, String> {
    Hard::new().map(|hard| Arc::new(hard) as Arc<_>).map_err(|error| error.to_string())
}
