//! The names of watermarks.

use core::fmt;

/// The marks of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Watermark {
    /// Below it, only requests with rights to reserves are served.
    Min,
    /// Below it, background reclaim is woken.
    Low,
    /// Up to it, background reclaim works.
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
