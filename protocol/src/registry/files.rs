//! The bytes of a bundle: an agent's file, and the files that it names.

use std::collections::BTreeMap;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::cbor::{self, CborError};
use crate::limits::BUNDLE_BYTES_MAX;

/// Files of a bundle.
const FILES_MAX: usize = 256;
const PATH_BYTES_MAX: usize = 256;

/// The files of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct BundleFiles {
    /// The text of the agent file.
    #[n(0)]
    pub agent: String,
    /// The files beside it, by their relative paths.
    #[n(1)]
    pub files: BTreeMap<String, ByteVec>,
}

/// Why bytes are no bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Not strict CBOR.
    #[error("the bundle is not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the bundle has the wrong shape: {0}")]
    Shape(String),
    /// A path leads out of the folder, or is spelled in another way than the plain one.
    #[error("{0:?} is no path in a bundle: write folder/file, without . or .. or a leading /")]
    Path(String),
    /// There are too many files.
    #[error("a bundle has at most {FILES_MAX} files")]
    TooMany,
}

impl BundleFiles {
    /// The bytes of the bundle.
    ///
    /// # Errors
    /// [`BundleError`]: they would be refused when read.
    pub fn encode(&self) -> Result<Vec<u8>, BundleError> {
        self.check()?;
        Ok(minicbor::to_vec(self).expect("writing to a vector cannot fail"))
    }

    /// Reads the bytes of a bundle.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn decode(bytes: &[u8]) -> Result<BundleFiles, BundleError> {
        cbor::check(bytes, usize::try_from(BUNDLE_BYTES_MAX).unwrap_or(usize::MAX))?;
        let read: BundleFiles = minicbor::decode(bytes).map_err(|error| BundleError::Shape(error.to_string()))?;
        read.check()?;
        if read.encode()? != bytes {
            return Err(BundleError::Shape("members that this version does not know".to_owned()));
        }
        Ok(read)
    }

    fn check(&self) -> Result<(), BundleError> {
        if self.files.len() > FILES_MAX {
            return Err(BundleError::TooMany);
        }
        match self.files.keys().find(|path| !is_plain_path(path)) {
            Some(path) => Err(BundleError::Path(path.clone())),
            None => Ok(()),
        }
    }
}

/// Whether a path is relative, spelled plainly, and stays below its folder; it has at most 256 bytes.
#[must_use]
pub fn is_plain_path(path: &str) -> bool {
    let of_part = |part: &str| {
        !matches!(part, "" | "." | "..") && part.chars().all(|one| !one.is_control() && !matches!(one, '\\' | ':'))
    };
    path.len() <= PATH_BYTES_MAX && path.split('/').all(of_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(path: &str) -> BundleFiles {
        let files = [(path.to_owned(), ByteVec::from(vec![1]))].into();
        BundleFiles { agent: "name: echo".to_owned(), files }
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written() {
        let bundle = with("models/small.bin");
        let bytes = bundle.encode().expect("a good bundle");
        assert_eq!(BundleFiles::decode(&bytes), Ok(bundle));
        assert!(matches!(BundleFiles::decode(&bytes[1..]), Err(BundleError::Cbor(_) | BundleError::Shape(_))));
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        for path in ["", "/etc/passwd", "../up", "a/../b", "a//b", "./a", "a/.", "a\\b", "c:", "a\nb", &"x".repeat(257)]
        {
            assert_eq!(with(path).encode(), Err(BundleError::Path(path.to_owned())), "{path}");
            let unchecked = minicbor::to_vec(with(path)).expect("it encodes");
            assert!(BundleFiles::decode(&unchecked).is_err(), "{path}");
        }
    }
}
