//! WebAssembly agents.
