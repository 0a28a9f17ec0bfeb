//! A client of HTTP/1.1 over one connection that is kept. It does little, so that what is measured is the server.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// What is written at once of a request whose answer may come before its end.
const PART: usize = 64 << 10;

/// A connection.
pub struct Client {
    address: String,
    token: Option<String>,
    /// Where it asks from, if the system does not choose that.
    from: Option<Ipv4Addr>,
    stream: Option<BufReader<TcpStream>>,
}

/// A connection to an address, from one of this machine's.
pub async fn connection(address: &str, from: Option<Ipv4Addr>) -> std::io::Result<TcpStream> {
    let stream = match from {
        None => TcpStream::connect(address).await?,
        Some(from) => {
            let to: SocketAddr = address.parse().map_err(std::io::Error::other)?;
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::from((from, 0)))?;
            socket.connect(to).await?
        }
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A query as a part of an address.
pub fn escaped(query: &str) -> String {
    query.replace('\'', "%27").replace(' ', "%20").replace('[', "%5B").replace(']', "%5D")
}

/// The status and the body of an answer.
async fn answer(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<(u16, Vec<u8>)> {
    let (mut line, mut status, mut length) = (String::new(), None, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        match status {
            None => status = text.split(' ').nth(1).and_then(|word| word.parse().ok()),
            Some(_) if text.is_empty() => break,
            Some(_) => {
                let (name, value) = text.split_once(':').expect("a header");
                assert!(!name.eq_ignore_ascii_case("transfer-encoding"), "the answer has a length");
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().expect("a number");
                }
            }
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status.expect("a status"), body))
}

impl Client {
    /// Of the server at that address, `host:port`, with that token in its requests.
    pub fn new(address: &str, token: Option<&str>) -> Client {
        Client { address: address.to_owned(), token: token.map(str::to_owned), from: None, stream: None }
    }

    /// The same without a token, from that address of this machine.
    pub fn from_address(address: &str, from: Ipv4Addr) -> Client {
        Client { from: Some(from), ..Client::new(address, None) }
    }

    /// A request as it is sent.
    pub fn request(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{token}Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len(),
        );
        [head.as_bytes(), body].concat()
    }

    /// The answer to a request, which must succeed.
    pub async fn ask(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
        let request = self.request(method, path, kind, body);
        // A server closes what was idle; a fresh connection it does not.
        for is_last in [false, true] {
            match self.exchange(&request).await {
                Ok((status, body)) => {
                    let said = String::from_utf8_lossy(&body);
                    assert!((200..300).contains(&status), "{method} {path}: {status} {said}");
                    return body;
                }
                Err(error) => assert!(!is_last, "{method} {path}: {error}"),
            }
        }
        unreachable!("the last attempt succeeds or panics")
    }

    /// The connection that was kept, or a fresh one. Whoever takes it puts it back when it is fit for the next request.
    async fn opened(&mut self) -> std::io::Result<BufReader<TcpStream>> {
        match self.stream.take() {
            Some(stream) => Ok(stream),
            None => Ok(BufReader::new(connection(&self.address, self.from).await?)),
        }
    }

    /// The answer to a request, whatever its status.
    pub async fn exchange(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream = self.opened().await?;
        stream.get_mut().write_all(request).await?;
        let answered = answer(&mut stream).await?;
        self.stream = Some(stream);
        Ok(answered)
    }

    /// The same where the answer may come before all is sent, as to a body that nobody reads; the rest is not sent then.
    pub async fn exchange_early(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut stream = self.opened().await?;
        let (answered, is_whole) = {
            let (reading, mut writing) = stream.get_mut().split();
            let mut reading = BufReader::new(reading);
            let answering = answer(&mut reading);
            let sending = async {
                for part in request.chunks(PART) {
                    writing.write_all(part).await?;
                }
                Ok::<(), std::io::Error>(())
            };
            tokio::pin!(answering, sending);
            tokio::select! {
                answered = &mut answering => (answered?, false),
                // What it says may still be read where it takes no more.
                sent = &mut sending => (answering.await?, sent.is_ok()),
            }
        };
        if is_whole {
            self.stream = Some(stream);
        }
        Ok(answered)
    }

    /// Puts a Thing.
    pub async fn put(&mut self, place: &str, id: &str, td: &str) {
        self.ask("PUT", &format!("{place}/{id}"), "application/td+json", td.as_bytes()).await;
    }

    /// Gets something.
    pub async fn get(&mut self, path: &str) -> Vec<u8> {
        self.ask("GET", path, "application/json", &[]).await
    }
}
