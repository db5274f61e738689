//! HAProxy's agent check.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use super::error::quote;
use crate::observe::load::Load;

/// The reply to an agent check of HAProxy (its manual, section "agent-check"): one line, sent by a
/// small TCP server to whoever connects.
///
/// The line consists of words between blanks, tabs or commas, and ends with a newline. What a reply
/// doesn't mention stays as it was in HAProxy, so a server that once said `drain` must say `ready` to
/// come back; [`AgentReply::from`] a [`Load`] says `up ready` each time.
///
/// The weight from a `Load` is the free share of the slots in percent, and at least 1: HAProxy takes
/// 0 % as `drain`, and a full server that gets nothing at all, then everything, then nothing again
/// would swing.
///
/// ```
/// use weirpool::load::{AdminState, AgentReply};
///
/// let reply = AgentReply { weight_percent: Some(75), ..AgentReply::default() };
/// assert_eq!(reply.to_string(), "75%\n");
/// assert_eq!("75%\r\n".parse(), Ok(reply));
/// let leaving = AgentReply { admin: Some(AdminState::Drain), ..AgentReply::default() };
/// assert_eq!(leaving.to_string(), "drain\n");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentReply {
    /// The server's weight, in percent of the one in HAProxy's configuration.
    pub weight_percent: Option<u32>,
    /// How many connections HAProxy may keep to the server (`maxconn:`).
    pub max_connections: Option<u32>,
    /// Whether the server shall get work.
    pub admin: Option<AdminState>,
    /// Whether the server works.
    pub service: Option<ServiceState>,
}

/// Whether a server shall get work: its administrative state in HAProxy.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdminState {
    /// `ready`: it shall. Ends the other two.
    Ready,
    /// `drain`: no new clients; those that belong to it may go on.
    Drain,
    /// `maint`: nobody, and no health checks.
    Maint,
}

/// Whether a server works: its operational state in HAProxy.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServiceState {
    /// `up`: it does, if the health check agrees.
    Up,
    /// `down`, with a reason for the statistics page; may be empty.
    Down(String),
    /// `fail`, likewise: it looks up, but a check of its own fails.
    Fail(String),
    /// `stopped`, likewise: somebody stopped it.
    Stopped(String),
}

impl AdminState {
    const ALL: [(Self, &str); 3] =
        [(Self::Ready, "ready"), (Self::Drain, "drain"), (Self::Maint, "maint")];
}

impl fmt::Display for AgentReply {
    /// The line with its newline. A reason loses what would end the line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = Vec::new();
        let mut reason = "";
        if let Some(service) = &self.service {
            let (word, why) = match service {
                ServiceState::Up => ("up", ""),
                ServiceState::Down(why) => ("down", why.as_str()),
                ServiceState::Fail(why) => ("fail", why.as_str()),
                ServiceState::Stopped(why) => ("stopped", why.as_str()),
            };
            words.push(word.to_owned());
            reason = why;
        }
        if let Some(admin) = self.admin {
            words.extend(
                AdminState::ALL
                    .iter()
                    .filter(|(state, _)| *state == admin)
                    .map(|(_, word)| (*word).to_owned()),
            );
        }
        words.extend(self.weight_percent.map(|percent| format!("{percent}%")));
        words.extend(self.max_connections.map(|most| format!("maxconn:{most}")));
        // The reason goes to the end of the line, so its word goes last.
        if !reason.is_empty() {
            let word = words.remove(0);
            let reason: String = reason.chars().filter(|letter| !letter.is_control()).collect();
            words.push(format!("{word}#{reason}"));
        }
        writeln!(f, "{}", words.join(" "))
    }
}

impl FromStr for AgentReply {
    type Err = AgentError;

    /// Reads a reply as HAProxy does: up to the end of the first line; the case of words doesn't
    /// matter, and `failed` is `fail`. Of two words for the same thing the later one counts.
    fn from_str(reply: &str) -> Result<Self, AgentError> {
        let line = reply.split(['\r', '\n']).next().unwrap_or_default();
        let (line, reason) = line.split_once('#').unwrap_or((line, ""));
        let mut read = Self::default();
        for word in line.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
            read.word(&word.to_ascii_lowercase(), reason.trim())?;
        }
        if read == Self::default() { Err(AgentError::Empty) } else { Ok(read) }
    }
}

impl AgentReply {
    fn word(&mut self, word: &str, reason: &str) -> Result<(), AgentError> {
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let number = if is_number { text.parse().ok() } else { None };
            number.ok_or_else(|| AgentError::Number(quote(word)))
        };
        if let Some(percent) = word.strip_suffix('%') {
            self.weight_percent = Some(number(percent)?);
        } else if let Some(most) = word.strip_prefix("maxconn:") {
            self.max_connections = Some(number(most)?);
        } else if let Some((admin, _)) = AdminState::ALL.iter().find(|(_, name)| *name == word) {
            self.admin = Some(*admin);
        } else {
            self.service = Some(match word {
                "up" => ServiceState::Up,
                "down" => ServiceState::Down(reason.to_owned()),
                "fail" | "failed" => ServiceState::Fail(reason.to_owned()),
                "stopped" => ServiceState::Stopped(reason.to_owned()),
                _ => return Err(AgentError::Word(quote(word))),
            });
        }
        Ok(())
    }
}

impl From<&Load> for AgentReply {
    fn from(load: &Load) -> Self {
        // The conversion takes NaN for 0.
        let free_percent = (100.0 * (1.0 - load.score)).round().clamp(1.0, 100.0) as u32;
        Self {
            weight_percent: Some(free_percent.max(1)),
            max_connections: None,
            admin: Some(AdminState::Ready),
            service: Some(ServiceState::Up),
        }
    }
}

/// Why a text is no reply to an agent check.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentError {
    /// It says nothing.
    Empty,
    /// This word means nothing.
    Word(String),
    /// This word needs a whole number of 32 bits.
    Number(String),
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an agent's reply that says nothing"),
            Self::Word(word) => write!(f, "an agent's reply can't say {word:?}"),
            Self::Number(word) => {
                write!(f, "an agent's reply with a number that is none: {word:?}")
            }
        }
    }
}

impl Error for AgentError {}
