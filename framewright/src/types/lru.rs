//! Kinds of pages and of lists.

use core::fmt;

/// What is behind a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum PageKind {
    /// Nothing: it has to be written to a swap area before it can go.
    Anon = 0,
    /// A file: while it is clean it can be read again.
    File = 1,
}

impl PageKind {
    /// How many there are.
    pub const COUNT: usize = 2;
    /// Both of them.
    pub const ALL: [PageKind; Self::COUNT] = [Self::Anon, Self::File];

    /// Its list of pages that were not used lately.
    #[must_use]
    pub const fn inactive(self) -> LruList {
        match self {
            Self::Anon => LruList::InactiveAnon,
            Self::File => LruList::InactiveFile,
        }
    }

    /// Its list of pages that were.
    #[must_use]
    pub const fn active(self) -> LruList {
        match self {
            Self::Anon => LruList::ActiveAnon,
            Self::File => LruList::ActiveFile,
        }
    }
}

/// A list of the pages of a node, in the kernel's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum LruList {
    /// Anonymous pages that were not used lately.
    InactiveAnon = 0,
    /// Anonymous pages that were.
    ActiveAnon = 1,
    /// Pages of files that were not used lately.
    InactiveFile = 2,
    /// Pages of files that were.
    ActiveFile = 3,
    /// Pages that are locked into memory.
    Unevictable = 4,
}

impl LruList {
    /// How many there are.
    pub const COUNT: usize = 5;
    /// All of them, in order.
    pub const ALL: [LruList; Self::COUNT] = [
        Self::InactiveAnon,
        Self::ActiveAnon,
        Self::InactiveFile,
        Self::ActiveFile,
        Self::Unevictable,
    ];
    /// Those that reclaim looks through.
    pub(crate) const EVICTABLE: [LruList; 4] =
        [Self::InactiveAnon, Self::ActiveAnon, Self::InactiveFile, Self::ActiveFile];

    /// The kernel's name for it.
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

    /// What is behind its pages; file for the unevictable, which nobody asks about.
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
