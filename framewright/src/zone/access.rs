//! Zone access: the limits of a request on a zone. They are a watermark, flags that let the request
//! go below it, and the highest kind of zone.

use crate::{
    buddy::Reserve,
    types::{Watermark, ZoneKind},
};

/// Flags that let a request go below its watermark or change how it is served. Linux calls this set
/// `alloc_flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AllocFlags(u16);

impl AllocFlags {
    /// No flag.
    pub(crate) const NONE: AllocFlags = AllocFlags(0);
    /// Half of the watermark must stay free, instead of all of it. For urgent requests.
    pub(crate) const MIN_RESERVE: AllocFlags = AllocFlags(1);
    /// Only three quarters of what [`AllocFlags::MIN_RESERVE`] demands must stay free. For requests
    /// that cannot wait. Without `MIN_RESERVE`, this flag has no effect.
    pub(crate) const NON_BLOCK: AllocFlags = AllocFlags(1 << 1);
    /// Half of the frames that the flags above demand must stay free. For tasks that the OOM killer
    /// has chosen, which need memory to exit.
    pub(crate) const OOM: AllocFlags = AllocFlags(1 << 2);
    /// The request may take every frame. For tasks that are about to free more than they allocate.
    pub(crate) const NO_WATERMARKS: AllocFlags = AllocFlags(1 << 3);
    /// The watermark counts without its boost. For single frames, which fragment nothing.
    pub(crate) const PAST_BOOST: AllocFlags = AllocFlags(1 << 4);
    /// Background reclaim may be woken for the request.
    pub(crate) const KSWAPD: AllocFlags = AllocFlags(1 << 5);
    /// The request uses the high-atomic reserve before anything else.
    pub(crate) const HIGH_ATOMIC: AllocFlags = AllocFlags(1 << 6);

    /// A restriction: no block from a pageblock of another type, unless that pageblock is free as a
    /// whole.
    pub(crate) const NO_FRAGMENT: AllocFlags = AllocFlags(1 << 7);

    /// The huge-page reserve may be used. All requests that go below a watermark for another reason
    /// may use it as well.
    pub(crate) const HUGE_RESERVE: AllocFlags = AllocFlags(1 << 8);

    /// Flags that change how much must stay free.
    pub(super) const CHANGES_MARK: AllocFlags = AllocFlags(0b1_0001_1111);
    /// Flags with which the free frames of the high-atomic reserve count as free.
    const COUNTS_RESERVE: AllocFlags = AllocFlags(0b100_1111);
    /// Flags with which the high-atomic reserve is used when nothing else is left.
    const RESERVE_LAST: AllocFlags = AllocFlags(0b1110);

    pub(crate) const fn with(self, more: AllocFlags) -> Self {
        Self(self.0 | more.0)
    }

    /// These flags, and `more` if `on`.
    pub(crate) const fn with_if(self, on: bool, more: AllocFlags) -> Self {
        if on { self.with(more) } else { self }
    }

    /// Whether any flag of `any` is set.
    pub(crate) const fn has(self, any: AllocFlags) -> bool {
        self.0 & any.0 != 0
    }
}

/// The limits of a request on a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZoneAccess {
    /// The watermark that the request is measured against.
    pub(crate) mark: Watermark,
    pub(crate) flags: AllocFlags,
    /// The highest kind of zone that the request could use. A lower zone has a lowmem reserve
    /// against such requests.
    pub(crate) highest: ZoneKind,
}

impl ZoneAccess {
    /// Access to the frames above a watermark, without flags.
    pub(crate) const fn above(mark: Watermark, highest: ZoneKind) -> Self {
        Self { mark, flags: AllocFlags::NONE, highest }
    }

    /// Whether the high-atomic reserve counts as free. It also counts for urgent requests that can
    /// wait, although these must not use it: if nothing else is left, they reclaim and compact.
    pub(super) const fn counts_reserve(self) -> bool {
        self.flags.has(AllocFlags::COUNTS_RESERVE)
    }

    /// Whether, and in which order, the request may use the high-atomic reserve.
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

/// The reason why a zone does not serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Fewer frames than required would stay free.
    BelowWatermark,
    /// No free block is large enough.
    NoBlockOfOrder,
    /// No pageblock of the requested type has a large enough free block, but the depot contains
    /// blocks of that type.
    DepotFirst,
}
