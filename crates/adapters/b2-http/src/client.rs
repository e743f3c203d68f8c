//! Range requests: sending them, checking the responses, and retrying.

use std::convert::Infallible;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use b2_core::PerProcess;
use b2_frame::{RangeResponse, Version};
use ureq::http::{HeaderMap, StatusCode};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Proxy};

use crate::resolve::HostResolver;
use crate::url::Url;

/// Settings of requests.
#[derive(Clone, Debug)]
#[must_use]
pub struct HttpOptions {
    pub(crate) timeout: Duration,
    pub(crate) in_flight: usize,
    pub(crate) proxy: bool,
    pub(crate) pause: Duration,
    pub(crate) other_hosts: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            in_flight: 64,
            proxy: true,
            pause: Duration::from_millis(250),
            other_hosts: true,
        }
    }
}

impl HttpOptions {
    /// Sets the total time limit of a request, including retries; 60 s by default.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets the maximum number of concurrent requests of a call; 64 by default. It adapts to the latency: at most 32
    /// below 40 ms, and 16 below 10 ms.
    pub fn in_flight(self, in_flight: usize) -> Self {
        Self { in_flight: in_flight.max(1), ..self }
    }

    /// Sets whether proxies are taken from the environment (the default).
    pub fn proxy(self, proxy: bool) -> Self {
        Self { proxy, ..self }
    }

    /// Sets whether redirects to other hosts are followed (the default). Turn this off if an untrusted server could
    /// redirect to hosts that only this process can reach.
    pub fn other_hosts(self, other_hosts: bool) -> Self {
        Self { other_hosts, ..self }
    }

    /// Sets the pause before the first retry of a request; 250 ms by default. Each later pause is
    /// twice as long.
    pub fn pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }
}

/// Number of requests and received bytes so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Number of requests, including redirects and retries.
    pub requests: u64,
    /// Number of received bytes of files.
    pub bytes: u64,
}

/// An HTTP client with its connections.
#[derive(Debug)]
pub(crate) struct Client {
    /// Connections, separate for each process: if a forked child used those of its parent, each would read responses
    /// meant for the other.
    agents: PerProcess<Agent>,
    pub(crate) options: HttpOptions,
    /// The time limit of a request, in milliseconds.
    timeout: AtomicU64,
    /// Whether redirects to other hosts are followed.
    other_hosts: AtomicBool,
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// A range to request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RangeRequest {
    /// The offsets from the first number up to, but not including, the second.
    Part(u64, u64),
    /// This many bytes at the end.
    Last(u64),
}

/// The response to a range request.
#[derive(Clone, Debug)]
pub(crate) struct RangeReply {
    pub(crate) answer: RangeResponse,
    /// The URL that redirects led to.
    pub(crate) url: Url,
}

/// A failed attempt.
enum RequestError {
    /// A permanent error; a retry would not help.
    Always(io::Error),
    /// The host does not exist or does not respond. It may be restarting, but more often the name is wrong.
    Unreached(io::Error),
    /// A temporary error; a retry may succeed, after this time if the server specified one.
    Now(io::Error, Option<Duration>),
}

/// Maximum number of redirects that are followed.
const MAX_REDIRECTS: usize = 5;
/// Maximum number of retries.
const MAX_RETRIES: u32 = 6;
/// Maximum number of retries if no server was reached, and the maximum time so far.
const MAX_UNREACHED: (u32, Duration) = (2, Duration::from_secs(1));
/// Longest pause before a retry.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Maximum memory that is reserved before bytes arrive, in bytes.
const MAX_RESERVED: u64 = 4 << 20;

impl Client {
    pub(crate) fn new(options: HttpOptions) -> Arc<Self> {
        let agents = PerProcess::new();
        let timeout = AtomicU64::new(millis(options.timeout));
        let other_hosts = AtomicBool::new(options.other_hosts);
        let (requests, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { agents, options, timeout, other_hosts, requests, bytes })
    }

    pub(crate) fn counts(&self) -> RequestCounts {
        RequestCounts { requests: self.requests.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }

    pub(crate) fn set_timeout(&self, timeout: Duration) -> Duration {
        Duration::from_millis(self.timeout.swap(millis(timeout), Relaxed))
    }

    pub(crate) fn set_other_hosts(&self, follow: bool) -> bool {
        self.other_hosts.swap(follow, Relaxed)
    }

    /// Requests a range, retrying after temporary errors.
    pub(crate) fn get(&self, url: &Url, requested: RangeRequest) -> io::Result<RangeReply> {
        let begun = Instant::now();
        let timeout = Duration::from_millis(self.timeout.load(Relaxed));
        let left = || timeout.saturating_sub(begun.elapsed());
        let mut tries = 0_u32;
        loop {
            let (most, longest) = MAX_UNREACHED;
            let (error, wait) = match self.follow(url, requested, &left) {
                Ok(reply) => return Ok(reply),
                Err(RequestError::Always(error)) => return Err(error),
                Err(RequestError::Unreached(error)) if tries >= most || begun.elapsed() > longest => {
                    return Err(error);
                }
                Err(RequestError::Unreached(error)) => (error, None),
                Err(RequestError::Now(error, wait)) => (error, wait),
            };
            let pause = self.options.pause.saturating_mul(1 << tries).min(MAX_PAUSE);
            let pause = wait.unwrap_or(pause.saturating_add(jitter(pause)));
            tries = tries.saturating_add(1);
            if tries > MAX_RETRIES || pause >= left() {
                return Err(error);
            }
            std::thread::sleep(pause);
        }
    }

    /// Requests a range once, following redirects.
    fn follow(
        &self,
        url: &Url,
        requested: RangeRequest,
        left: &dyn Fn() -> Duration,
    ) -> Result<RangeReply, RequestError> {
        let mut url = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            match self.once(&url, requested, left())? {
                Ok(reply) => return Ok(reply),
                Err(location) => {
                    let to = url.redirect(&location).and_then(|to| {
                        match self.other_hosts.load(Relaxed) || to.same_host(&url) {
                            true => Ok(to),
                            false => Err("the server redirects to another host, which is not allowed"),
                        }
                    });
                    url = to.map_err(|what| RequestError::Always(io::Error::other(what)))?;
                }
            }
        }
        Err(RequestError::Always(io::Error::other("the server redirects too often")))
    }

