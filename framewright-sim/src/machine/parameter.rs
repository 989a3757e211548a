//! The parameters: their names, units, ranges and meanings.

use std::ops::RangeInclusive;

use super::costs::{Costs, PARAMETERS};

/// The unit of a parameter. In a file, it stands before the number: `{ cycles = 5 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Cycles of the machine's clock.
    Cycles,
    /// Instructions.
    Instructions,
    /// Tenths of an instruction.
    Tenths,
    /// MHz.
    Megahertz,
    /// Microseconds.
    Micros,
    /// KiB.
    Kibibytes,
    /// MB (10^6 bytes) per second.
    MegabytesPerSecond,
    /// Percent.
    Percent,
    /// Misses in flight at once.
    Misses,
}

impl Unit {
    /// The name of the unit in a file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::Tenths => "tenths",
            Self::Megahertz => "mhz",
            Self::Micros => "us",
            Self::Kibibytes => "kib",
            Self::MegabytesPerSecond => "mb_per_s",
            Self::Percent => "percent",
            Self::Misses => "misses",
        }
    }

    /// The range of a parameter of this unit. The upper ends are far above any machine, and far
    /// below an overflow.
    #[must_use]
    pub const fn range(self) -> RangeInclusive<u64> {
        match self {
            Self::Cycles => 0..=10_000_000,
            Self::Instructions | Self::Tenths => 0..=1_000_000,
            Self::Megahertz => 1..=100_000,
            Self::Micros => 1..=10_000_000,
            Self::Kibibytes => 1..=1_048_576,
            Self::MegabytesPerSecond => 1..=100_000_000,
            Self::Percent => 1..=10_000,
            Self::Misses => 1..=1_000,
        }
    }
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name: section and key in a file.
    pub key: &'static str,
    /// The unit of its value.
    pub unit: Unit,
    /// The meaning, in one line.
    pub meaning: &'static str,
    pub(super) field: fn(&mut Costs) -> &mut u64,
}

impl Parameter {
    /// Its section in a file.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its key within the section.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.key.split_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Its value.
    #[must_use]
    pub fn get(&self, costs: &Costs) -> u64 {
        *(self.field)(&mut { *costs })
    }

    /// Sets its value.
    pub(super) fn set(&self, costs: &mut Costs, value: u64) {
        *(self.field)(costs) = value;
    }
}

/// The index and parameter of a key.
pub(super) fn find(key: &str) -> Option<(usize, &'static Parameter)> {
    PARAMETERS.iter().enumerate().find(|(_, parameter)| parameter.key == key)
}

/// The names of the sections.
pub(super) fn sections() -> impl Iterator<Item = &'static str> + Clone {
    let firsts = PARAMETERS.iter().enumerate().filter(|&(index, parameter)| {
        index == 0 || PARAMETERS[index - 1].section() != parameter.section()
    });
    firsts.map(|(_, parameter)| parameter.section())
}
