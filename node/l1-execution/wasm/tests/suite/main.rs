//! WebAssembly agents: how they are compiled and run, and what they cannot do.

mod compile;
mod hostile;
mod hrt;
mod kept;
mod resumed;
mod turns;
