//! HTTP/1.1 over keep-alive connections: as little of it as the service needs.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};

/// An answer's head with a body is never longer than a thumbnail.
const READ_BYTES: usize = 16 << 10;
const MAX_ANSWER_BYTES: usize = 16 << 20;
const MAX_HEADERS: usize = 32;

/// The server, and the connections to it that nobody uses at the moment.
pub(crate) struct Target {
    address: SocketAddr,
    host: String,
    idle: RefCell<Vec<TcpStream>>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// A 503 for work that was accepted at first, and dropped after a wait.
    pub(crate) is_shed: bool,
}

/// What the head of an answer says.
struct Head {
    status: u16,
    body_at: usize,
    body_len: usize,
    /// Whether the connection can be used again.
    stays: bool,
    is_shed: bool,
}

impl Target {
    pub(crate) async fn resolve(server: &str) -> io::Result<Self> {
        let address = lookup_host(server).await?.next();
        let address = address.ok_or_else(|| io::Error::other(format!("{server}: no address")))?;
        Ok(Self { address, host: server.to_owned(), idle: RefCell::default() })
    }

    /// The bytes of a request.
    pub(crate) fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        [head.as_bytes(), body].concat()
    }

    /// Sends a request on an idle connection, or on a new one. Dropping the future closes it.
    pub(crate) async fn call(&self, request: &[u8]) -> io::Result<Answer> {
        let idle = self.idle.borrow_mut().pop();
        if let Some(mut socket) = idle {
            match exchange(&mut socket, request).await {
                Ok(answer) => return Ok(self.keep(socket, answer)),
                // The server may close an idle connection at any time; a new one then tells.
                Err(error) if is_stale(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        let answer = exchange(&mut socket, request).await?;
        Ok(self.keep(socket, answer))
    }

    fn keep(&self, socket: TcpStream, (answer, stays): (Answer, bool)) -> Answer {
        if stays {
            self.idle.borrow_mut().push(socket);
        }
        answer
    }
}

/// Closed before the first byte of an answer.
fn is_stale(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::NotConnected
    )
}

/// The answer, and whether the connection can be used again.
async fn exchange(socket: &mut TcpStream, request: &[u8]) -> io::Result<(Answer, bool)> {
    socket.write_all(request).await?;
    let mut bytes = Vec::with_capacity(READ_BYTES);
    loop {
        if socket.read_buf(&mut bytes).await? == 0 {
            let kind = match bytes.is_empty() {
                true => io::ErrorKind::NotConnected,
                false => io::ErrorKind::UnexpectedEof,
            };
            return Err(kind.into());
        }
        if let Some(Head { status, body_at, body_len, stays, is_shed }) = head(&bytes)? {
            let end = body_at + body_len;
            while bytes.len() < end {
                if socket.read_buf(&mut bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let body = bytes[body_at..end].to_vec();
            return Ok((Answer { status, body, is_shed }, stays && bytes.len() == end));
        }
        if bytes.len() > MAX_ANSWER_BYTES {
            return Err(io::Error::other("an endless head"));
        }
    }
}

/// None yet if the head isn't complete.
fn head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(body_at) = response.parse(bytes).map_err(io::Error::other)?
    else {
        return Ok(None);
    };
    let status = response.code.unwrap_or_default();
    let mut head = Head { status, body_at, body_len: 0, stays: true, is_shed: false };
    for header in response.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            head.body_len = value.parse().map_err(io::Error::other)?;
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.stays = !value.eq_ignore_ascii_case("close");
        } else if header.name.eq_ignore_ascii_case("x-weirpool-reason") {
            head.is_shed = value.starts_with("shed");
        }
    }
    if head.body_len > MAX_ANSWER_BYTES {
        return Err(io::Error::other("an answer too large"));
    }
    Ok(Some(head))
}
