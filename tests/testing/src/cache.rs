//! What is made once for a machine.

use std::path::PathBuf;

/// The folder in which what tests make once is kept: environments of other languages, and what they build.
///
/// # Errors
/// Nothing says where it is.
pub fn cache() -> Result<PathBuf, String> {
    if let Some(cache) = std::env::var_os("ALTHING_CACHE") {
        return Ok(cache.into());
    }
    let home = std::env::var_os("HOME").ok_or("neither ALTHING_CACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/althing"))
}
