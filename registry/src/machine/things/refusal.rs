//! Why a Thing is not registered, changed or deleted.

/// Why a Thing is not registered, changed or deleted. Nothing was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThingRefusal {
    /// The id is none that the directory takes.
    #[error("{id:?} is no id of a Thing: it is a URI of at most {max} bytes, without spaces and control characters")]
    Id {
        /// The id, cut.
        id: String,
        /// Bytes that it may have.
        max: usize,
    },
    /// The id is that of an agent, for which only its publisher speaks.
    #[error(
        "{0} is an agent, and only its publisher speaks for it: `althing publish` releases the next version, \
         `althing release yank` or `revoke` takes one back; both are signed with the publisher's key"
    )]
    Agent(String),
    /// The Thing is another writer's.
    #[error("{0} belongs to another writer: only its token, or one with the scope things:admin, changes it")]
    NotYours(String),
    /// There is no such Thing.
    #[error("there is no Thing {0:?} here")]
    None(String),
    /// The Thing is not what the writer believes.
    #[error("{0} was changed meanwhile: read it again, and repeat the change")]
    Changed(String),
    /// It would end before it begins.
    #[error("the registration would be over already: give a later `expires`, or a `ttl` in seconds")]
    Over,
    /// The life that was asked for is none.
    #[error("a `ttl` is a number of seconds from 1 to {max}")]
    Ttl {
        /// The longest.
        max: u64,
    },
    /// A writer has as much as one may have.
    #[error(
        "this writer has {things} Things of {bytes} bytes here, and one may have {things_max} of {bytes_max} bytes: \
         delete some"
    )]
    WriterFull {
        /// Things of the writer.
        things: u64,
        /// Their bytes.
        bytes: u64,
        /// Things that a writer may have.
        things_max: u64,
        /// Bytes that they may have.
        bytes_max: u64,
    },
    /// The directory is full.
    #[error("the directory is full: its operator allows {things_max} Things of {bytes_max} bytes in all")]
    Full {
        /// Things that there may be.
        things_max: u64,
        /// Bytes that they may have.
        bytes_max: u64,
    },
}
