//! Rules of compaction by two scanners.

/// Rules of the scanners that were wrong until Linux 3.14, which took six patches of V. Babka (2013);
/// each can be put back as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompactRepairs {
    /// Cached positions are reset *before* a run reads them.
    pub reset_before_read: bool,
    /// The free scanner says how far it came even if it found nothing, so that a meeting of the
    /// scanners is noticed.
    pub detect_meeting: bool,
    /// What is left alone for its type is not marked to be skipped by everybody.
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
