//! What to record, for how long, and where it goes.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args as ArgGroup;
use parse_size::Config;

pub(crate) const EXAMPLES: &str = "\
Records the page allocator's events of the running kernel, whoever causes them, while COMMAND runs, \
for a time, or until Ctrl-C. Needs root and tracefs. Ctrl-C ends the recording and keeps it.

Examples:
  framewright record -o compile -- cargo build --release
  framewright record -o idle --for 10s
  framewright replay compile.txt.zst

Exit codes: that of COMMAND if it failed (128 and the signal's number if a signal ended it); \
otherwise 0 fine, 1 events were lost, 2 nothing could be recorded.";

#[derive(Debug, ArgGroup)]
pub(crate) struct RecordArgs {
    /// Name of the recording: writes NAME.txt.zst, NAME.before and NAME.after
    #[arg(short = 'o', long = "output", value_name = "NAME", default_value = "recording")]
    pub(crate) name: PathBuf,
    /// End the recording after this time, as in 10s or 1m30s; COMMAND runs on to its end
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) limit: Option<Limit>,
    /// Memory of each CPU for events not read yet [default: 64MiB, less on small machines]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) buffer: Option<Buffer>,
    /// Replace a recording of that name
    #[arg(long)]
    pub(crate) force: bool,
    /// What to run meanwhile, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How long to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Duration);

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match humantime::parse_duration(text) {
            Ok(Duration::ZERO) => Err("the time must be longer than nothing, as in 10s".to_owned()),
            Ok(limit) => Ok(Self(limit)),
            Err(_) => Err("a time is a number and a unit, as in 10s, 500ms or 1m30s".to_owned()),
        }
    }
}

/// Bytes of a ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer(pub(crate) u64);

impl Buffer {
    const LEAST: u64 = 64 << 10;
    const MOST: u64 = 16 << 30;
}

impl FromStr for Buffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const AS_IN: &str = "a size is a number and a unit, as in 64MiB or 512K";
        let bytes = Config::new().with_binary().parse_size(text).map_err(|_| AS_IN.to_owned())?;
        match bytes {
            ..Self::LEAST => {
                Err(format!("the least there can be is {}; {AS_IN}", Self(Self::LEAST)))
            }
            Self::LEAST..=Self::MOST => Ok(Self(bytes)),
            _ => Err(format!("the most there can be is {}; {AS_IN}", Self(Self::MOST))),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, millis) in
            [("10s", 10_000), ("500ms", 500), ("1m30s", 90_000), ("1m 30s", 90_000)]
        {
            assert_eq!(text.parse(), Ok(Limit(Duration::from_millis(millis))), "{text}");
        }
        for bad in ["", "10", "-1s", "0s", "soon", "9999999999999999999999s"] {
            assert!(bad.parse::<Limit>().unwrap_err().contains("as in 10s"), "{bad}");
        }
    }

    #[test]
    fn buffers_are_binary_and_bounded() {
        for (text, bytes, shown) in [
            ("64MiB", 64 << 20, "64MiB"),
            ("512K", 512 << 10, "512KiB"),
            ("100000", 100_000, "100000"),
        ] {
            let buffer: Buffer = text.parse().unwrap();
            assert_eq!((buffer.0, buffer.to_string().as_str()), (bytes, shown));
        }
        for (text, hint) in [
            ("63K", "the least there can be is 64KiB"),
            ("17G", "the most there can be is 16GiB"),
            ("-1", "as in 64MiB"),
            ("", "as in 64MiB"),
        ] {
            assert!(text.parse::<Buffer>().unwrap_err().contains(hint), "{text}");
        }
    }
}
