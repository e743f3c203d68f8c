//! Drives the browser: the WebDriver protocol, as much of it as the tests need.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::chromium::Browser;
use crate::root;

/// How long the page may take for anything. It is only reached when it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page. It ends when this is dropped.
pub(super) struct Page {
    driver: Child,
    port: u16,
    session: String,
    /// Its profile and what it downloads.
    folder: TempDir,
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.send("DELETE", "", &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Page {
    /// Starts a browser with a window of this size.
    pub(super) fn start(browser: &Browser, size: [u32; 2]) -> Result<Self> {
        let folder = root::temporary("chromium-")?;
        let mut driver = browser
            .command(&browser.driver)
            .args(["--port=0", "--log-level=SEVERE"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("chromedriver does not start")?;
        let stdout = driver.stdout.take().context("no pipe from chromedriver")?;
        let mut lines = BufReader::new(stdout).lines();
        let port = loop {
            let line = lines.next().context("chromedriver ended")??;
            // The first line says which port was asked for: any.
            if let Some((_, port)) = line.split_once("successfully on port ") {
                let digits: String = port.chars().take_while(char::is_ascii_digit).collect();
                break digits.parse().context("the port of chromedriver")?;
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        let mut page = Self { driver, port, session: String::new(), folder };
        let home = page.folder.path().canonicalize()?;
        let args = [
            "--headless=new".to_owned(),
            "--no-sandbox".into(),
            "--disable-gpu".into(),
            "--disable-dev-shm-usage".into(),
            "--force-color-profile=srgb".into(),
            "--hide-scrollbars".into(),
            format!("--window-size={},{}", size[0], size[1]),
            format!("--user-data-dir={}", home.join("profile").display()),
        ];
        let options = json!({
            "binary": browser.program.canonicalize()?,
            "args": args,
            "prefs": { "download.default_directory": home, "download.prompt_for_download": false,
                "profile.default_content_setting_values.automatic_downloads": 1 },
        });
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
            "timeouts": { "script": PATIENCE.as_millis() as u64, "pageLoad": PATIENCE.as_millis() as u64 },
        } } });
        let made = page.request("POST", "/session", &wanted)?;
        page.session = made["sessionId"].as_str().context("no session")?.to_owned();
        Ok(page)
    }

    /// The folder of what is downloaded.
    pub(super) fn downloads(&self) -> &Path {
        self.folder.path()
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer)?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let value = answer["value"].clone();
        if let Some(error) = value["error"].as_str() {
            bail!(
                "{error}: {}",
                value["message"].as_str().unwrap_or_default().lines().next().unwrap_or_default()
            );
        }
        Ok(value)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        self.request(method, &format!("/session/{}{path}", self.session), body)
    }

    /// Opens an address.
    pub(super) fn open(&self, url: &str) -> Result<()> {
        self.send("POST", "/url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script in the page: the body of a function, which may await.
    pub(super) fn run(&self, script: &str) -> Result<Value> {
        let script = format!("return (async () => {{ {script} }})();");
        self.send("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until an expression is true.
    pub(super) fn wait(&self, what: &str) -> Result<()> {
        let begun = Instant::now();
        while self.run(&format!("return Boolean({what});"))? != json!(true) {
            if begun.elapsed() > PATIENCE {
                let problem = self.run("return document.body.innerText;")?;
                let text =
                    problem.as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
                bail!("still not {what}; the page says: {text}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Waits until the page is in a state.
    pub(super) fn state(&self, state: &str) -> Result<()> {
        self.wait(&format!("document.body?.dataset.state === '{state}'"))
    }

    /// The text of an element.
    pub(super) fn text(&self, id: &str) -> Result<String> {
        let text = self.run(&format!("return document.getElementById('{id}').textContent;"))?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// An attribute of the body that the page sets for tests.
    pub(super) fn data(&self, name: &str) -> Result<String> {
        let value = self.run(&format!("return document.body.dataset['{name}'] ?? '';"))?;
        Ok(value.as_str().unwrap_or_default().to_owned())
    }

    /// Chooses a file of this computer in the element for that.
    pub(super) fn pick(&self, file: &Path) -> Result<()> {
        self.pick_in("pick", file)
    }

    /// Chooses a file or folder of this computer in an element.
    pub(super) fn pick_in(&self, id: &str, file: &Path) -> Result<()> {
        let wanted = json!({ "using": "css selector", "value": format!("#{id}") });
        let found = self.send("POST", "/element", &wanted)?;
        let element = found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str);
        let path = file.canonicalize()?;
        let keys = json!({ "text": path });
        self.send("POST", &format!("/element/{}/value", element.context("no element")?), &keys).map(drop)
    }

    /// Presses keys one after the other; special ones are those of WebDriver.
    pub(super) fn keys(&self, keys: &str) -> Result<()> {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                let key = key.to_string();
                [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
            })
            .collect();
        let body = json!({ "actions": [{ "type": "key", "id": "keys", "actions": actions }] });
        self.send("POST", "/actions", &body).map(drop)
    }

    /// Moves the pointer to a place of the window, in pixels.
    pub(super) fn point(&self, x: f64, y: f64) -> Result<()> {
        let step = json!({ "type": "pointerMove", "x": x as i64, "y": y as i64, "duration": 0 });
        let body = json!({ "actions": [{ "type": "pointer", "id": "mouse", "actions": [step] }] });
        self.send("POST", "/actions", &body).map(drop)
    }

    /// A command of Chromium's own protocol.
    pub(super) fn chromium(&self, command: &str, params: &Value) -> Result<Value> {
        self.send("POST", "/goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// What the browser has complained about since the last call: scripts that failed, content that was refused.
    pub(super) fn complaints(&self) -> Result<Vec<String>> {
        let log = self.send("POST", "/se/log", &json!({ "type": "browser" }))?;
        let lines = log.as_array().into_iter().flatten();
        let severe = lines.filter(|line| line["level"] == "SEVERE");
        Ok(severe.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect())
    }

    /// Writes a picture of the window.
    pub(super) fn screenshot(&self, path: &Path) -> Result<()> {
        let shot = self.send("GET", "/screenshot", &Value::Null)?;
        let bytes = data_encoding::BASE64.decode(shot.as_str().context("no picture")?.as_bytes())?;
        Ok(std::fs::write(path, bytes)?)
    }
}
