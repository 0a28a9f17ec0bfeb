//! Why a Thing is not written or shown.

use althing_log::LogError;
use althing_store::ReadError;
use althing_td::{Finding, Report};

use crate::machine::things::ThingRefusal;
use crate::service::RequestError;
use crate::service::write_batch::ChangeError;

/// Why a Thing is not written or shown.
#[derive(Debug, thiserror::Error)]
pub enum ThingError {
    /// The description is not valid.
    #[error("not a valid Thing Description:\n{0}")]
    Invalid(Report),
    /// What is said of the registration cannot be.
    #[error("{why}")]
    Registration {
        /// JSON pointer of the member.
        field: &'static str,
        /// What it has to be.
        why: &'static str,
    },
    /// The description that was put at an id has none.
    #[error("the description has no id: write \"id\": {0:?} into it, or POST it to /things without one")]
    NoId(String),
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
    #[error("not a merge patch (RFC 7396): it is a JSON object with the members that change")]
    Patch,
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

/// What is wrong with which member, as problems tell it (WoT Discovery, *Validation*): JSON pointers of members, and what the
/// specification calls the description as a whole.
pub(crate) struct Fault {
    /// Which member.
    pub field: String,
    /// What is wrong with it, and what to do.
    pub description: String,
}

/// What the specification calls the description as a whole.
const ROOT: &str = "(root)";

impl ThingError {
    /// What is wrong with the description that was sent; nothing where that is not the reason.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let field = match self {
            ThingError::Invalid(report) => return report.errors().map(Fault::of).collect(),
            ThingError::Registration { field, .. } => *field,
            ThingError::Refused(ThingRefusal::Ttl { .. }) => "/registration/ttl",
            ThingError::Refused(ThingRefusal::Over) => "/registration",
            ThingError::NoId(_) | ThingError::Patch => ROOT,
            ThingError::OtherId { .. } | ThingError::HasId(_) | ThingError::Refused(ThingRefusal::Id { .. }) => "/id",
            ThingError::Contended(_) | ThingError::NoDirectory | ThingError::Refused(_) | ThingError::Request(_) => {
                return Vec::new();
            }
        };
        vec![Fault { field: field.to_owned(), description: self.to_string() }]
    }
}

impl Fault {
    fn of(finding: &Finding) -> Fault {
        let field = if finding.pointer.is_empty() { ROOT } else { &finding.pointer };
        Fault { field: field.to_owned(), description: format!("{}. {}", finding.message, finding.remedy) }
    }
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
