//! Values of options: whole numbers, sizes of memory, virtual times.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use framewright_lab::{choice::Choice, simulated::Plan};
use parse_size::{Config, Error as SizeError};
use std::{fmt, str::FromStr, time::Duration};

/// One pageblock, 2 MiB: the unit in which memory is managed.
const PAGEBLOCK: u64 = 2 << 20;
/// One frame, 4 KiB.
const FRAME: u64 = 4 << 10;
/// Eight pageblocks: smaller memory has nothing left above the watermarks.
const LEAST: u64 = 16 << 20;
/// The size of a 52-bit physical address space.
const MOST: u64 = 1 << 52;

const AS_IN: &str = "a number and a unit up to PiB, as in 4GiB or 512M";

/// An amount of memory in bytes: whole pageblocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory(u64);

impl Memory {
    /// The amount in frames.
    pub(crate) fn frames(self) -> u64 {
        self.0 / FRAME
    }
}

impl FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = bytes(text)?;
        if bytes < LEAST {
            return Err(format!("the minimum is {}; a size is {AS_IN}", Self(LEAST)));
        }
        if bytes > MOST {
            return Err(too_much());
        }
        if !bytes.is_multiple_of(PAGEBLOCK) {
            let nearest = (bytes + PAGEBLOCK / 2) / PAGEBLOCK * PAGEBLOCK;
            return Err(format!(
                "memory is managed in pageblocks of 2MiB; nearest valid value: {}",
                Self(nearest)
            ));
        }
        Ok(Self(bytes))
    }
}

/// Any number of bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    // K, M, G are powers of 1024, as on the kernel command line.
    match Config::new().with_binary().parse_size(text) {
        Ok(bytes) => Ok(bytes),
        Err(SizeError::PosOverflow) => Err(too_much()),
        Err(_) => Err(format!("a size is {AS_IN}")),
    }
}

fn too_much() -> String {
    format!("the maximum is {}; a size is {AS_IN}", Memory(MOST))
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB")];
        match UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The number in `text`, if it consists of digits and fits into `T`.
pub(crate) fn whole<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The minimum of the measured virtual time. Shorter runs contain hardly any allocations.
const SHORTEST: Duration = Duration::from_micros(100);

/// Reads one of the values of a [`Choice`].
pub(crate) fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    let values =
        T::ALL.iter().map(|(_, name, meaning)| PossibleValue::new(*name).help(meaning.trim()));
    let named = |text: String| T::ALL.iter().find(|(_, name, _)| *name == text);
    PossibleValuesParser::new(values).map(move |text| named(text).expect("a possible value").0)
}

/// The measured part of the virtual time, in nanoseconds.
pub(crate) fn window(text: &str) -> Result<u64, String> {
    let window = warm_up(text)?;
    if u128::from(window) < SHORTEST.as_nanos() {
        return Err(format!(
            "the minimum is {}us: a shorter run allocates hardly any pages",
            SHORTEST.as_micros()
        ));
    }
    Ok(window)
}

/// The virtual time of the warm-up, in nanoseconds.
pub(crate) fn warm_up(text: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; a time is a number and a unit, as in 50ms"))?;
    let most = Duration::from_nanos(Plan::MOST);
    if time > most {
        return Err(format!(
            "the maximum is {}: simulating a second of a server with 224 CPUs takes about ten \
             seconds here, and a second is enough for all figures",
            humantime::format_duration(most)
        ));
    }
    Ok(u64::try_from(time.as_nanos()).unwrap_or(Plan::MOST))
}

#[cfg(test)]
mod tests {
    use framewright_lab::high_alloc::Flags;

    use super::*;

    #[test]
    fn sizes_are_binary_and_print_as_they_are_written() {
        for (text, bytes, shown) in [
            ("4GiB", 4 << 30, "4GiB"),
            ("512M", 512 << 20, "512MiB"),
            ("1.5g", 3 << 29, "1536MiB"),
            ("1TB", 1 << 40, "1TiB"),
            ("33554432", 32 << 20, "32MiB"),
        ] {
            let memory: Memory = text.parse().unwrap();
            assert_eq!((memory.frames() * FRAME, memory.to_string().as_str()), (bytes, shown));
        }
    }

    #[test]
    fn choices_are_read_by_their_names() {
        let read = |name| {
            let arg = clap::Arg::new("flags").value_parser(choice::<Flags>());
            let matches = clap::Command::new("t").arg(arg).try_get_matches_from(["t", name]);
            matches.map(|matches| *matches.get_one::<Flags>("flags").unwrap())
        };
        assert_eq!(read("default").unwrap(), Flags::Default);
        assert_eq!(read("thp").unwrap(), Flags::Thp);
        let refusal = read("large").unwrap_err().to_string();
        assert!(refusal.contains("[possible values: default, thp]"), "{refusal}");
    }

    #[test]
    fn refusals_name_valid_values() {
        for (text, hint) in [
            ("much", "a size is a number and a unit"),
            ("-4GiB", "a size is a number and a unit"),
            ("", "a size is a number and a unit"),
            ("1ZiB", "up to PiB, as in 4GiB"),
            ("-1", "as in 4GiB"),
            ("99999999999999999999", "the maximum is 4PiB"),
            ("99999999999999999999G", "the maximum is 4PiB"),
            ("8MiB", "the minimum is 16MiB"),
            ("5PiB", "the maximum is 4PiB"),
            ("17M", "nearest valid value: 18MiB"),
            ("64MiB1", "a size is a number and a unit"),
        ] {
            let error = text.parse::<Memory>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }

    #[test]
    fn digits_and_nothing_else() {
        assert_eq!(whole::<u16>("512"), Some(512));
        for text in ["", "+4", "-4", " 4", "4 ", "70000", "1e3"] {
            assert_eq!(whole::<u16>(text), None, "{text}");
        }
    }

    #[test]
    fn times_have_bounds() {
        assert_eq!((window("50ms"), window("10m")), (Ok(50_000_000), Ok(Plan::MOST)));
        assert_eq!(warm_up("0ms"), Ok(0));
        for (text, hint) in [
            ("50us", "the minimum is 100us"),
            ("0ms", "the minimum is 100us"),
            ("601s", "the maximum is 10m"),
            ("1000000h", "the maximum is 10m"),
            ("99999999999999999999h", "as in 50ms"),
            ("soon", "as in 50ms"),
            ("", "as in 50ms"),
        ] {
            let error = window(text).unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
