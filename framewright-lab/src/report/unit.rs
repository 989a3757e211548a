//! Units of figures, and their better direction.

use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Occurrences.
    Count,
    /// Frames of 4 KiB.
    Frames,
    /// Frames per acquisition of a lock.
    #[serde(rename = "frames/acquisition")]
    FramesPerAcquisition,
    /// Cycles per frame of 4 KiB.
    #[serde(rename = "cycles/frame")]
    CyclesPerFrame,
    /// Bytes.
    Bytes,
    /// Bytes of metadata per frame managed.
    #[serde(rename = "bytes/frame")]
    BytesPerFrame,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Thousand million bits per second: rates of network links.
    #[serde(rename = "Gbit/s")]
    GigabitsPerSecond,
    /// Percent.
    #[serde(rename = "%")]
    Percent,
    /// Thousandths.
    Thousandths,
    /// Order of a block.
    Order,
    /// A plain ratio.
    Ratio,
}

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
}

impl Better {
    /// Its name in JSON and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
        }
    }
}

impl Unit {
    /// Its name in JSON and CSV.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Frames => "frames",
            Unit::FramesPerAcquisition => "frames/acquisition",
            Unit::CyclesPerFrame => "cycles/frame",
            Unit::Bytes => "bytes",
            Unit::BytesPerFrame => "bytes/frame",
            Unit::Nanos => "ns",
            Unit::Millis => "ms",
            Unit::Seconds => "s",
            Unit::PerSecond => "1/s",
            Unit::BytesPerSecond => "bytes/s",
            Unit::GigabitsPerSecond => "Gbit/s",
            Unit::Percent => "%",
            Unit::Thousandths => "thousandths",
            Unit::Order => "order",
            Unit::Ratio => "ratio",
        }
    }

    /// Number of decimals in tables.
    pub fn decimals(self) -> usize {
        match self {
            Unit::Count | Unit::Frames | Unit::Bytes | Unit::Order => 0,
            Unit::PerSecond | Unit::BytesPerSecond => 0,
            Unit::FramesPerAcquisition | Unit::Nanos | Unit::GigabitsPerSecond | Unit::Percent => 2,
            Unit::CyclesPerFrame => 1,
            Unit::BytesPerFrame | Unit::Thousandths | Unit::Millis | Unit::Seconds => 3,
            // Some ratios are far below one: acquisitions per page.
            Unit::Ratio => 6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_their_names_of_json() {
        for unit in [Unit::FramesPerAcquisition, Unit::PerSecond, Unit::Percent, Unit::Thousandths]
        {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.name());
        }
    }
}
