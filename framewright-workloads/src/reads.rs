//! [`Reads`]: the accesses of a task of `mmap-read`.

use crate::Part;

/// Accesses between two reports of progress.
const STRIDE: u64 = 4096;

/// The accesses of a task of `mmap-read`, in order: in each of several passes, all pages of its
/// part, ascending.
#[derive(Clone, Debug)]
pub struct Reads {
    part: Part,
    passes: u64,
    pass: u64,
    at: u64,
}

/// An access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// The number of the pass, from 0.
    pub pass: u64,
    /// The page of the mapping.
    pub page: u64,
    /// The number of accesses before this one, if progress is to be reported now.
    pub progress: Option<u64>,
}

impl Reads {
    /// The accesses to a part.
    #[must_use]
    pub const fn new(part: Part, passes: u64) -> Self {
        Self { part, passes, pass: 0, at: 0 }
    }

    /// The number of the mapping.
    #[must_use]
    pub const fn mapping(&self) -> usize {
        self.part.mapping
    }

    /// Number of accesses in all passes.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.part.pages * self.passes
    }
}

impl Iterator for Reads {
    type Item = Read;

    #[inline]
    fn next(&mut self) -> Option<Read> {
        if self.at == self.part.pages {
            (self.at, self.pass) = (0, self.pass + 1);
        }
        if self.pass >= self.passes || self.part.pages == 0 {
            return None;
        }
        let (pass, at) = (self.pass, self.at);
        self.at += 1;
        let progress = at.is_multiple_of(STRIDE).then(|| pass * self.part.pages + at);
        Some(Read { pass, page: self.part.first + at, progress })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sharing;

    #[test]
    fn each_page_is_read_once_per_pass() {
        let mut reads = Reads::new(Sharing::Shared.part(2, 3), 2);
        assert_eq!((reads.mapping(), reads.total()), (0, 6));
        for (pass, page) in [(0, 6), (0, 7), (0, 8), (1, 6), (1, 7), (1, 8)] {
            let progress = (page == 6).then_some(3 * pass);
            assert_eq!(reads.next(), Some(Read { pass, page, progress }));
        }
        assert_eq!((reads.next(), reads.next()), (None, None));
        assert_eq!(Reads::new(Sharing::Private.part(0, 0), 2).next(), None);
    }
}
