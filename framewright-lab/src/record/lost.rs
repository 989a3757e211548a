//! How many events the kernel lost, from its own books: `per_cpu/cpuN/stats`.

/// Events lost by one or all CPUs, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Overwritten before they were read: the buffer was too small.
    pub overrun: u64,
    /// Not written: the buffer was too small for what interrupts nested.
    pub commit_overrun: u64,
    /// Not written: there was no place.
    pub dropped: u64,
}

impl Lost {
    /// Reads `stats`; what it does not name counts as none.
    pub(super) fn parse(stats: &str) -> Self {
        let of = |key: &str| {
            let value = stats.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            overrun: of("overrun"),
            commit_overrun: of("commit overrun"),
            dropped: of("dropped events"),
        }
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped)
    }

    pub(super) fn add(&mut self, other: Self) {
        self.overrun += other.overrun;
        self.commit_overrun += other.commit_overrun;
        self.dropped += other.dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_are_read_by_name() {
        let stats = "entries: 16\noverrun: 851\ncommit overrun: 2\nbytes: 0\n\
                     oldest event ts: 13048.618785\ndropped events: 3\nread events: 1849\n";
        let lost = Lost::parse(stats);
        assert_eq!(lost, Lost { overrun: 851, commit_overrun: 2, dropped: 3 });
        assert_eq!(lost.total(), 856);
        assert_eq!(Lost::parse("entries: 16\n").total(), 0);
    }
}
