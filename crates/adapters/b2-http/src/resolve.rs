//! Looks up the addresses of a host.

use std::sync::mpsc::sync_channel;
use std::thread;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::unversioned::transport::time::Duration;

/// Looks up addresses on a separate thread, so that the time limit of the request holds. If no thread can be started,
/// it uses the calling thread without a limit, because ureq's own resolver would panic.
#[derive(Debug, Default)]
pub(crate) struct HostResolver(DefaultResolver);

impl Resolver for HostResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        // Without a time limit the resolver starts no thread.
        let unlimited = NextTimeout { after: Duration::NotHappening, ..timeout };
        let (sender, receiver) = sync_channel(1);
        let (theirs, options) = (uri.clone(), config.clone());
        let work = move || {
            // After a timeout the receiver is gone, so sending may fail.
            let _ = sender.send(DefaultResolver::default().resolve(&theirs, &options, unlimited));
        };
        let found = match thread::Builder::new().spawn(work) {
            Ok(_) => receiver.recv_timeout(*timeout.after).unwrap_or(Err(Error::Timeout(timeout.reason))),
            Err(_) => self.0.resolve(uri, config, unlimited),
        };
        // The system's error for an unknown name.
        found.map_err(|error| if let Error::Io(_) = error { Error::HostNotFound } else { error })
    }
}
