//! Real processes that need the machine to themselves: one test at a time.

mod docs;
mod hostile_frames;
mod hostile_http;
mod overhead;
mod soak;
mod storms;
