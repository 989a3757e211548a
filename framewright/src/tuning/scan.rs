//! Rules of compaction by two scanners.

/// Repairs of rules of the scanners that were wrong in Linux before 3.14 (six patches of V. Babka,
/// 2013). Each repair can be switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CompactRepairs {
    /// Cached positions are reset *before* a run reads them.
    pub reset_before_read: bool,
    /// The free scanner records its position even if it found nothing, so that a meeting of the
    /// scanners is noticed.
    pub detect_meeting: bool,
    /// A run sets no skip hint on a pageblock of an unsuitable type, because the hint would apply to all runs.
    pub unmarked_types: bool,
    /// Cached positions are reset as soon as the scanners meet.
    pub reset_on_meeting: bool,
}

impl Default for CompactRepairs {
    fn default() -> Self {
        Self {
            reset_before_read: true,
            detect_meeting: true,
            unmarked_types: true,
            reset_on_meeting: true,
        }
    }
}
