//! Describes the machine on which the figures were measured.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::sh;

pub(super) struct Machine {
    /// Date as YYYY-MM-DD.
    pub(super) date: String,
    pub(super) lines: Vec<String>,
}

/// Describes processor, memory and programs, without the name of the machine.
pub(super) fn describe(c_version: &str, kernels: &str) -> Result<Machine> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |text: &str, key: &str| -> Option<String> {
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let flags = field(&cpuinfo, "flags").unwrap_or_default();
    let known = ["avx2", "avx512bw", "avx512_vbmi", "gfni"];
    let simd: Vec<&str> = flags.split(' ').filter(|flag| known.contains(flag)).collect();
    let model = field(&cpuinfo, "model name").unwrap_or_else(|| std::env::consts::ARCH.into());
    let family = match (field(&cpuinfo, "cpu family"), field(&cpuinfo, "model\t")) {
        (Some(family), Some(number)) => format!(" (family {family}, model {number})"),
        _ => String::new(),
    };
    let memory = field(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<f64>().ok())
        .map_or_else(String::new, |kib| format!(", {:.0} GiB", kib / f64::from(1 << 20)));
    let lines = vec![
        format!("Machine: {cores} cores of {model}{family}{memory}; {}.", simd.join(", ")),
        format!(
            "C-Blosc2 {c_version}, from the wheel of python-blosc2; b2kit with kernels for {kernels}, {}.",
            rustc()
        ),
        format!("Load at the start: {}.", load()),
    ];
    Ok(Machine { date: today()?, lines })
}

impl Machine {
    /// Adds what is known at the end of the run.
    pub(super) fn finish(&mut self, elapsed: Duration) {
        let minutes = elapsed.as_secs_f64() / 60.0;
        self.lines.push(format!("Load at the end: {}. The run took {minutes:.0} minutes.", load()));
    }
}

pub(super) fn rustc() -> String {
    let output = sh::output(Command::new("rustc").arg("--version"));
    output.map_or_else(|_| "rustc".into(), |text| text.trim().to_owned())
}

/// Returns the load average of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The date as YYYY-MM-DD.
pub(super) fn today() -> Result<String> {
    Ok(sh::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?.trim().to_owned())
}
