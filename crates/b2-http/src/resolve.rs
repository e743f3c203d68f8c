//! Finding the addresses of a host.

use std::sync::mpsc::sync_channel;
use std::thread;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use ureq::unversioned::transport::time::Duration;

/// Looks addresses up on a thread of its own, so that the time limit of the request holds. Where the system has no
/// thread for it, on the calling one, without a limit: ureq's own resolver panics there.
#[derive(Debug, Default)]
pub(crate) struct LookUp(DefaultResolver);

impl Resolver for LookUp {
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
            // Nobody listens any more if it took too long.
            let _ = sender.send(DefaultResolver::default().resolve(&theirs, &options, unlimited));
        };
        match thread::Builder::new().spawn(work) {
            Ok(_) => receiver.recv_timeout(*timeout.after).unwrap_or(Err(Error::Timeout(timeout.reason))),
            Err(_) => self.0.resolve(uri, config, unlimited),
        }
    }
}
