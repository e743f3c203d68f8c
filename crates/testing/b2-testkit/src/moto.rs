//! An S3 server: moto, a program in Python.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that is stopped when this is dropped. It has one bucket, `bucket`, and takes any credentials.
#[derive(Debug)]
pub struct Moto {
    child: Child,
    port: u16,
}

impl Moto {
    /// Starts the program that `B2KIT_MOTO` names.
    ///
    /// # Panics
    /// Panics if it does not start.
    pub fn start() -> Self {
        let program = std::env::var_os("B2KIT_MOTO")
            .expect("B2KIT_MOTO must name moto_server, from `pip install moto[server]`");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moto = Self { child, port };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "moto does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(moto.ask("PUT", "/bucket").starts_with("HTTP/1.1 200"));
        moto
    }

    /// Returns the address of the server.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends a request without a body, and returns the response.
    ///
    /// # Panics
    /// Panics if the server does not respond.
    pub fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        // The server identifies services by this.
        let signed = "Authorization: AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, \
                      SignedHeaders=host, Signature=0";
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{signed}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.port
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Returns whether the bucket has parts of unfinished uploads.
    ///
    /// # Panics
    /// Panics if the server does not list them.
    pub fn has_parts(&self) -> bool {
        let response = self.ask("GET", "/bucket?uploads");
        assert!(response.contains("ListMultipartUploadsResult"), "{response}");
        response.contains("<UploadId>")
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
