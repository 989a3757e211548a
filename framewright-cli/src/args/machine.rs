//! Machines.

use std::{fmt, str::FromStr};

/// Every CPU has lists of its own; more of them than this no machine has.
const MOST_CPUS: u16 = 4096;

/// What a workload runs on: threads of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    /// How many threads; `None` for as many as this machine has CPUs.
    cpus: Option<u16>,
}

impl Machine {
    /// How many CPUs the machine has.
    pub(crate) fn cpus(self) -> u16 {
        self.cpus.unwrap_or_else(|| {
            let available = std::thread::available_parallelism().map_or(1, usize::from);
            u16::try_from(available).unwrap_or(MOST_CPUS).min(MOST_CPUS)
        })
    }
}

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, cpus) = match text.split_once(':') {
            Some((kind, cpus)) => (kind, Some(cpus)),
            None => (text, None),
        };
        if kind != "host" {
            return Err("there is: host, and host:N with N threads".to_owned());
        }
        let Some(cpus) = cpus else { return Ok(Self { cpus: None }) };
        match cpus.parse() {
            Ok(cpus) if (1..=MOST_CPUS).contains(&cpus) => Ok(Self { cpus: Some(cpus) }),
            _ => Err(format!("host:N takes 1 to {MOST_CPUS} threads, as in host:2")),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host:{}", self.cpus())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_as_many_cpus_as_asked() {
        assert_eq!("host:3".parse::<Machine>().unwrap().cpus(), 3);
        assert_eq!("host:3".parse::<Machine>().unwrap().to_string(), "host:3");
        assert!("host".parse::<Machine>().unwrap().cpus() >= 1);
    }

    #[test]
    fn refusals_say_what_there_is() {
        for text in ["hots", "", "uniform:4"] {
            assert!(text.parse::<Machine>().unwrap_err().contains("there is: host"), "{text}");
        }
        for text in ["host:", "host:0", "host:-1", "host:5000", "host:many", "host:2:2"] {
            assert!(text.parse::<Machine>().unwrap_err().contains("1 to 4096"), "{text}");
        }
    }
}
