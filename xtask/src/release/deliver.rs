//! Publishing crates one by one: what is there already is skipped, and the registry's limits are waited for.
//!
//! A registry takes a few new crates at once and then one in some minutes, and nothing that was published can be taken
//! back. So a delivery that was broken off goes on where it stopped, and never mixes crates of two states.

use anyhow::{Result, bail, ensure};

use super::days;

/// How long all waits together may take, in seconds: 18 new crates, 10 minutes for each after the first 5, and as much
/// again.
const PATIENCE: u64 = 5 * 3600;
/// How long to wait if the registry does not say until when, in seconds.
const PAUSE: u64 = 600;
/// How long the index may take to show what was published, in seconds, and how often to look.
const SHOWN: (u64, u64) = (300, 15);

/// What a delivery needs of the world.
pub(super) trait World {
    /// Returns the checksum that the index has of this crate in the version that is published.
    fn look(&mut self, name: &str) -> Result<Option<String>>;
    /// Publishes a crate. Returns whether cargo succeeded, and what it said.
    fn publish(&mut self, name: &str) -> Result<(bool, String)>;
    /// Returns the time in seconds since 1970.
    fn now(&mut self) -> u64;
    fn sleep(&mut self, seconds: u64);
}

/// How many crates were published, and how many were there already.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Delivered {
    pub(super) sent: usize,
    pub(super) there: usize,
}

/// What cargo's words mean.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It is published, now or by an earlier try whose answer was lost.
    Published,
    /// The registry takes no more before this time.
    Wait(Option<u64>),
    Refused,
}

/// Publishes crates in this order. Each is given with the checksum of its archive.
pub(super) fn deliver(crates: &[(String, String)], world: &mut dyn World) -> Result<Delivered> {
    let mut waited = 0;
    let mut delivered = Delivered { sent: 0, there: 0 };
    for (name, sum) in crates {
        if let Some(found) = world.look(name)? {
            same(name, sum, &found)?;
            println!("{name}: is in the index with these bytes, skipped");
            delivered.there += 1;
            continue;
        }
        loop {
            let (success, said) = world.publish(name)?;
            match answer(success, &said) {
                Answer::Published => break,
                Answer::Refused => bail!(
                    "{name} cannot be published; {} of {} crates are, and the same command goes on from there: {}",
                    delivered.sent + delivered.there,
                    crates.len(),
                    said.trim()
                ),
                Answer::Wait(until) => {
                    let now = world.now();
                    let pause = until.map_or(PAUSE, |until| until.saturating_sub(now) + 5);
                    waited += pause;
                    ensure!(
                        waited <= PATIENCE,
                        "the registry lets {name} wait too long; the same command goes on later: {}",
                        said.trim()
                    );
                    println!("{name}: the registry takes no more now; WAITING for {pause} s");
                    world.sleep(pause);
                }
            }
        }
        shown(name, sum, world)?;
        delivered.sent += 1;
    }
    Ok(delivered)
}

/// Waits until the index has a crate, and compares its bytes.
fn shown(name: &str, sum: &str, world: &mut dyn World) -> Result<()> {
    let (patience, step) = SHOWN;
    for _ in 0..=patience / step {
        if let Some(found) = world.look(name)? {
            return same(name, sum, &found);
        }
        world.sleep(step);
    }
    bail!(
        "{name} was published, and the index does not show it after {patience} s; run the same command later"
    )
}

fn same(name: &str, sum: &str, found: &str) -> Result<()> {
    ensure!(
        sum == found,
        "{name}: the index has an archive of this version with other bytes ({found}) than the one that was made and tried ({sum})"
    );
    Ok(())
}

