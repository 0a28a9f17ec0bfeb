//! A peer that speaks the transport but breaks the protocol: it forges one frame and replays another.

use std::time::Duration;

use althing_communication::{BoxedStream, Entropy, Network as _};
use althing_libp2p::{Libp2pConfig, Libp2pNetwork};
use althing_protocol::stream::FRAME_VERSION;
use althing_protocol::{AgentId, Frame, FrameKind, FrameSealer, Hello, PublicKey, SecretKey, StreamBinding};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::Ports;
use crate::error::DemoError;

/// How long the attacked node may take to close a stream.
const PATIENCE: Duration = Duration::from_secs(5);

/// The intruder, connected to its target.
pub struct Intruder {
    network: Libp2pNetwork,
    key: SecretKey,
    target: PublicKey,
    name: String,
    entropy: Entropy,
}

/// A stream of the intruder after both hellos.
struct Opened {
    raw: BoxedStream,
    binding: StreamBinding,
}

impl Intruder {
    /// Connects to `target` at `address`, on the network `name`.
    pub async fn connect(target: PublicKey, address: &str, name: &str, ports: &Ports) -> Result<Intruder, DemoError> {
        let key = SecretKey::from_seed(&ports.entropy.bytes());
        let config = Libp2pConfig {
            listen: vec!["/ip4/127.0.0.1/tcp/0".to_owned()],
            ..Libp2pConfig::new(name, ports.clock.clone())
        };
        let network = Libp2pNetwork::start(&key, config).await.map_err(DemoError::unexpected)?;
        network.dial(Some(target), vec![address.to_owned()]).await.map_err(DemoError::unexpected)?;
        Ok(Intruder { network, key, target, name: name.to_owned(), entropy: ports.entropy.clone() })
    }

    async fn open(&self) -> Result<Opened, DemoError> {
        let mut raw = self.network.open(self.target, althing_calls::CALL).await.map_err(DemoError::unexpected)?;
        let challenge = self.entropy.bytes();
        let hello = Hello { version: FRAME_VERSION, challenge, network: self.name.clone(), owner: None };
        send(&mut raw, &hello.encode()).await?;
        let theirs = Hello::decode(&receive(&mut raw).await?, &self.name).map_err(DemoError::unexpected)?;
        let binding = StreamBinding {
            network: self.name.clone(),
            protocol: althing_calls::CALL.to_owned(),
            opener: self.key.public(),
            acceptor: self.target,
            opener_challenge: challenge,
            acceptor_challenge: theirs.challenge,
        };
        Ok(Opened { raw, binding })
    }

    /// Sends a call that is signed by a key other than the one that the connection proved.
    pub async fn forge(&self, agent: &AgentId) -> Result<(), DemoError> {
        let Opened { mut raw, mut binding } = self.open().await?;
        let other = SecretKey::from_seed(&self.entropy.bytes());
        binding.opener = other.public();
        let forged = FrameSealer::new(&binding, other).seal(request(agent)).map_err(DemoError::unexpected)?;
        send(&mut raw, &forged).await?;
        refused(&mut raw).await
    }

    /// Sends an honest call, takes its answer, and then sends the same bytes again.
    pub async fn replay(&self, agent: &AgentId) -> Result<(), DemoError> {
        let Opened { mut raw, binding } = self.open().await?;
        let honest =
            FrameSealer::new(&binding, self.key.clone()).seal(request(agent)).map_err(DemoError::unexpected)?;
        send(&mut raw, &honest).await?;
        receive(&mut raw).await?;
        send(&mut raw, &honest).await?;
        refused(&mut raw).await
    }
}

fn request(agent: &AgentId) -> Frame {
    let operation = Some("ListTasks".to_owned());
    Frame { operation, agent: Some(agent.clone()), ..Frame::new(FrameKind::Request, b"{}".to_vec()) }
}

async fn send(raw: &mut BoxedStream, bytes: &[u8]) -> Result<(), DemoError> {
    let len = u32::try_from(bytes.len()).map_err(DemoError::unexpected)?;
    raw.write_all(&len.to_be_bytes()).await.map_err(DemoError::unexpected)?;
    raw.write_all(bytes).await.map_err(DemoError::unexpected)?;
    raw.flush().await.map_err(DemoError::unexpected)
}

async fn receive(raw: &mut BoxedStream) -> Result<Vec<u8>, DemoError> {
    let reading = async {
        let len = raw.read_u32().await?;
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0).min(1 << 20)];
        raw.read_exact(&mut bytes).await?;
        Ok::<_, std::io::Error>(bytes)
    };
    timeout(PATIENCE, reading)
        .await
        .map_err(|_| DemoError::unexpected("no answer in time"))?
        .map_err(DemoError::unexpected)
}

/// The stream must be closed without an answer.
async fn refused(raw: &mut BoxedStream) -> Result<(), DemoError> {
    let mut answer = [0; 1];
    match timeout(PATIENCE, raw.read(&mut answer)).await {
        Ok(Ok(0) | Err(_)) => Ok(()),
        Ok(Ok(_)) => Err(DemoError::unexpected("it was answered")),
        Err(_) => Err(DemoError::unexpected("the stream stayed open")),
    }
}
