//! What a request may use of a zone: a mark, flags to go below it, and a highest zone.

use crate::{
    buddy::Reserve,
    types::{Watermark, ZoneKind},
};

/// What entitles a request to go below a mark, or to go about it otherwise: a set of flags, as
/// the field has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AllocFlags(u16);

impl AllocFlags {
    /// None.
    pub(crate) const NONE: AllocFlags = AllocFlags(0);
    /// To half of the mark: urgent requests.
    pub(crate) const MIN_RESERVE: AllocFlags = AllocFlags(1);
    /// A quarter less of what [`AllocFlags::MIN_RESERVE`] leaves, but nothing without that: requests that
    /// cannot wait.
    pub(crate) const NON_BLOCK: AllocFlags = AllocFlags(1 << 1);
    /// To half of what is left then: who was told to die and needs memory to do so.
    pub(crate) const OOM: AllocFlags = AllocFlags(1 << 2);
    /// To the last frame: who is about to free more than it takes.
    pub(crate) const NO_WATERMARKS: AllocFlags = AllocFlags(1 << 3);
    /// To the min watermark without its boost, where [`AllocFlags::MIN_RESERVE`] goes with it: single
    /// frames, which fragment nothing.
    pub(crate) const PAST_BOOST: AllocFlags = AllocFlags(1 << 4);
    /// Background reclaim may be woken on its behalf.
    pub(crate) const KSWAPD: AllocFlags = AllocFlags(1 << 5);
    /// To the high-atomic reserve, before anything else: what that is kept for.
    pub(crate) const HIGH_ATOMIC: AllocFlags = AllocFlags(1 << 6);

    /// To nothing in pageblocks of other types, unless they are free as a whole: a restriction.
    pub(crate) const NO_FRAGMENT: AllocFlags = AllocFlags(1 << 7);

    /// To what is kept ready for huge pages, as all have that go below a mark for any reason.
    pub(crate) const HUGE_RESERVE: AllocFlags = AllocFlags(1 << 8);

    /// Those that change how deep it may go.
    pub(super) const CHANGES_MARK: AllocFlags = AllocFlags(0b1_0001_1111);
    /// Those that are tested against all that is free, the high-atomic reserve included.
    const COUNTS_RESERVE: AllocFlags = AllocFlags(0b100_1111);
    /// Those that may use the high-atomic reserve when there is nothing else.
    const RESERVE_LAST: AllocFlags = AllocFlags(0b1110);

    pub(crate) const fn with(self, more: AllocFlags) -> Self {
        Self(self.0 | more.0)
    }

    /// `more` too, if `on`.
    pub(crate) const fn with_if(self, on: bool, more: AllocFlags) -> Self {
        if on { self.with(more) } else { self }
    }

    /// Whether any of `any` is among them.
    pub(crate) const fn has(self, any: AllocFlags) -> bool {
        self.0 & any.0 != 0
    }
}

/// What a request may use of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZoneAccess {
    /// The mark it is measured against.
    pub(crate) mark: Watermark,
    pub(crate) flags: AllocFlags,
    /// The highest kind of zone it could use: lower zones keep more back from it.
    pub(crate) highest: ZoneKind,
}

impl ZoneAccess {
    /// Everything above a mark.
    pub(crate) const fn above(mark: Watermark, highest: ZoneKind) -> Self {
        Self { mark, flags: AllocFlags::NONE, highest }
    }

    /// Whether the high-atomic reserve counts as free for it. Urgent requests that can wait are
    /// tested like this too, though they may not use it: they have relief to turn to.
    pub(super) const fn counts_reserve(self) -> bool {
        self.flags.has(AllocFlags::COUNTS_RESERVE)
    }

    /// When it may use the high-atomic reserve.
    pub(crate) const fn reserve(self) -> Reserve {
        if self.flags.has(AllocFlags::HIGH_ATOMIC) {
            Reserve::First
        } else if self.flags.has(AllocFlags::RESERVE_LAST) {
            Reserve::Last
        } else {
            Reserve::None
        }
    }
}

/// Why a zone does not serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Too little would be left free.
    BelowWatermark,
    /// No free block is large enough.
    NoBlockOfOrder,
    /// No free block of its own type is, but for what lies in the depot.
    DepotFirst,
}
