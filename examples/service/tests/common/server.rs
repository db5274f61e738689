//! The server as a process of its own.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::client::{Connection, get};

pub struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// `host:port`
    pub address: String,
}

impl Server {
    /// On a free port.
    pub fn start(options: &[&str]) -> Self {
        Self::start_on("0", options)
    }

    pub fn start_on(port: &str, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_weirpool-service"))
            .args(["--port", port])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let stdout = child.stdout.take().expect("it was piped");
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next().expect("it says where it listens").expect("in UTF-8");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.expect("an address").to_owned();
        Self { child, lines, address }
    }

    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().expect("a port")
    }

    pub fn connect(&self) -> Connection {
        Connection::to(&self.address)
    }

    /// One figure of `/metrics`.
    pub fn metric(&self, name: &str) -> f64 {
        let text = get(&self.address, "/metrics").body;
        let value = text.lines().find_map(|line| {
            let rest = line.strip_prefix(name)?;
            rest.strip_prefix("{pool=\"service\"}").unwrap_or(rest).strip_prefix(' ')
        });
        value.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().expect("a number")
    }

    /// The next line that it prints.
    pub fn next_line(&mut self) -> String {
        self.lines.next().expect("it says more").expect("in UTF-8")
    }

    /// Sends SIGTERM.
    pub fn ask_to_end(&self) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-TERM", &id]).status().expect("kill");
        assert!(status.success());
    }

    /// The rest of what it prints, once it has ended well.
    pub fn ended(mut self) -> String {
        assert!(self.child.wait().expect("it can be waited for").success());
        self.lines.by_ref().map_while(Result::ok).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
