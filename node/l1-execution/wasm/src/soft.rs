//! Guests that are not hard real-time: they share an engine whose epoch advances while any of them runs.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use althing_execution::{Loaded, SoftRuntime, SystemCalls};
use althing_protocol::Contract;

use wasmtime::EngineWeak;

use crate::compiler::Compiler;
use crate::component::Components;
use crate::hrt::Hard;

/// The epoch of control loops, whose turns are short.
const TICK: Duration = Duration::from_millis(10);

/// Runs guests of the soft real-time and delay-tolerant classes. Its engines start with the first guest that needs them.
pub struct Soft {
    compiler: Compiler,
    control: OnceLock<Result<Hard, String>>,
    components: OnceLock<Result<Components, String>>,
}

/// Advances an engine's epoch, on a thread that ends with it.
fn tick(engine: EngineWeak) -> Result<(), String> {
    let ticking = move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::park_timeout(TICK);
        }
    };
    let spawned = std::thread::Builder::new().name("wasm-epoch".to_owned()).spawn(ticking);
    spawned.map(drop).map_err(|error| error.to_string())
}

impl Default for Soft {
    fn default() -> Soft {
        Soft::compiled_by(Compiler::in_process())
    }
}

impl Soft {
    /// Compiles modules with that compiler.
    #[must_use]
    pub fn compiled_by(compiler: Compiler) -> Soft {
        Soft { compiler, control: OnceLock::new(), components: OnceLock::new() }
    }

    fn control(&self) -> Result<&Hard, String> {
        let start = || {
            let control = Hard::compiled_by(self.compiler.clone()).map_err(|error| error.to_string())?;
            tick(control.weak())?;
            Ok(control)
        };
        self.control.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    fn components(&self) -> Result<&Components, String> {
        self.components.get_or_init(|| Components::new(self.compiler.clone())).as_ref().map_err(Clone::clone)
    }
}

/// The preamble of a component: it has layer 1 where a module has 0 (component model, Binary.md).
fn is_component(code: &[u8]) -> bool {
    code.starts_with(b"\0asm") && code.get(6..8) == Some(&[1, 0])
}

impl SoftRuntime for Soft {
    fn load(&self, module: &[u8], contract: &Contract, calls: &SystemCalls) -> Result<Loaded, String> {
        // For text the kind is known only after parsing.
        let module = &*self.compiler.binary(module).map_err(|error| error.to_string())?;
        if is_component(module) {
            return self.components()?.agent(module, contract, calls).map(Loaded::Agent);
        }
        let template = self.control()?.template(module, contract.memory_bytes());
        template.map(Loaded::Control).map_err(|error| error.to_string())
    }
}

/// A runtime for an executor: each has its own engine.
///
/// # Errors
/// When this machine cannot run WebAssembly.
pub fn make_hard() -> Result<Arc<dyn althing_execution::kernel::HardRuntime>, String> {
    make_hard_compiled_by(Compiler::in_process())
}

/// The same, with that compiler.
///
/// # Errors
/// When this machine cannot run WebAssembly.
pub fn make_hard_compiled_by(compiler: Compiler) -> Result<Arc<dyn althing_execution::kernel::HardRuntime>, String> {
    Hard::compiled_by(compiler).map(|hard| Arc::new(hard) as Arc<_>).map_err(|error| error.to_string())
}