/// Says what cargo's words mean.
fn answer(success: bool, said: &str) -> Answer {
    if success || said.contains("already exists on") || said.contains("is already uploaded") {
        return Answer::Published;
    }
    if said.contains("429 Too Many Requests") {
        let until = said.split_once("try again after ").and_then(|(_, rest)| days::of_http(rest));
        return Answer::Wait(until);
    }
    Answer::Refused
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    // Answers that registry and cargo gave to others.
    const TOO_MANY: &str = "error: failed to publish to registry at https://crates.io\n\nCaused by:\n  the remote server responded with an error (status 429 Too Many Requests): You have published too many new crates in a short period of time. Please try again after Thu, 12 Dec 2024 14:24:53 GMT or email help@crates.io to have your limit increased.\n";
    const THERE: &str = "error: crate b2-core@0.1.0 already exists on crates.io index\n";
    const NO_TOKEN: &str = "error: failed to publish b2-core v0.1.0 to registry at https://crates.io\n\nCaused by:\n  the remote server responded with an error (status 403 Forbidden): authentication failed\n";

    #[test]
    fn answers_are_understood() {
        assert_eq!(answer(true, ""), Answer::Published);
        assert_eq!(answer(false, THERE), Answer::Published);
        assert_eq!(answer(false, TOO_MANY), Answer::Wait(Some(1_734_013_493)));
        assert_eq!(answer(false, "status 429 Too Many Requests"), Answer::Wait(None));
        assert_eq!(answer(false, NO_TOKEN), Answer::Refused);
    }

    /// A registry that takes new crates as this one does: some at once, then one in ten minutes.
    #[derive(Default)]
    struct Pretended {
        index: BTreeMap<String, String>,
        order: Vec<String>,
        clock: u64,
        tokens: u64,
        slept: u64,
        /// How long the index lags behind, in looks.
        lag: usize,
        hidden: usize,
        /// What is said to the next.
        refuse: Option<&'static str>,
        forever: bool,
    }

    impl World for Pretended {
        fn look(&mut self, name: &str) -> Result<Option<String>> {
            if self.hidden > 0 && self.index.contains_key(name) {
                self.hidden -= 1;
                return Ok(None);
            }
            Ok(self.index.get(name).cloned())
        }
        fn publish(&mut self, name: &str) -> Result<(bool, String)> {
            if let Some(said) = self.refuse {
                return Ok((false, said.to_owned()));
            }
            if self.tokens == 0 && (self.clock < 600 || self.forever) {
                return Ok((false, "(status 429 Too Many Requests)".to_owned()));
            }
            if self.tokens == 0 {
                self.clock = 0
            } else {
                self.tokens -= 1
            }
            self.order.push(name.to_owned());
            self.index.insert(name.to_owned(), format!("sum of {name}"));
            self.hidden = self.lag;
            Ok((true, String::new()))
        }
        fn now(&mut self) -> u64 {
            self.clock
        }
        fn sleep(&mut self, seconds: u64) {
            self.clock += seconds;
            self.slept += seconds;
        }
    }

    fn crates(names: &[&str]) -> Vec<(String, String)> {
        names.iter().map(|name| ((*name).to_owned(), format!("sum of {name}"))).collect()
    }

    #[test]
    fn limits_are_waited_for_and_the_order_is_kept() {
        let mut world = Pretended { tokens: 2, lag: 2, ..Default::default() };
        let done = deliver(&crates(&["c", "a", "d", "b"]), &mut world).unwrap();
        assert_eq!(done, Delivered { sent: 4, there: 0 });
        assert_eq!(world.order, ["c", "a", "d", "b"]);
        // Two waits for the limit, and two looks for each.
        assert!(world.slept >= 2 * 600 && world.slept <= 2 * 600 + 8 * SHOWN.1, "{}", world.slept);
    }

    #[test]
    fn what_is_there_is_skipped_and_never_sent_again() {
        let mut world = Pretended { tokens: 9, ..Default::default() };
        world.index.insert("a".into(), "sum of a".into());
        let done = deliver(&crates(&["a", "b"]), &mut world).unwrap();
        assert_eq!((done, &*world.order), (Delivered { sent: 1, there: 1 }, &["b".to_owned()][..]));
    }

    #[test]
    fn other_bytes_in_the_index_stop_it() {
        let mut world = Pretended { tokens: 9, ..Default::default() };
        world.index.insert("a".into(), "another".into());
        let error = deliver(&crates(&["a", "b"]), &mut world).unwrap_err().to_string();
        assert!(error.contains("other bytes") && world.order.is_empty(), "{error}");
    }

    #[test]
    fn a_registry_that_refuses_or_never_takes_more_ends_it() {
        let mut world = Pretended { refuse: Some(NO_TOKEN), ..Default::default() };
        let error = deliver(&crates(&["a"]), &mut world).unwrap_err().to_string();
        assert!(error.contains("403 Forbidden") && error.contains("0 of 1 crates"), "{error}");
        let mut world = Pretended { forever: true, ..Default::default() };
        let error = deliver(&crates(&["a"]), &mut world).unwrap_err().to_string();
        assert!(error.contains("wait too long") && world.slept <= PATIENCE, "{error}");
        let mut world = Pretended { tokens: 1, lag: usize::MAX, ..Default::default() };
        let error = deliver(&crates(&["a"]), &mut world).unwrap_err().to_string();
        assert!(error.contains("does not show it"), "{error}");
    }
}
