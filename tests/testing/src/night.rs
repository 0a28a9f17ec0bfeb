//! What is too long for each change.

/// Do these tests run at night (`ALTHING_NIGHT` is set, by `make night`), when all seeds are run?
#[must_use]
pub fn at_night() -> bool {
    std::env::var_os("ALTHING_NIGHT").is_some()
}