    /// Sends a single request. Returns the response, or the location of a redirect.
    fn once(
        &self,
        url: &Url,
        requested: RangeRequest,
        left: Duration,
    ) -> Result<Result<RangeReply, String>, RequestError> {
        self.requests.fetch_add(1, Relaxed);
        let range = match requested {
            RangeRequest::Part(start, end) => format!("bytes={start}-{}", end.saturating_sub(1)),
            RangeRequest::Last(len) => format!("bytes=-{len}"),
        };
        let Ok(agent) = self.agents.get_or_try_init(|_| Ok::<_, Infallible>(agent(&self.options)));
        let mut request = agent.get(url.target()).header("range", range);
        if let Some(authorization) = url.authorization() {
            request = request.header("authorization", authorization);
        }
        // Zero would mean no limit.
        let left = left.max(Duration::from_millis(1));
        let connect = left.min(Duration::from_secs(15));
        let request = request.config().timeout_global(Some(left)).timeout_connect(Some(connect)).build();
        let mut response = request.call().map_err(transport_error)?;
        let (status, headers) = (response.status(), response.headers().clone());
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if status.is_redirection()
            && let Some(location) = text("location")
        {
            return Ok(Err(location.to_owned()));
        }
        if status != StatusCode::PARTIAL_CONTENT {
            return Err(status_error(status, &headers));
        }
        let wrong = |what: &str| RequestError::Always(io::Error::new(io::ErrorKind::InvalidData, what));
        // The header may occur several times, and each may list several encodings.
        let plain =
            |encoding: &str| encoding.split(',').all(|word| word.trim().eq_ignore_ascii_case("identity"));
        if !headers.get_all("content-encoding").iter().all(|value| value.to_str().is_ok_and(plain)) {
            return Err(wrong("the server sends ranges compressed"));
        }
        let range = text("content-range").and_then(content_range);
        let Some((start, end, len)) = range else {
            return Err(wrong("the server does not state which range it sends"));
        };
        // A suffix ends with the file, so `a-b/*` implies its length.
        let len = if matches!(requested, RangeRequest::Last(_)) { len.or(Some(end)) } else { len };
        let fits = match requested {
            RangeRequest::Part(from, to) => {
                let to = len.map_or(to, |len| to.min(len));
                start == from && (end == to || len.is_none() && end < to)
            }
            RangeRequest::Last(most) => {
                len.is_some_and(|len| end == len && end.saturating_sub(start) == most.min(len))
            }
        };
        if !fits {
            return Err(wrong("the server sends a different range than requested"));
        }
        let count = end.saturating_sub(start);
        if text("content-length").is_some_and(|length| length.trim().parse() != Ok(count)) {
            return Err(wrong("the server sends more or less than the range it announces"));
        }
        let mut bytes = Vec::new();
        let reserved = usize::try_from(count.min(MAX_RESERVED)).unwrap_or(0);
        let lack = |_| RequestError::Always(io::ErrorKind::OutOfMemory.into());
        bytes.try_reserve(reserved).map_err(lack)?;
        let body = response.body_mut().as_reader();
        let read = body.take(count.saturating_add(1)).read_to_end(&mut bytes);
        self.bytes.fetch_add(bytes.len() as u64, Relaxed);
        let got = bytes.len() as u64;
        if got > count {
            return Err(wrong("the server sends more than the range it announces"));
        }
        read.map_err(|error| RequestError::Now(connection_error(error), None))?;
        if got < count {
            let what = format!("the connection ended after {got} of {count} bytes");
            return Err(RequestError::Now(io::Error::new(io::ErrorKind::UnexpectedEof, what), None));
        }
        let etag = text("etag").map(str::to_owned);
        let last_modified = text("last-modified").map(str::to_owned);
        let version = Version::default().etag(etag).last_modified(last_modified).len(len);
        Ok(Ok(RangeReply { answer: RangeResponse::new(bytes.into(), version), url: url.clone() }))
    }
}

