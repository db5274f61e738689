//! Chromium without a window, steered by its DevTools protocol over a pair of pipes: one JSON message
//! each, ended by a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Chromium reads file descriptor 3 and writes 4.
const SCRIPT: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1"#;

const OPTIONS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
];

pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    sent: u64,
}

/// One tab.
pub struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Browser {
    /// None where Chromium isn't installed.
    pub fn start() -> Option<Self> {
        let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let profile = format!("{}/chromium-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        let mut child = Command::new("sh")
            .args(["-c", SCRIPT, chromium])
            .args(OPTIONS)
            .arg(format!("--user-data-dir={profile}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let to = child.stdin.take().expect("it was piped");
        let from = BufReader::new(child.stdout.take().expect("it was piped"));
        Some(Self { child, to, from, sent: 0 })
    }

    pub fn open(&mut self, url: &str) -> Page<'_> {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", attach);
        let session = session["sessionId"].as_str().expect("a session").to_owned();
        let mut page = Page { browser: self, session };
        page.call("Page.navigate", json!({ "url": url }));
        page
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("Chromium reads");
        loop {
            let mut answer = self.next_message();
            if answer["id"] == self.sent {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].take();
            }
        }
    }

    fn next_message(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).expect("Chromium writes");
        assert_eq!(bytes.pop(), Some(0), "Chromium has ended");
        serde_json::from_slice(&bytes).expect("JSON")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let mut rest = Vec::new();
        // Until the end: it has closed its files then.
        while self.from.read_until(0, &mut rest).is_ok_and(|read| read > 0) {}
        let _ = self.child.wait();
    }
}

impl Page<'_> {
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.browser.call(Some(&self.session), method, params)
    }

    /// The value of an expression, or what its promise comes to.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// Waits until a condition, an expression, holds.
    pub fn until(&mut self, condition: &str) {
        let patience_ms = super::PATIENCE.as_millis();
        self.evaluate(&format!(
            "new Promise((resolve, reject) => {{
                setTimeout(() => reject(new Error('it did not come to it')), {patience_ms} * 2);
                const look = () => ({condition}) ? resolve(true) : setTimeout(look, 50);
                look();
            }})"
        ));
    }

    /// How the page looks on such a screen: width and height in CSS pixels.
    pub fn resize(&mut self, width: u32, height: u32, is_phone: bool) {
        let metrics = json!({
            "width": width, "height": height, "mobile": is_phone, "deviceScaleFactor": 1,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub fn set_dark(&mut self, is_dark: bool) {
        let scheme = if is_dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// The whole page as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let result = self.call("Page.captureScreenshot", params);
        decode_base64(result["data"].as_str().expect("a picture"))
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let value = |digit| DIGITS.iter().position(|of| *of == digit).expect("base64") as u32;
    let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    let group = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
