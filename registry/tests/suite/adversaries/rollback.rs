//! Was set back to an old copy of itself: it shows a shorter log than it signed before, and knows nothing of the rest.

use super::Liar;
use super::forker::Forker;

/// A registry that goes back from what is at `new` to what is at `old`.
pub async fn from(new: &str, old: &str) -> Forker {
    Forker::between(new, old).await
}

/// The address that it is asked at.
pub fn url(rollback: &Forker) -> &str {
    let Liar { url, .. } = &rollback.liar;
    url
}
