//! Areas: what is behind the pages of an address space.

/// What is behind the pages of an area.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backing {
    /// Nothing: pages are zeroed when they are first touched.
    Anonymous,
    /// The file there is, from its first page on.
    File,
}

/// Neighbouring pages with the same kind of thing behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    /// First page.
    pub(crate) first: u64,
    /// How many.
    pub(crate) pages: u64,
    pub(crate) backing: Backing,
    pub(crate) writable: bool,
}

impl Area {
    /// Pages for a program's own data.
    pub(crate) const fn anonymous(first: u64, pages: u64) -> Self {
        Self { first, pages, backing: Backing::Anonymous, writable: true }
    }

    /// The first pages of the file there is, from page 0 on.
    pub(crate) const fn file(pages: u64) -> Self {
        Self { first: 0, pages, backing: Backing::File, writable: true }
    }

    /// Whether a page is in it.
    #[inline(always)]
    pub(crate) const fn contains(&self, page: u64) -> bool {
        page.wrapping_sub(self.first) < self.pages
    }
}
