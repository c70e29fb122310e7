//! Headless Chromium, driven over a pipe by its DevTools protocol.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use serde_json::{Value, json};

use crate::process::WATCHDOG;

/// A browser with one tab; killed at the end of its test.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// What the console and the page complained about.
    pub(crate) complaints: Vec<String>,
}

impl Browser {
    pub(crate) fn start(program: &Path, profile: &Path) -> Self {
        // The browser reads commands from descriptor 3 and answers on 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                // Tests may run as root; all it opens is our own page.
                "--no-sandbox",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-dev-shm-usage",
                "--use-angle=swiftshader",
                "--enable-unsafe-swiftshader",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = sync_channel(1000);
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while matches!(output.read_until(0, &mut bytes), Ok(1..)) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes).unwrap();
                if sender.send(message).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let mut browser = Self {
            child,
            input,
            messages,
            session: None,
            last: 0,
            complaints: Vec::new(),
        };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &target);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Runtime.enable", "Log.enable", "Page.enable"] {
            browser.call(domain, &json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result.
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let message = self.messages.recv_timeout(WATCHDOG);
            let message = message.unwrap_or_else(|error| panic!("{method}: {error}"));
            if message["id"] == self.last {
                assert_eq!(message["error"], Value::Null, "{method} {parameters}");
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, event: &Value) {
        let details = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => details["type"] == "error",
            Some("Log.entryAdded") => details["entry"]["level"] == "error",
            _ => false,
        };
        if complaint {
            self.complaints.push(details.to_string());
        }
    }

    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// The size of the window, in pixels of the page.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// What an expression of the page evaluates to; a promise is awaited.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression,
            "awaitPromise": true,
            "returnByValue": true,
        });
        let result = self.call("Runtime.evaluate", &parameters);
        assert_eq!(result["exceptionDetails"], Value::Null, "{expression}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn until(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.evaluate(expression) != Value::Bool(true) {
            if begin.elapsed() > WATCHDOG {
                let text = self.evaluate("document.body.innerText");
                panic!("waited in vain for `{expression}`; the page:\n{text}");
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended by itself. Its helpers end when it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
