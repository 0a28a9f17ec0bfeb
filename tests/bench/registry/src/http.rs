//! A client of HTTP/1.1 over one connection that is kept. It does little, so that what is measured is the server.

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// A connection.
pub struct Client {
    address: String,
    token: Option<String>,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Of the server at that address, `host:port`, with that token in its requests.
    pub fn new(address: &str, token: Option<&str>) -> Client {
        Client { address: address.to_owned(), token: token.map(str::to_owned), stream: None }
    }

    /// The answer to a request, which must succeed.
    pub async fn ask(&mut self, method: &str, path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{token}Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len(),
        );
        let request = [head.as_bytes(), body].concat();
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
            self.stream = None;
        }
        unreachable!("the last attempt succeeds or panics")
    }

    async fn exchange(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(BufReader::new(stream));
        }
        let stream = self.stream.as_mut().expect("it was just made");
        stream.get_mut().write_all(request).await?;
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

    /// Puts a Thing.
    pub async fn put(&mut self, place: &str, id: &str, td: &str) {
        self.ask("PUT", &format!("{place}/{id}"), "application/td+json", td.as_bytes()).await;
    }

    /// Gets something.
    pub async fn get(&mut self, path: &str) -> Vec<u8> {
        self.ask("GET", path, "application/json", &[]).await
    }
}
