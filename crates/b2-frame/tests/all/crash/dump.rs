//! Lets C-Blosc2 read a sample of the states, and change them, where `B2KIT_PEER` names a Python with blosc2.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use b2_storage_sim::{CrashState, SimFs};
use b2_testkit::Rng;

use super::{Recording, header};

/// The sampled states of one operation, if there is a peer.
pub struct Dump {
    python: Option<OsString>,
    name: String,
    rng: Rng,
    /// States with intact headers, and with torn ones.
    drawn: [Drawn; 2],
}

#[derive(Default)]
struct Drawn {
    /// Each with the digests of the frames that it may hold.
    states: Vec<(CrashState, Vec<String>)>,
    offered: usize,
}

/// Returns how many states of each kind to sample.
fn wanted() -> usize {
    env::var("B2KIT_CRASH_JUDGED").ok().map_or(6, |text| text.parse().expect("B2KIT_CRASH_JUDGED: a number"))
}

impl Dump {
    pub fn new(name: &str) -> Self {
        Self {
            python: env::var_os("B2KIT_PEER"),
            name: name.to_owned(),
            rng: Rng::case(name.len() as u64, 0),
            drawn: Default::default(),
        }
    }

    /// Offers a state to the sample. It holds one of the frames `first` and `first + 1`.
    pub fn offer(&mut self, state: &CrashState, recording: &Recording) {
        let Some(header) = header(&state.image) else { return };
        if self.python.is_none() {
            return;
        }
        let first = state.mark as usize;
        let range = first..recording.frames.len().min(first + 2);
        let whole = recording.headers[range.clone()].iter().any(|wanted| wanted.as_deref() == Some(header));
        let Drawn { states, offered } = &mut self.drawn[usize::from(!whole)];
        *offered += 1;
        // Every state has the same chance.
        let at = if states.len() < wanted() { states.len() } else { self.rng.below(*offered) };
        if at >= wanted() {
            return;
        }
        let digests = recording.frames[range].iter().flatten().map(|frame| frame.digest()).collect();
        match states.get_mut(at) {
            Some(place) => *place = (state.clone(), digests),
            None => states.push((state.clone(), digests)),
        }
    }

    /// Lets C-Blosc2 judge the sample. States with torn headers are repaired first.
    pub fn judge(self) {
        let Some(python) = self.python else { return };
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let mut manifest = fs::File::create(folder.join("states.jsonl")).unwrap();
        for (header, drawn) in ["whole", "repaired"].into_iter().zip(self.drawn) {
            for (i, (state, digests)) in drawn.states.into_iter().enumerate() {
                let fs = SimFs::from_image(&state.image);
                if header == "repaired" {
                    super::reopen::repair(&fs).unwrap();
                }
                let name = format!("{header}-{i}");
                fs.image().dump(&folder.join(&name)).unwrap();
                writeln!(
                    manifest,
                    "{{\"path\": \"{name}{}\", \"how\": {:?}, \"digests\": {digests:?}}}",
                    super::PATH,
                    state.how
                )
                .unwrap();
            }
        }
        drop(manifest);
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../b2-frame/tests/all/crash/check_crashes.py");
        let output = Command::new(python).arg("-B").arg(script).arg(folder).output().unwrap();
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}, C-Blosc2: {said}\n{errors}", self.name);
    }
}
