//! Agents in Rust as WebAssembly components: implement [`Agent`], and export it with [`agent!`].
//!
//! ```
//! use althing_guest::{Agent, Reply, agent, say};
//!
//! #[derive(Default)]
//! struct Parrot;
//!
//! impl Agent for Parrot {
//!     fn message(&mut self, text: &str) -> Result<Reply, String> {
//!         say(text);
//!         Ok(Reply::Done(String::new()))
//!     }
//! }
//!
//! agent!(Parrot);
//! # fn main() {}
//! ```
//!
//! Build it with `cargo build --release --target wasm32-wasip2`, in a crate whose `crate-type` is `cdylib`. Its contract says
//! what an agent may do beyond answering; there is no other way out.

#[doc(hidden)]
pub mod bindings {
    #![allow(unsafe_code, clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "it is generated")]
    wit_bindgen::generate!({
        path: "../wasm/wit",
        world: "agent",
        pub_export_macro: true,
        export_macro_name: "export",
        default_bindings_module: "althing_guest::bindings",
    });
}

pub use bindings::althing::agent::kernel::{Said, checkpoint, invoke_tool, log, say, send};
pub use bindings::althing::agent::memory;
pub use bindings::althing::agent::turns::Reply;

/// An agent. Each turn has its own instance; state between turns goes through [`Agent::checkpoint`].
///
/// A turn whose node ends goes on when the node is up again: it runs from its beginning, with the same randomness and the same
/// time, and its calls are answered with what they brought the first time. A long one calls [`checkpoint`](fn@checkpoint) now
/// and then: it goes on from the state that was saved last.
pub trait Agent: Default {
    /// One message of a task.
    ///
    /// # Errors
    /// Why the task failed, for the caller.
    fn message(&mut self, text: &str) -> Result<Reply, String>;

    /// The state for the next turn of the task, at most 45 KiB; empty by default.
    fn checkpoint(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Restores the state of an earlier turn of the task; in a turn that goes on after its node ended, what it saved last with
    /// [`checkpoint`](fn@checkpoint). The message that follows is the same one: what it did is to be skipped.
    fn restore(&mut self, state: &[u8]) {
        let _ = state;
    }
}

/// Exports an [`Agent`] from the component; once in a crate.
#[macro_export]
macro_rules! agent {
    ($agent:ty) => {
        ::std::thread_local! {
            static AGENT: ::std::cell::RefCell<$agent> = ::std::cell::RefCell::default();
        }

        struct Exported;

        impl $crate::bindings::Guest for Exported {
            fn on_message(text: ::std::string::String) -> ::std::result::Result<$crate::Reply, ::std::string::String> {
                AGENT.with_borrow_mut(|agent| $crate::Agent::message(agent, &text))
            }

            fn checkpoint() -> ::std::vec::Vec<u8> {
                AGENT.with_borrow(|agent| $crate::Agent::checkpoint(agent))
            }

            fn restore(state: ::std::vec::Vec<u8>) {
                AGENT.with_borrow_mut(|agent| $crate::Agent::restore(agent, &state))
            }
        }

        $crate::bindings::export!(Exported with_types_in $crate::bindings);
    };
}