fn agent(options: &HttpOptions) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_idle_connections(options.in_flight.saturating_mul(2))
        .max_idle_connections_per_host(options.in_flight)
        .max_response_header_size(64 << 10)
        .accept_encoding("identity")
        .user_agent(concat!("b2kit/", env!("CARGO_PKG_VERSION")))
        .proxy(if options.proxy { Proxy::try_from_env() } else { None });
    Agent::with_parts(config.build(), DefaultConnector::default(), HostResolver::default())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Parses `bytes 0-9/100`. Returns start, end and, if given, the length of the file.
fn content_range(value: &str) -> Option<(u64, u64, Option<u64>)> {
    let (range, len) = value.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (start, end) = (number(first)?, number(last)?.checked_add(1)?);
    let len = match len.trim() {
        "*" => None,
        len => Some(number(len)?),
    };
    (start < end && len.is_none_or(|len| end <= len)).then_some((start, end, len))
}

/// Returns the error for a status other than 206 (partial content).
fn status_error(status: StatusCode, headers: &HeaderMap) -> RequestError {
    let always = |kind, what: String| RequestError::Always(io::Error::new(kind, what));
    match status.as_u16() {
        200..=299 => always(
            io::ErrorKind::Unsupported,
            format!(
                "the server does not support range requests ({}): download the file first",
                status.as_u16()
            ),
        ),
        401 | 403 | 407 => always(
            io::ErrorKind::PermissionDenied,
            format!("the server refuses access ({status}): credentials are missing, wrong or expired"),
        ),
        404 | 410 => always(io::ErrorKind::NotFound, format!("no such file ({status})")),
        412 => always(io::ErrorKind::StaleNetworkFileHandle, "the file has changed (412)".to_owned()),
        416 => always(
            io::ErrorKind::InvalidData,
            "the file is empty, or shorter than when it was opened (416)".to_owned(),
        ),
        408 | 429 | 500 | 502 | 503 | 504 => {
            let after = headers.get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let error = io::Error::other(format!("the server is temporarily unavailable ({status})"));
            RequestError::Now(error, after.map(Duration::from_secs))
        }
        _ => always(io::ErrorKind::Other, format!("the server answered {status}")),
    }
}

/// Returns the error for a request without a response. Its message never contains the URL, which may have secrets.
fn transport_error(error: ureq::Error) -> RequestError {
    use ureq::Error as E;
    let now = |kind, what: String| RequestError::Now(io::Error::new(kind, what), None);
    let unreached =
        |what: &str| RequestError::Unreached(io::Error::new(io::ErrorKind::HostUnreachable, what));
    match error {
        E::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let what = "the connection was refused: no server is listening at this address";
            RequestError::Unreached(io::Error::new(error.kind(), what))
        }
        E::Io(error) => RequestError::Now(connection_error(error), None),
        E::Timeout(what) => now(io::ErrorKind::TimedOut, timeout_message(what).to_owned()),
        E::HostNotFound => unreached("the host cannot be found"),
        E::ConnectionFailed => unreached("the host cannot be reached"),
        E::BadUri(_) | E::Http(_) => RequestError::Always(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a URL that can be requested",
        )),
        other => RequestError::Always(io::Error::other(other.to_string())),
    }
}

/// Describes what timed out.
fn timeout_message(what: ureq::Timeout) -> &'static str {
    use ureq::Timeout as T;
    match what {
        T::Resolve => "timed out while looking up the host",
        T::Connect => "timed out while connecting to the server",
        _ => "timed out: the server did not answer in time",
    }
}

/// Returns the error for a broken connection.
fn connection_error(error: io::Error) -> io::Error {
    let kind = match error.kind() {
        // These kinds have another meaning for callers.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => io::ErrorKind::Other,
        kind => kind,
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    if kind == io::ErrorKind::TimedOut || matches!(inner, Some(ureq::Error::Timeout(_))) {
        return io::Error::new(io::ErrorKind::TimedOut, "timed out before the response was complete");
    }
    let text = error.to_string();
    // The TLS error for a response that is not TLS.
    if text.contains("InvalidContentType") {
        return io::Error::new(kind, "the server does not support https here (try http://)");
    }
    io::Error::new(kind, format!("the connection was lost: {text}"))
}

/// Returns a random fraction of the pause, so that clients do not retry simultaneously.
fn jitter(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let part = RandomState::new().hash_one(0) % 256;
    let most = pause.checked_div(4).unwrap_or_default();
    most.saturating_mul(u32::try_from(part).unwrap_or(0)).checked_div(256).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::content_range;

    #[test]
    fn content_ranges_are_read_strictly() {
        assert_eq!(content_range("bytes 0-9/100"), Some((0, 10, Some(100))));
        assert_eq!(content_range(" bytes 5-5/*"), Some((5, 6, None)));
        let most = u64::MAX;
        for bad in [
            "",
            "bytes",
            "bytes */100",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "items 0-9/100",
            "bytes 0-9",
            "bytes 0-x/100",
            "bytes -1-9/100",
            &format!("bytes 0-{most}/*"),
        ] {
            assert_eq!(content_range(bad), None, "{bad}");
        }
    }
}
