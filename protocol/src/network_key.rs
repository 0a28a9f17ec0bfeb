//! The pre-shared key of a private network: nodes without it cannot connect.
//!
//! The file has the format of libp2p's private networks (`/key/swarm/psk/1.0.0/`, libp2p's specification "Private Networks"
//! 1.0), so that existing tools can generate it.

use crate::limits::NETWORK_BYTES_MAX;

/// The first line of the file.
const MAGIC: &str = "/key/swarm/psk/1.0.0/";
/// The second line: the encoding of the third, hexadecimal.
const BASE16: &str = "/base16/";
/// The suffix of a private network's name: a plus and 16 hexadecimal digits.
const MARK_BYTES: usize = 17;

/// A private network's key.
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkKey([u8; 32]);

/// Why a file does not hold a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NetworkKeyError {
    /// Another first line.
    #[error("its first line is not {MAGIC}")]
    Magic,
    /// Another encoding, base64 or raw bytes.
    #[error("its second line is not {BASE16}; other codings are not read")]
    Coding,
    /// Not 32 bytes in hexadecimal.
    #[error("its third line is not 64 hexadecimal digits")]
    Digits,
    /// More than three lines.
    #[error("it has more than three lines")]
    More,
}

impl NetworkKey {
    /// The key of these bytes, which are random and secret.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> NetworkKey {
        NetworkKey(bytes)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads the file (P-74).
    ///
    /// # Errors
    /// [`NetworkKeyError`].
    pub fn parse(text: &str) -> Result<NetworkKey, NetworkKeyError> {
        let mut lines = text.trim_end().lines().map(str::trim_end);
        if lines.next() != Some(MAGIC) {
            return Err(NetworkKeyError::Magic);
        }
        if lines.next() != Some(BASE16) {
            return Err(NetworkKeyError::Coding);
        }
        let digits = lines.next().unwrap_or_default().as_bytes();
        if lines.next().is_some() {
            return Err(NetworkKeyError::More);
        }
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(NetworkKeyError::Digits);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (Some(high), Some(low)) = (value(pair[0]), value(pair[1])) else { return Err(NetworkKeyError::Digits) };
            *byte = high << 4 | low;
        }
        Ok(NetworkKey(bytes))
    }

    /// The file.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("{MAGIC}\n{BASE16}\n{}\n", crate::hex(&self.0))
    }

    /// Its public fingerprint, to compare two files: 16 hexadecimal digits.
    #[must_use]
    pub fn mark(&self) -> String {
        let mut e = minicbor::Encoder::new(Vec::with_capacity(64));
        e.array(2)
            .and_then(|e| e.str("althing/network-key/1"))
            .and_then(|e| e.bytes(&self.0))
            .expect("writing to a vector cannot fail");
        crate::hex(&crate::digest(e.writer())[..8])
    }

    /// The name of the network `name` on the wire (P-73); `None` if that is too long.
    #[must_use]
    pub fn network(&self, name: &str) -> Option<String> {
        (name.len() + MARK_BYTES <= NETWORK_BYTES_MAX).then(|| format!("{name}+{}", self.mark()))
    }
}

/// Never shows the key.
impl std::fmt::Debug for NetworkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NetworkKey({})", self.mark())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_back_and_nothing_else_is() {
        // P-74
        let key = NetworkKey::new(std::array::from_fn(|at| u8::try_from(at * 7).expect("a byte")));
        let text = key.to_text();
        assert_eq!(NetworkKey::parse(&text), Ok(key.clone()));
        assert_eq!(NetworkKey::parse(&text.replace('\n', "\r\n")), Ok(key.clone()));
        assert_eq!(
            NetworkKey::parse(
                &text.to_uppercase().replace("/KEY/SWARM/PSK/", "/key/swarm/psk/").replace("/BASE16/", "/base16/")
            ),
            Ok(key)
        );
        let digits = text.lines().nth(2).expect("digits");
        for (wrong, reason) in [
            (String::new(), NetworkKeyError::Magic),
            (digits.to_owned(), NetworkKeyError::Magic),
            (text.replace("1.0.0", "2.0.0"), NetworkKeyError::Magic),
            (text.replace("base16", "base64"), NetworkKeyError::Coding),
            (text.replace(digits, ""), NetworkKeyError::Digits),
            (text.replace(digits, &digits[1..]), NetworkKeyError::Digits),
            (text.replace(digits, &format!("{digits}00")), NetworkKeyError::Digits),
            (text.replace(digits, &"g".repeat(64)), NetworkKeyError::Digits),
            (text.replace(digits, &"é".repeat(32)), NetworkKeyError::Digits),
            (format!("{text}{digits}\n"), NetworkKeyError::More),
        ] {
            assert_eq!(NetworkKey::parse(&wrong), Err(reason), "{wrong:?}");
        }
    }

    #[test]
    fn a_private_network_is_called_otherwise_for_each_key() {
        // P-73
        let (one, other) = (NetworkKey::new([1; 32]), NetworkKey::new([2; 32]));
        let name = one.network("home").expect("a name");
        assert!(name.starts_with("home+") && name.len() == 21);
        assert_ne!(Some(name), other.network("home"));
        assert!(one.network(&"n".repeat(NETWORK_BYTES_MAX - MARK_BYTES)).is_some());
        assert_eq!(one.network(&"n".repeat(NETWORK_BYTES_MAX - MARK_BYTES + 1)), None);
        assert!(!format!("{one:?}").contains("0101"));
    }
}
