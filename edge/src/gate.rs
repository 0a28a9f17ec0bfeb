//! The places for connections, and what whoever finds none is told: a connection that nobody accepts looks like a server that
//! hangs.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::refusal::name;
use crate::tls::Tls;

/// How long a place is awaited while all are taken, before those who come are turned away.
const AWAITED: Duration = Duration::from_secs(5);
/// Connections that are turned away at one time; more are told so, and closed without waiting for them.
const TURNED_AWAY_MAX: usize = 32;
/// The same over TLS, where each costs a handshake; more are closed.
const TURNED_AWAY_OVER_TLS_MAX: usize = 8;
/// Bytes that are read of what such a client sent before.
const READ_MAX: usize = 16 << 10;
/// How long a client has for a handshake, if it is one over TLS, and to read that it is turned away.
const TURNING_AWAY: Duration = Duration::from_secs(2);
/// Between two lines of the log about the same.
const PAUSE: Duration = Duration::from_secs(60);

/// The places.
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    away: Arc<Semaphore>,
    away_over_tls: Arc<Semaphore>,
    /// Whether no place became free in time, and none has since.
    is_full: bool,
}

impl Gate {
    /// With so many places.
    pub fn of(places: usize) -> Gate {
        let room = |connections| Arc::new(Semaphore::new(connections));
        let (away, away_over_tls) = (room(TURNED_AWAY_MAX), room(TURNED_AWAY_OVER_TLS_MAX));
        Gate { places: room(places), away, away_over_tls, is_full: false }
    }

    /// A place; none if none becomes free in time.
    pub async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Some(place) = self.free() {
            return Some(place);
        }
        if self.is_full {
            return None;
        }
        let awaited = tokio::time::timeout(AWAITED, self.places.clone().acquire_owned()).await;
        self.is_full = awaited.is_err();
        awaited.ok().map(|place| place.expect("this semaphore is never closed"))
    }

    /// A place that is free now.
    pub fn free(&mut self) -> Option<OwnedSemaphorePermit> {
        let place = self.places.clone().try_acquire_owned().ok();
        self.is_full &= place.is_none();
        place
    }

    /// Tells a client that there is no place, in the version of HTTP that all understand.
    pub fn turn_away(&self, stream: TcpStream, tls: Option<Arc<Tls>>) {
        let slots = if tls.is_some() { &self.away_over_tls } else { &self.away };
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            if tls.is_none() {
                // It may have gone.
                let _ = tell_at_once(stream);
            }
            return;
        };
        tokio::spawn(async move {
            let telling = async {
                match tls {
                    None => tell(stream).await,
                    Some(tls) => tell(TlsAcceptor::from(tls.config_of_http1()).accept(stream).await?).await,
                }
            };
            // It may have gone.
            let _ = tokio::time::timeout(TURNING_AWAY, telling).await;
            drop(slot);
        });
    }
}

/// Tells it.
async fn tell(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    stream.write_all(no_place().as_bytes()).await?;
    stream.shutdown().await?;
    // What it sent is read: closing before that would take the answer away from it.
    let mut sent = [0; 1_024];
    while stream.read(&mut sent).await? > 0 {}
    Ok(())
}

/// Tells it without waiting for anything. What came is read: closing before that would take the answer away from the client.
fn tell_at_once(stream: TcpStream) -> std::io::Result<()> {
    use std::io::{Read as _, Write as _};

    // It does not block, as it did not before.
    let mut stream = stream.into_std()?;
    let (mut sent, mut left) = ([0; 1_024], READ_MAX);
    while let Ok(read @ 1..) = stream.read(&mut sent) {
        left = left.saturating_sub(read);
        if left == 0 {
            break;
        }
    }
    stream.write_all(no_place().as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// The answer to whoever finds no place.
fn no_place() -> String {
    const STATUS: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
    let message = "all connections that this server takes are in use; close some, or try again later";
    let error = json!({ "code": STATUS.as_u16(), "status": name(STATUS), "message": message });
    let body = json!({ "error": error }).to_string();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 5\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Something that happens again and again, of which the log is told once a minute.
#[derive(Default)]
pub(crate) struct LogPace {
    told: Option<Instant>,
    count: u64,
}

impl LogPace {
    /// It happened once more; how often in all, if that is to be told now.
    pub fn again(&mut self) -> Option<u64> {
        self.count += 1;
        let is_due = self.told.is_none_or(|told| told.elapsed() >= PAUSE);
        is_due.then(|| {
            self.told = Some(Instant::now());
            self.count
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_place_is_awaited_for_some_seconds_and_then_only_taken_where_one_is_free() {
        let mut gate = Gate::of(1);
        let held = gate.place().await.expect("the only one");
        let begun = Instant::now();
        assert!(gate.place().await.is_none());
        assert_eq!(begun.elapsed(), AWAITED);
        assert!(gate.place().await.is_none() && gate.free().is_none());
        assert_eq!(begun.elapsed(), AWAITED, "nobody waits again");
        drop(held);
        let held = gate.place().await.expect("it is free");
        let (waited, ()) = tokio::join!(gate.place(), async {
            tokio::time::sleep(AWAITED / 2).await;
            drop(held);
        });
        assert!(waited.is_some(), "it became free in time");
    }

    /// A client that asked for something, and its connection as the server has it.
    async fn asking(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let at = listener.local_addr().expect("it listens");
        let (accepted, client) = tokio::join!(listener.accept(), TcpStream::connect(at));
        let (accepted, mut client) = (accepted.expect("a connection").0, client.expect("it listens"));
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it listens");
        accepted.readable().await.expect("it came");
        (client, accepted)
    }

    #[tokio::test]
    async fn all_who_find_no_place_are_told_so_however_many_they_are() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let gate = Gate::of(0);
        let mut clients = Vec::new();
        for _ in 0..3 * TURNED_AWAY_MAX {
            let (client, accepted) = asking(&listener).await;
            gate.turn_away(accepted, None);
            clients.push(client);
        }
        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 5\r\n"), "{answer}");
            let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
            let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
            assert_eq!(body["error"]["status"], "SERVICE_UNAVAILABLE");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_happens_again_and_again_is_told_once_a_minute() {
        let mut repeated = LogPace::default();
        assert_eq!(repeated.again(), Some(1));
        assert_eq!((repeated.again(), repeated.again()), (None, None));
        tokio::time::advance(PAUSE).await;
        assert_eq!((repeated.again(), repeated.again()), (Some(4), None));
    }
}
