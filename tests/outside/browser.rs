//! Chromium, driven over the WebDriver protocol, whose requests are plain HTTP with JSON.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::process::until;
use super::talking::free_address;
use super::untested;

/// Set to a directory, the tests of the page leave pictures of what they saw there.
const PICTURES: &str = "BOATSWAIN_WRITE_PICTURES";

pub struct Browser {
    driver: Child,
    address: String,
    session: String,
}

impl Browser {
    /// `None` where Chromium and its driver (Debian's `chromium` and `chromium-driver`) are not installed, which
    /// is said, and fails in CI.
    pub fn start(directory: &Path) -> Option<Self> {
        let address = free_address();
        let port = address.rsplit(':').next().unwrap();
        let log = File::create(directory.join("chromedriver.log")).unwrap();
        let started = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        let Ok(driver) = started else {
            untested::for_lack_of(
                "chromium and chromedriver (apt-get install chromium chromium-driver)",
            );
            return None;
        };
        let mut browser = Self {
            driver,
            address,
            session: String::new(),
        };
        until("chromedriver is ready", || {
            browser.try_call("GET", "/status", None).ok()
        });
        // Without a sandbox, because tests may run as root in a container; they open their own page only.
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "goog:chromeOptions": {"args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,1400",
            ]},
        }}});
        let session = browser.call("POST", "/session", Some(&wanted));
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Value> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut connection = TcpStream::connect(&self.address)?;
        connection.set_read_timeout(Some(Duration::from_secs(60)))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        connection.write_all(head.as_bytes())?;
        connection.write_all(body.as_bytes())?;
        // It keeps the connection open, whatever it is asked to do.
        let mut answer = BufReader::new(connection);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            head.push_str(&line);
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body)?;
        match head.split(' ').nth(1) {
            Some("200") => Ok(body["value"].clone()),
            _ => Err(io::Error::other(format!("{method} {path}: {head} {body}"))),
        }
    }

    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.try_call(method, path, body).unwrap()
    }

    fn of_session(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.call(method, &format!("{}{path}", self.session), body)
    }

    pub fn open(&self, url: &str) {
        self.of_session("POST", "/url", Some(&json!({"url": url})));
    }

    /// The value of a script's `return`.
    pub fn script(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.of_session("POST", "/execute/sync", Some(&body))
    }

    /// The text that is shown of the first element with this selector; empty if it is hidden.
    pub fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({selector:?})?.innerText ?? ''");
        self.script(&script).as_str().unwrap().to_owned()
    }

    /// Whether an element with this selector is shown.
    pub fn shows(&self, selector: &str) -> bool {
        let script = format!(
            "return [...document.querySelectorAll({selector:?})].some((it) => it.checkVisibility())"
        );
        self.script(&script).as_bool().unwrap()
    }

    pub fn until_text(&self, selector: &str, part: &str) {
        until(&format!("{selector} says {part:?}"), || {
            self.text(selector).contains(part).then_some(())
        });
    }

    /// Clicks as a user does: it fails if something else is in front.
    pub fn click(&self, selector: &str) {
        let body = json!({"using": "css selector", "value": selector});
        let element = self.of_session("POST", "/element", Some(&body));
        let id = element.as_object().unwrap().values().next().unwrap();
        let path = format!("/element/{}/click", id.as_str().unwrap());
        self.of_session("POST", &path, Some(&json!({})));
    }

    /// What the console said since the last call.
    pub fn console(&self) -> Vec<String> {
        let entries = self.of_session("POST", "/se/log", Some(&json!({"type": "browser"})));
        let message = |entry: &Value| entry["message"].as_str().unwrap().to_owned();
        entries.as_array().unwrap().iter().map(message).collect()
    }

    /// The addresses of all requests since the last call.
    pub fn requests(&self) -> Vec<String> {
        let entries = self.of_session("POST", "/se/log", Some(&json!({"type": "performance"})));
        let url = |entry: &Value| {
            let message: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &message["message"];
            (message["method"] == "Network.requestWillBeSent").then(|| {
                message["params"]["request"]["url"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
        };
        entries.as_array().unwrap().iter().filter_map(url).collect()
    }

    /// Leaves pictures of the page, if [`PICTURES`] names a directory: on a desk and on a phone, light and dark.
    pub fn picture(&self, name: &str) {
        let Some(directory) = std::env::var_os(PICTURES) else {
            return;
        };
        std::fs::create_dir_all(&directory).unwrap();
        for (device, width, height) in [("", 1280, 1400), ("-phone", 390, 844)] {
            for (scheme, colours) in [("", "light"), ("-dark", "dark")] {
                let is_phone = !device.is_empty();
                let screen = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
                self.command("Emulation.setDeviceMetricsOverride", &screen);
                let feature =
                    json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
                self.command("Emulation.setEmulatedMedia", &feature);
                // It draws anew for another width, a second later at the latest.
                thread::sleep(Duration::from_millis(1_200));
                let picture = self.of_session("GET", "/screenshot", None);
                let picture = STANDARD.decode(picture.as_str().unwrap()).unwrap();
                let file = format!("{name}{device}{scheme}.png");
                std::fs::write(Path::new(&directory).join(file), picture).unwrap();
            }
        }
        self.command("Emulation.clearDeviceMetricsOverride", &json!({}));
        self.command("Emulation.setEmulatedMedia", &json!({"features": []}));
    }

    /// A command of the DevTools protocol.
    fn command(&self, command: &str, parameters: &Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.of_session("POST", "/goog/cdp/execute", Some(&body));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser, which is a child of the driver.
        let _ = self.try_call("DELETE", &self.session, None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
