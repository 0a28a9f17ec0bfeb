//! The folders that requests name, or hand over.

use std::path::{Path, PathBuf};

use althing_api::{Folder, Upload};
use althing_operations::{Operations, UploadError, UploadFolder};
use althing_protocol::hex;

use crate::error::ApiError;
use crate::requester::Requester;

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> ApiError {
        ApiError::failed(error.to_string())
    }
}

/// Where the files of a request are. What was handed over is removed with it, unless an agent has it from then on.
pub struct Place {
    path: PathBuf,
    upload: Option<UploadFolder>,
}

impl Place {
    /// The folder that whoever asks names, where that listener may, or hands over.
    pub fn of(node: &Operations, requester: &Requester, folder: &Folder) -> Result<Place, ApiError> {
        match folder {
            Folder::Here(path) => Ok(Place { path: requester.path(path)?.to_owned(), upload: None }),
            Folder::Upload(files) => {
                let random: [u8; 16] = node.entropy().bytes();
                let upload = UploadFolder::write(node.data(), &hex(&random), files.files())?;
                Ok(Place { path: upload.path().to_owned(), upload: Some(upload) })
            }
        }
    }

    /// Where that is, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves what was handed over there, for an agent.
    pub fn keep(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.keep();
        }
    }
}

/// Refuses names that are not among the files that were handed over: nothing else is read for them.
pub fn check_names<'a>(files: &Upload, names: impl IntoIterator<Item = &'a str>) -> Result<(), ApiError> {
    match names.into_iter().find(|name| !files.has(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("{name:?} is not among the files that were handed over: hand it over too");
            Err(ApiError::invalid(message))
        }
    }
}
