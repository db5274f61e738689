//! What goes over the wire: one request a connection, and an answer in lines, much like HTTP.
//!
//! ```text
//! 200                                                  503
//! endpoint-load-metrics: TEXT application_…=0.5        endpoint-load-metrics: TEXT application_…=1
//!                                                      retry-after: 1
//! ```

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use weirpool::load::{ENDPOINT_LOAD_METRICS, Load, LoadReport, RetryAfter};

/// Nobody waits longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct Answer {
    pub(crate) accepted: bool,
    pub(crate) score: Option<f64>,
    pub(crate) retry_after: Option<Duration>,
}

impl Answer {
    /// What a server that is loaded like this says.
    pub(crate) fn write(accepted: bool, load: &Load, to: &mut TcpStream) -> io::Result<()> {
        to.write_all(Self::text(accepted, load).as_bytes())
    }

    /// The same as a text.
    pub(crate) fn text(accepted: bool, load: &Load) -> String {
        let mut text = String::from(if accepted { "200\n" } else { "503\n" });
        if let Some(report) = LoadReport::from(load).to_text() {
            text += &format!("{ENDPOINT_LOAD_METRICS}: {report}\n");
        }
        if !accepted {
            let wait = load.retry_after().unwrap_or_default();
            text += &format!("retry-after: {}\n", RetryAfter::after(wait));
        }
        text
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let accepted = match lines.next()? {
            "200" => true,
            "503" => false,
            _ => return None,
        };
        let mut answer = Self { accepted, score: None, retry_after: None };
        for line in lines {
            let (name, value) = line.split_once(": ")?;
            if name == ENDPOINT_LOAD_METRICS {
                // A report that can't be read is none.
                answer.score = LoadReport::parse(value).ok().and_then(|load| load.utilization());
            } else if name == "retry-after" {
                let now = SystemTime::now();
                answer.retry_after = RetryAfter::parse(value, now).ok().map(|hint| hint.wait(now));
            }
        }
        Some(answer)
    }
}

/// Sends a request and waits for its answer.
pub(crate) fn call(server: SocketAddr) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Answer::read(&text).ok_or_else(|| io::Error::other(format!("not an answer: {text:?}")))
}
