//! Bytes between a program and a host, which mean nothing here.

use std::io::ErrorKind;
use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;
use tracing::Instrument as _;

use crate::egress::Bounds;
use crate::told::Exchange;
use crate::traffic::{Meter, Traffic};

/// Bytes in memory of each direction: a record of TLS.
const BUFFER: usize = 16 << 10;

/// A tunnel that begins once the program has its answer.
pub(crate) struct Tunnel {
    upgrade: OnUpgrade,
    origin: TcpStream,
    exchange: Exchange,
}

impl Tunnel {
    pub(crate) fn new(upgrade: OnUpgrade, origin: TcpStream, exchange: Exchange) -> Tunnel {
        Tunnel { upgrade, origin, exchange }
    }

    /// Carries bytes both ways until both sides have ended, one of them breaks off, or a bound is met. A side that ends
    /// what it says still hears the other.
    pub(crate) async fn carry(self, bounds: &Bounds) {
        let span = self.exchange.span();
        self.carried(bounds).instrument(span).await;
    }

    async fn carried(self, bounds: &Bounds) {
        let Tunnel { upgrade, mut origin, exchange } = self;
        let Ok(upgraded) = upgrade.await else { return };
        let traffic = Arc::new(Traffic::new());
        let most = u64::try_from(bounds.bytes).unwrap_or(u64::MAX);
        let mut program = Meter::new(TokioIo::new(upgraded), traffic.clone(), most);
        tokio::select! {
            ended = copy_bidirectional_with_sizes(&mut program, &mut origin, BUFFER, BUFFER) => match ended {
                // This is how a meter fails.
                Err(error) if error.kind() == ErrorKind::Other => exchange.broke("too_large", error.to_string()),
                // Either side may end as it likes.
                Err(error) => tracing::debug!(%error, "a tunnel broke off"),
                Ok(_) => {}
            },
            () = traffic.quiet(bounds.idle) => {
                exchange.broke("timeout", format!("nothing passed for {} s", bounds.idle.as_secs()));
            }
            () = tokio::time::sleep(bounds.whole) => {
                exchange.broke("timeout", format!("it lasted longer than {} s", bounds.whole.as_secs()));
            }
        }
        exchange.counted(traffic.sent(), traffic.received());
    }
}
