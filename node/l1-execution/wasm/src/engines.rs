//! The configurations of engines: those that compile and those that run must have the same, or an artifact is refused.

use wasmtime::Config;

/// The stack of a module's guest, bytes.
const MODULE_STACK_BYTES: usize = 128 * 1024;
/// The additional stack of the host's functions beneath a module.
const MODULE_STACK_SPARE_BYTES: usize = 128 * 1024;
/// The stack of a component's guest, bytes: interpreters need some.
const COMPONENT_STACK_BYTES: usize = 2 * 1024 * 1024;
/// The additional stack of the host's functions beneath a component.
const COMPONENT_STACK_SPARE_BYTES: usize = 512 * 1024;

/// That of hard real-time guests.
pub(crate) fn of_modules() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // Traps must be fast, and copy-on-write causes page faults within jobs.
    config.wasm_backtrace_max_frames(None).memory_init_cow(false);
    config.max_wasm_stack(MODULE_STACK_BYTES).async_stack_size(MODULE_STACK_BYTES + MODULE_STACK_SPARE_BYTES);
    config
}

/// That of components.
pub(crate) fn of_components() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true).wasm_component_model(true).wasm_backtrace_max_frames(None);
    config.max_wasm_stack(COMPONENT_STACK_BYTES).async_stack_size(COMPONENT_STACK_BYTES + COMPONENT_STACK_SPARE_BYTES);
    config
}
