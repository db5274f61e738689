//! A client that can stop in the middle of a request.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::PATIENCE;

pub struct Connection(TcpStream);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

impl Connection {
    pub fn to(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout above zero");
        Self(stream)
    }

    /// Sends a head that announces so many bytes.
    pub fn send_head(&mut self, method: &str, path: &str, announced: usize) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
             content-length: {announced}\r\n\r\n"
        );
        self.send(head.as_bytes());
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the server reads");
    }

    pub fn post(&mut self, path: &str, body: &[u8]) {
        self.send_head("POST", path, body.len());
        self.send(body);
    }

    pub fn answer(mut self) -> Answer {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).expect("an answer");
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status");
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").expect("name and value");
            (name.to_ascii_lowercase(), value.to_owned())
        };
        let headers = lines.map(header).collect();
        Answer { status: status.parse().expect("a number"), headers, body: body.to_owned() }
    }
}

pub fn get(address: &str, path: &str) -> Answer {
    let mut connection = Connection::to(address);
    connection.send_head("GET", path, 0);
    connection.answer()
}
