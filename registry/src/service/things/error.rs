//! Why a Thing is not written or shown.

use althing_log::LogError;
use althing_store::ReadError;
use althing_td::Report;

use crate::machine::things::ThingRefusal;
use crate::service::RequestError;
use crate::service::group::ChangeError;

/// Why a Thing is not written or shown.
#[derive(Debug, thiserror::Error)]
pub enum ThingError {
    /// The description is not valid.
    #[error("not a valid Thing Description:\n{0}")]
    Invalid(Report),
    /// A member that the directory reads is there twice.
    #[error("`id` and `registration` may be there once: {0}")]
    Twice(String),
    /// What is said of the registration cannot be.
    #[error("{0}")]
    Registration(String),
    /// The description that was put at an id has another one.
    #[error("the description has the id {body:?}, and the address {path:?}: both must be the same")]
    OtherId {
        /// The id in the address.
        path: String,
        /// The id in the description.
        body: String,
    },
    /// An id was posted.
    #[error("the description has the id {0:?}: PUT it to /things/{{id}}; POST is for descriptions without an id")]
    HasId(String),
    /// The patch is none.
    #[error("not a merge patch (RFC 7396): {0}")]
    Patch(String),
    /// It was changed again and again meanwhile.
    #[error("{0} is being changed by others: try again")]
    Contended(String),
    /// The registry takes no Things.
    #[error("this registry takes no Things, only releases of agents")]
    NoDirectory,
    /// The directory does not accept it.
    #[error(transparent)]
    Refused(#[from] ThingRefusal),
    /// What every request may fail with.
    #[error(transparent)]
    Request(#[from] RequestError),
}

impl From<ChangeError> for ThingError {
    fn from(error: ChangeError) -> ThingError {
        match error {
            ChangeError::Refused(refusal) => refusal.into(),
            ChangeError::Request(error) => error.into(),
        }
    }
}

macro_rules! of_requests {
    ($($error:ty),*) => {
        $(impl From<$error> for ThingError {
            fn from(error: $error) -> ThingError {
                ThingError::Request(error.into())
            }
        })*
    };
}

of_requests!(LogError, ReadError);
