//! Kinds of pages, and LRU lists.

use core::fmt;

/// Whether a page belongs to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum PageKind {
    /// An anonymous page: it has to be written to a swap area before it can be reclaimed.
    Anon = 0,
    /// A page of a file: while the page is clean, it can be read again.
    File = 1,
}

impl PageKind {
    /// The number of kinds.
    pub const COUNT: usize = 2;
    /// Both kinds.
    pub const ALL: [PageKind; Self::COUNT] = [Self::Anon, Self::File];

    /// The list of pages of this kind that were not used recently.
    #[must_use]
    pub const fn inactive(self) -> LruList {
        match self {
            Self::Anon => LruList::InactiveAnon,
            Self::File => LruList::InactiveFile,
        }
    }

    /// The list of pages of this kind that were used recently.
    #[must_use]
    pub const fn active(self) -> LruList {
        match self {
            Self::Anon => LruList::ActiveAnon,
            Self::File => LruList::ActiveFile,
        }
    }
}

/// An LRU list of a node, in the order of Linux's counters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum LruList {
    /// Anonymous pages that were not referenced recently.
    InactiveAnon = 0,
    /// Anonymous pages that were referenced recently.
    ActiveAnon = 1,
    /// File pages that were not referenced recently.
    InactiveFile = 2,
    /// File pages that were referenced recently.
    ActiveFile = 3,
    /// Pages that are locked into memory.
    Unevictable = 4,
}

impl LruList {
    /// The number of lists.
    pub const COUNT: usize = 5;
    /// All lists, in order.
    pub const ALL: [LruList; Self::COUNT] = [
        Self::InactiveAnon,
        Self::ActiveAnon,
        Self::InactiveFile,
        Self::ActiveFile,
        Self::Unevictable,
    ];
    /// The lists that reclaim scans.
    pub(crate) const EVICTABLE: [LruList; 4] =
        [Self::InactiveAnon, Self::ActiveAnon, Self::InactiveFile, Self::ActiveFile];

    /// Linux's name for the list.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InactiveAnon => "inactive_anon",
            Self::ActiveAnon => "active_anon",
            Self::InactiveFile => "inactive_file",
            Self::ActiveFile => "active_file",
            Self::Unevictable => "unevictable",
        }
    }

    /// The kind of the pages on the list. For the unevictable list this is `File`, and is not used.
    pub(crate) const fn kind(self) -> PageKind {
        match self {
            Self::InactiveAnon | Self::ActiveAnon => PageKind::Anon,
            _ => PageKind::File,
        }
    }

    pub(crate) const fn is_active(self) -> bool {
        matches!(self, Self::ActiveAnon | Self::ActiveFile)
    }
}

impl fmt::Display for LruList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
