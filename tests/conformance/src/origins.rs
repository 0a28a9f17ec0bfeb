//! Connections from several addresses: all of 127.0.0.0/8 is this machine on Linux, and each of its addresses an origin of
//! its own.

use std::net::{IpAddr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A socket from one of this machine's addresses to where a node listens (`/ip4/…/tcp/…`), on which nothing was said.
///
/// # Errors
/// The system's.
///
/// # Panics
/// If either address is none.
pub async fn socket(from: &str, listening: &str) -> std::io::Result<TcpStream> {
    let parts: Vec<&str> = listening.split('/').collect();
    let to: SocketAddr = format!("{}:{}", parts[2], parts[4]).parse().expect("an address");
    let from: IpAddr = from.parse().expect("an address");
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

/// Where a node that listens there can be dialled so that the connection comes to it from that address.
///
/// # Panics
/// When this machine has no port left.
pub async fn by_way_of(from: &'static str, listening: &str) -> Vec<String> {
    let here = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = here.local_addr().expect("an address").port();
    let to = listening.to_owned();
    tokio::spawn(async move {
        while let Ok((mut dialler, _)) = here.accept().await {
            // Not taken: the dialler's own connection ends as well.
            let Ok(mut there) = socket(from, &to).await else { continue };
            // As both ends set it on their own sockets: else Nagle's algorithm holds a small frame for up to 40 ms.
            if dialler.set_nodelay(true).and(there.set_nodelay(true)).is_err() {
                continue;
            }
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut dialler, &mut there).await });
        }
    });
    vec![format!("/ip4/127.0.0.1/tcp/{port}")]
}
