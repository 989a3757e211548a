//! Areas: ranges of an address space with the same backing.

/// The backing of the pages of an area.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backing {
    /// No file: pages are zeroed at the first access.
    Anonymous,
    /// The open file, from its first page on.
    File,
}

/// Consecutive pages with the same backing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// First page.
    pub(crate) first: u64,
    /// The number of pages.
    pub(crate) pages: u64,
    pub(crate) backing: Backing,
    pub(crate) writable: bool,
}

impl Area {
    /// Pages of a program's own data.
    pub(crate) const fn anonymous(first: u64, pages: u64) -> Self {
        Self { first, pages, backing: Backing::Anonymous, writable: true }
    }

    /// The first pages of the open file, mapped from page 0 on.
    pub(crate) const fn file(pages: u64) -> Self {
        Self { first: 0, pages, backing: Backing::File, writable: true }
    }

    /// Whether the area contains a page.
    #[inline(always)]
    pub(crate) const fn contains(&self, page: u64) -> bool {
        page.wrapping_sub(self.first) < self.pages
    }
}
