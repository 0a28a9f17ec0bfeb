//! Shares of a whole on the command line.

/// A number from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    number.ok_or_else(|| "a share is a number from 0 to 1".to_owned())
}
