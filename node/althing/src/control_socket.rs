//! The control socket: HTTP over a Unix socket (0600) in the data directory, between the command line and its node.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use althing_calls::Principal;
use althing_operations::Operations;
use axum::Extension;
use tokio::net::UnixListener;

use crate::exit::Failure;

/// Binds the socket; removes one that a node left that no longer runs (the store's lock proves that).
pub fn bind(path: &Path) -> Result<UnixListener, Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("cannot open the control socket {}: {error}", path.display()));
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // Between bind and chmod others could connect: the folder is 0700.
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    Ok(listener)
}

/// Serves the control API until the node stops. Whoever can open the socket owns the node's files: each request is its owner's.
pub async fn serve(listener: UnixListener, node: Arc<Operations>) {
    let stop = node.stop.clone();
    let router = althing_control::router(node).layer(Extension(Principal::Local));
    // Else all routes would be copied for each connection.
    let serving = axum::serve(listener, router.into_make_service());
    if let Err(error) = serving.with_graceful_shutdown(async move { stop.cancelled().await }).await {
        tracing::error!(%error, "control socket failed");
    }
}
