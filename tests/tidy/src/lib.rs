//! Holds the architecture: `cargo test -p althing-tidy` checks who imports whom, sizes, how far private fields reach,
//! circles of modules, names of types, where agents' names are resolved, which ways lead to effects, texts that name commands,
//! comments, the citations of the protocol's rules, and that every ban of clippy.toml fires. It reads the tree as text and knows
//! no other crate. What may only shrink is in `lists`.
