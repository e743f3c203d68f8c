//! Describes the machine on which the figures were measured.

use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(super) struct Machine {
    /// Date as YYYY-MM-DD.
    pub(super) date: String,
    pub(super) lines: Vec<String>,
}

/// Describes processor, memory and programs, without the name of the machine.
pub(super) fn describe(c_version: &str, kernels: &str) -> Machine {
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
    let mut lines = vec![
        format!("Machine: {cores} cores of {model}{family}{memory}; {}.", simd.join(", ")),
        format!(
            "C-Blosc2 {c_version}, from the wheel of python-blosc2; b2kit with kernels for {kernels}, {}.",
            rustc()
        ),
    ];
    lines.push(format!("Load at the start: {}.", load()));
    Machine { date: today(), lines }
}

impl Machine {
    /// Adds what is known at the end of the run.
    pub(super) fn finish(&mut self, elapsed: Duration) {
        let minutes = elapsed.as_secs_f64() / 60.0;
        self.lines.push(format!("Load at the end: {}. The run took {minutes:.0} minutes.", load()));
    }
}

fn rustc() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output.map_or_else(|_| "rustc".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the load average of the last minute.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Converts days since 1970-01-01 to year, month and day.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        assert_eq!(super::civil(0), (1970, 1, 1));
        assert_eq!(super::civil(59), (1970, 3, 1));
        assert_eq!(super::civil(11_016), (2000, 2, 29));
        assert_eq!(super::civil(20_819), (2027, 1, 1));
    }
}
