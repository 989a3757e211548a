//! The names of watermarks.

use core::fmt;

/// The watermarks of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Watermark {
    /// Below min, only requests that may use reserves are served.
    Min,
    /// Below low, background reclaim is woken.
    Low,
    /// Background reclaim stops at high.
    High,
}

impl fmt::Display for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Watermark::Min => "min",
            Watermark::Low => "low",
            Watermark::High => "high",
        })
    }
}
