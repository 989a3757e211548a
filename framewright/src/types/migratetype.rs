//! Migratetypes.

use core::fmt;

/// The mobility of the contents of a block. Blocks of one type share pageblocks.
///
/// The numbers are those of Linux without CMA, because they appear in traces.
///
/// # Example
///
/// ```
/// use framewright::{MigrateType, Order, Request};
///
/// let page_of_a_program = Request::new(Order::ZERO, MigrateType::Movable);
/// let page_table = Request::new(Order::ZERO, MigrateType::Unmovable).zeroed();
/// let cached_inode = Request::new(Order::ZERO, MigrateType::Reclaimable);
/// # let _ = (page_of_a_program, page_table, cached_inode);
/// assert_eq!(MigrateType::from_number(2), Some(MigrateType::Reclaimable));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum MigrateType {
    /// The contents cannot be moved.
    Unmovable = 0,
    /// The contents can be moved to other frames.
    Movable = 1,
    /// The contents cannot be moved, but can be reclaimed.
    Reclaimable = 2,
    /// Reserved for high-order atomic requests ([`Request::atomic`](crate::Request::atomic)). Requests
    /// cannot name it.
    HighAtomic = 3,
    /// Isolated from allocation. Requests cannot name it.
    Isolate = 4,
}

impl MigrateType {
    /// The number of types.
    pub const COUNT: usize = 5;
    /// The types that requests may name.
    pub const REQUESTABLE: [MigrateType; 3] =
        [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
    /// The number of types with lists in the buddy: all but [`MigrateType::Isolate`].
    pub(crate) const LISTED: usize = 4;
    /// The number of types with per-CPU lists.
    pub(crate) const PCP: usize = 3;

    /// The type with this number.
    #[must_use]
    #[inline(always)]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unmovable,
            1 => Self::Movable,
            2 => Self::Reclaimable,
            3 => Self::HighAtomic,
            4 => Self::Isolate,
            _ => return None,
        })
    }

    /// The name that the kernel prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmovable => "Unmovable",
            Self::Movable => "Movable",
            Self::Reclaimable => "Reclaimable",
            Self::HighAtomic => "HighAtomic",
            Self::Isolate => "Isolate",
        }
    }

    /// All types, in order.
    pub fn all() -> impl Iterator<Item = MigrateType> {
        (0..Self::COUNT as u8).filter_map(Self::from_number)
    }

    /// Whether requests may name the type.
    #[must_use]
    pub const fn is_requestable(self) -> bool {
        (self as u8) < Self::PCP as u8
    }

    /// Whether a free pageblock of this type may form one larger block with free pageblocks of
    /// other such types.
    #[inline(always)]
    pub(crate) const fn mixes(self) -> bool {
        self.is_requestable()
    }

    /// The fallback types of a type that has no free blocks, best first.
    pub(crate) const fn fallbacks(self) -> &'static [MigrateType] {
        match self {
            Self::Unmovable => &[Self::Reclaimable, Self::Movable],
            Self::Movable => &[Self::Reclaimable, Self::Unmovable],
            Self::Reclaimable => &[Self::Unmovable, Self::Movable],
            Self::HighAtomic | Self::Isolate => &[],
        }
    }

    /// The index of the type's lists in the buddy, if it has any.
    #[inline(always)]
    pub(crate) const fn listed(self) -> Option<usize> {
        match self {
            Self::Isolate => None,
            listed => Some(listed as usize),
        }
    }
}

impl fmt::Display for MigrateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
