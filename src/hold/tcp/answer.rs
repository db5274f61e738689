//! What a refused connection is told.

use std::fmt;

use crate::sync::stat::Arc;

/// The bytes written to a refused connection: text or bytes, the program's own or shared.
///
/// Cloning is cheap, so make an answer once and give a clone to each connection.
///
/// ```
/// use weirpool::hold::Answer;
///
/// let fixed = Answer::from("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n");
/// let made = Answer::from(format!("HTTP/1.1 503 Busy\r\nRetry-After: {}\r\n\r\n", 3));
/// assert!(fixed.bytes().starts_with(b"HTTP/1.1 503") && made.bytes().ends_with(b"\r\n\r\n"));
/// ```
#[derive(Clone)]
pub struct Answer(Bytes);

#[derive(Clone)]
enum Bytes {
    Fixed(&'static [u8]),
    Shared(Arc<[u8]>),
}

impl Answer {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            Bytes::Fixed(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({} bytes)", self.bytes().len())
    }
}

impl From<&'static [u8]> for Answer {
    fn from(bytes: &'static [u8]) -> Self {
        Self(Bytes::Fixed(bytes))
    }
}

impl<const N: usize> From<&'static [u8; N]> for Answer {
    fn from(bytes: &'static [u8; N]) -> Self {
        Self(Bytes::Fixed(bytes))
    }
}

impl From<&'static str> for Answer {
    fn from(text: &'static str) -> Self {
        Self(Bytes::Fixed(text.as_bytes()))
    }
}

impl From<Arc<[u8]>> for Answer {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Bytes::Shared(bytes))
    }
}

impl From<Vec<u8>> for Answer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Shared(bytes.into()))
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}
