//! Events: the bodies of the kernel's `kmem` tracepoints, with the flags of requests.
//!
//! `page=` is a hash and does not identify a page: events refer to the same page by `pfn=`.
//!
//! Flags are parsed from `gfp_flags=GFP_KERNEL|__GFP_ZERO|…`; only those that a replay can use are
//! stored. The kernel prints composite names first, then single bits, then a hexadecimal rest.
//! Numeric values differ between releases and are ignored.

use std::ops::BitOr;

use super::{
    error::LineProblem,
    number::{self, Fields, aligned, find, required},
};

/// One event of the page allocator. Frame numbers and orders are the recorded machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `mm_page_alloc`: 2^order frames were allocated.
    Alloc {
        /// First frame.
        pfn: u64,
        /// Order of the block.
        order: u8,
        /// The request's migratetype, in the kernel's numbering.
        migratetype: u8,
        /// Flags of the request.
        gfp: GfpFlags,
    },
    /// `mm_page_alloc` with a null page: the request failed.
    AllocFailed {
        /// Requested order.
        order: u8,
        /// The request's migratetype.
        migratetype: u8,
        /// Flags of the request.
        gfp: GfpFlags,
    },
    /// `mm_page_free`: 2^order frames were freed.
    Free {
        /// First frame.
        pfn: u64,
        /// Order of the block.
        order: u8,
    },
    /// `mm_page_free_batched`: accompanies an [`Event::Free`] on the batched path and frees nothing
    /// by itself. Its order is always 0, for blocks of any order.
    FreeBatched {
        /// First frame.
        pfn: u64,
    },
    /// `mm_page_alloc_zone_locked`: a block left the zone's free lists under the zone lock.
    ZoneLocked {
        /// First frame.
        pfn: u64,
        /// Order of the block.
        order: u8,
        /// Migratetype of the list.
        migratetype: u8,
        /// The kernel's guess whether this was part of a per-CPU refill.
        percpu_refill: bool,
    },
    /// `mm_page_pcpu_drain`: a block went from a CPU's list back to the zone.
    PcpuDrain {
        /// First frame.
        pfn: u64,
        /// Order of the block.
        order: u8,
        /// Migratetype of its pageblock.
        migratetype: u8,
    },
    /// `mm_page_alloc_extfrag`: a block was claimed or stolen from another migratetype.
    ExtFrag {
        /// First frame of the found block.
        pfn: u64,
        /// Requested order.
        alloc_order: u8,
        /// Order of the found block.
        fallback_order: u8,
        /// Order of a pageblock on the recorded machine.
        pageblock_order: u8,
        /// Requested migratetype.
        alloc_migratetype: u8,
        /// Migratetype of the found block's list.
        fallback_migratetype: u8,
        /// Whether the found block is smaller than a pageblock.
        fragmenting: bool,
        /// Whether the pageblock has the requester's type afterwards: claimed rather than stolen.
        change_ownership: bool,
    },
    /// `contention_begin`: a CPU begins to wait for a lock.
    ContentionBegin {
        /// A number of the lock, the same in all events of a recording.
        lock: u64,
        /// Whether the CPU spins; otherwise the task sleeps.
        spins: bool,
    },
    /// `contention_end`: the wait is over.
    ContentionEnd {
        /// The number of the lock.
        lock: u64,
    },
    /// `mm_zone_locked`, which is proposed: a CPU has acquired a zone lock.
    ZoneWait {
        /// The time for which it has waited.
        nanos: u64,
    },
    /// Any other event: skipped, counted by name.
    Other,
}

/// The events that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Alloc,
    Free,
    FreeBatched,
    ZoneLocked,
    PcpuDrain,
    ExtFrag,
    ContentionBegin,
    ContentionEnd,
    ZoneWait,
    Other,
}

impl Kind {
    /// The kind of the event called `name`.
    #[inline]
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"mm_page_alloc" => Self::Alloc,
            b"mm_page_free" => Self::Free,
            b"mm_page_free_batched" => Self::FreeBatched,
            b"mm_page_alloc_zone_locked" => Self::ZoneLocked,
            b"mm_page_pcpu_drain" => Self::PcpuDrain,
            b"mm_page_alloc_extfrag" => Self::ExtFrag,
            b"contention_begin" => Self::ContentionBegin,
            b"contention_end" => Self::ContentionEnd,
            b"mm_zone_locked" => Self::ZoneWait,
            _ => Self::Other,
        }
    }
}

impl Event {
    /// Reads the body of an event.
    #[inline]
    pub(super) fn parse(
        kind: Kind,
        body: &[u8],
        flags: &mut RecentFlags,
    ) -> Result<Self, LineProblem> {
        match kind {
            Kind::Alloc => alloc(body, flags),
            Kind::Free => free(body),
            Kind::FreeBatched => Fields::read(body)?.pfn().map(|pfn| Self::FreeBatched { pfn }),
            Kind::ZoneLocked => zone_locked(body),
            Kind::PcpuDrain => pcpu_drain(body),
            Kind::ExtFrag => extfrag(body),
            Kind::ContentionBegin => Ok(contention_begin(body)),
            Kind::ContentionEnd => {
                Ok(lock(body).map_or(Self::Other, |lock| Self::ContentionEnd { lock }))
            }
            Kind::ZoneWait => match find(body, "wait_ns") {
                b"" => Ok(Self::Other),
                nanos => number::number("wait_ns", nanos).map(|nanos| Self::ZoneWait { nanos }),
            },
            Kind::Other => Ok(Self::Other),
        }
    }
}

fn alloc(body: &[u8], flags: &mut RecentFlags) -> Result<Event, LineProblem> {
    let fields = Fields::read(body)?;
    let order = fields.order()?;
    let migratetype = fields.migratetype()?;
    let gfp = flags.parse(required("gfp_flags", fields.gfp_flags)?);
    // The kernel prints frame 0 for a null page; frame 0 itself is never allocated on a PC.
    match fields.pfn()? {
        0 => Ok(Event::AllocFailed { order, migratetype, gfp }),
        pfn => Ok(Event::Alloc { pfn: aligned(pfn, order, fields.pfn)?, order, migratetype, gfp }),
    }
}

fn free(body: &[u8]) -> Result<Event, LineProblem> {
    let fields = Fields::read(body)?;
    let order = fields.order()?;
    Ok(Event::Free { pfn: aligned(fields.pfn()?, order, fields.pfn)?, order })
}

fn zone_locked(body: &[u8]) -> Result<Event, LineProblem> {
    let fields = Fields::read(body)?;
    Ok(Event::ZoneLocked {
        pfn: fields.pfn()?,
        order: fields.order()?,
        migratetype: fields.migratetype()?,
        percpu_refill: number::flag(
            "percpu_refill",
            required("percpu_refill", fields.percpu_refill)?,
        )?,
    })
}

fn pcpu_drain(body: &[u8]) -> Result<Event, LineProblem> {
    let fields = Fields::read(body)?;
    Ok(Event::PcpuDrain {
        pfn: fields.pfn()?,
        order: fields.order()?,
        migratetype: fields.migratetype()?,
    })
}

/// The number of a lock: the first word. Kernels hide it until they have a secret to hash it with.
fn lock(body: &[u8]) -> Option<u64> {
    let word = body.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    let word = std::str::from_utf8(word).ok()?;
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

/// `000000004de4d364 (flags=SPIN)`, with several flags as in `SPIN|READ`.
fn contention_begin(body: &[u8]) -> Event {
    let Some(lock) = lock(body) else { return Event::Other };
    let flags = memchr::memmem::find(body, b"flags=").map_or(&b""[..], |at| &body[at + 6..]);
    let flags = flags.split(|byte| *byte == b')').next().unwrap_or_default();
    let spins = flags.split(|byte| *byte == b'|').any(|flag| flag == b"SPIN");
    Event::ContentionBegin { lock, spins }
}

/// The event is rare, so each key is searched separately.
fn extfrag(body: &[u8]) -> Result<Event, LineProblem> {
    let order = |key| number::order(key, required(key, find(body, key))?);
    let migratetype = |key| number::migratetype(key, required(key, find(body, key))?);
    let flag = |key| number::flag(key, required(key, find(body, key))?);
    Ok(Event::ExtFrag {
        pfn: number::pfn(required("pfn", find(body, "pfn"))?)?,
        alloc_order: order("alloc_order")?,
        fallback_order: order("fallback_order")?,
        pageblock_order: order("pageblock_order")?,
        alloc_migratetype: migratetype("alloc_migratetype")?,
        fallback_migratetype: migratetype("fallback_migratetype")?,
        fragmenting: flag("fragmenting")?,
        change_ownership: flag("change_ownership")?,
    })
}

/// The flags of a recorded request that matter to an allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GfpFlags(u16);

impl GfpFlags {
    /// No flags: may not wait, may not use reserves.
    pub const NONE: Self = Self(0);
    /// The caller can wait for direct reclaim and compaction.
    pub const DIRECT_RECLAIM: Self = Self(1 << 0);
    /// The caller is urgent and may use part of the reserve (`GFP_ATOMIC`, `__GFP_HIGH`).
    pub const HIGH: Self = Self(1 << 1);
    /// The frames must be zeroed.
    pub const ZERO: Self = Self(1 << 2);
    /// Fail early.
    pub const NORETRY: Self = Self(1 << 3);
    /// Try hard, then fail.
    pub const RETRY_MAYFAIL: Self = Self(1 << 4);
    /// Never fail.
    pub const NOFAIL: Self = Self(1 << 5);
    /// May use all of the reserve: the allocation will free memory.
    pub const MEMALLOC: Self = Self(1 << 6);
    /// Only memory below 16 MiB.
    pub const DMA: Self = Self(1 << 7);
    /// Only memory below 4 GiB.
    pub const DMA32: Self = Self(1 << 8);
    /// Also memory that the kernel does not map.
    pub const HIGHMEM: Self = Self(1 << 9);
    /// The contents can be moved.
    pub const MOVABLE: Self = Self(1 << 10);

    /// All bits are less.
    pub(crate) const LIMIT: u16 = 1 << 11;

    /// The flags as a number.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// The flags with this number.
    pub(crate) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Parses the kernel's text. Unknown names are from later kernels and are ignored.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut flags = Self::NONE;
        for name in text.split(|&byte| byte == b'|') {
            flags = flags | Self::named(name);
        }
        flags
    }

    fn named(name: &[u8]) -> Self {
        let user = Self::DIRECT_RECLAIM | Self::HIGHMEM;
        match name {
            b"GFP_KERNEL"
            | b"GFP_KERNEL_ACCOUNT"
            | b"GFP_USER"
            | b"GFP_NOFS"
            | b"GFP_NOIO"
            | b"__GFP_RECLAIM"
            | b"__GFP_DIRECT_RECLAIM" => Self::DIRECT_RECLAIM,
            b"GFP_HIGHUSER" => user,
            b"GFP_HIGHUSER_MOVABLE" | b"GFP_TRANSHUGE" => user | Self::MOVABLE,
            b"GFP_TRANSHUGE_LIGHT" => Self::HIGHMEM | Self::MOVABLE,
            b"GFP_ATOMIC" | b"__GFP_HIGH" => Self::HIGH,
            b"__GFP_ZERO" => Self::ZERO,
            b"__GFP_NORETRY" => Self::NORETRY,
            b"__GFP_RETRY_MAYFAIL" => Self::RETRY_MAYFAIL,
            b"__GFP_NOFAIL" => Self::NOFAIL,
            b"__GFP_MEMALLOC" => Self::MEMALLOC,
            b"GFP_DMA" | b"__GFP_DMA" => Self::DMA,
            b"GFP_DMA32" | b"__GFP_DMA32" => Self::DMA32,
            b"__GFP_HIGHMEM" => Self::HIGHMEM,
            b"__GFP_MOVABLE" => Self::MOVABLE,
            _ => Self::NONE,
        }
    }
}

/// The flags of recent requests, one by each length of their text: a recording repeats a few texts.
#[derive(Debug, Default)]
pub(super) struct RecentFlags {
    texts: [(Vec<u8>, GfpFlags); 32],
    last: usize,
}

impl RecentFlags {
    /// As [`GfpFlags::parse`].
    #[inline]
    fn parse(&mut self, text: &[u8]) -> GfpFlags {
        self.last = text.len() % self.texts.len();
        let (recent, flags) = &mut self.texts[self.last];
        if recent != text {
            *flags = GfpFlags::parse(text);
            recent.clear();
            recent.extend_from_slice(text);
        }
        *flags
    }

    /// The flags of a text if it is a recent one.
    #[inline]
    pub(super) fn recent(&mut self, text: &[u8]) -> Option<GfpFlags> {
        let at = text.len() % self.texts.len();
        let (recent, flags) = &self.texts[at];
        (recent == text && !text.is_empty()).then(|| {
            self.last = at;
            *flags
        })
    }

    /// The text that was parsed last.
    pub(super) fn last(&self) -> &[u8] {
        &self.texts[self.last].0
    }
}

impl BitOr for GfpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "page=0000000069f72dc4 ";

    fn parse(name: &str, body: &str) -> Result<Event, LineProblem> {
        read(name, &format!("{PAGE}{body}"))
    }

    fn read(name: &str, body: &str) -> Result<Event, LineProblem> {
        let kind = Kind::of(name.as_bytes());
        Event::parse(kind, body.as_bytes(), &mut RecentFlags::default())
    }

    #[test]
    fn every_event_of_interest_is_typed() {
        let gfp = GfpFlags::DIRECT_RECLAIM | GfpFlags::ZERO;
        assert_eq!(
            parse(
                "mm_page_alloc",
                "pfn=0x2e4bf4 order=2 migratetype=1 gfp_flags=GFP_KERNEL|__GFP_ZERO"
            ),
            Ok(Event::Alloc { pfn: 0x2e4bf4, order: 2, migratetype: 1, gfp })
        );
        assert_eq!(
            parse("mm_page_alloc", "pfn=0x0 order=4 migratetype=0 gfp_flags=GFP_NOWAIT"),
            Ok(Event::AllocFailed { order: 4, migratetype: 0, gfp: GfpFlags::NONE })
        );
        assert_eq!(
            parse("mm_page_free", "pfn=0x200 order=9"),
            Ok(Event::Free { pfn: 0x200, order: 9 })
        );
        assert_eq!(
            parse("mm_page_free_batched", "pfn=0x201 order=0"),
            Ok(Event::FreeBatched { pfn: 0x201 })
        );
        assert_eq!(
            parse("mm_page_alloc_zone_locked", "pfn=0x8 order=3 migratetype=2 percpu_refill=1"),
            Ok(Event::ZoneLocked { pfn: 8, order: 3, migratetype: 2, percpu_refill: true })
        );
        assert_eq!(
            parse("mm_page_pcpu_drain", "pfn=0x9 order=0 migratetype=1"),
            Ok(Event::PcpuDrain { pfn: 9, order: 0, migratetype: 1 })
        );
        assert_eq!(parse("mm_page_reinvented", "whatever it (says)"), Ok(Event::Other));
    }

    #[test]
    fn waits_for_locks_have_a_number_and_may_spin() {
        let lock = 0x4de4_d364;
        for (flags, spins) in [
            ("(flags=SPIN)", true),
            ("(flags=SPIN|READ)", true),
            ("(flags=MUTEX)", false),
            ("(flags=)", false),
            ("", false),
        ] {
            let body = format!(" 000000004de4d364 {flags}");
            let expected = Event::ContentionBegin { lock, spins };
            assert_eq!(read("contention_begin", &body), Ok(expected), "{flags}");
        }
        let end = |body: &str| read("contention_end", body);
        assert_eq!(end("0x4de4d364 (ret=0)"), Ok(Event::ContentionEnd { lock }));
        assert_eq!(end("(____ptrval____) (ret=0)"), Ok(Event::Other));
        assert_eq!(end(""), Ok(Event::Other));
    }

    #[test]
    fn the_proposed_event_of_zone_locks_has_its_wait() {
        let zone_locked = |body: &str| read("mm_zone_locked", body);
        assert_eq!(zone_locked("nid=0 zid=2 wait_ns=750"), Ok(Event::ZoneWait { nanos: 750 }));
        assert_eq!(zone_locked("nid=0 zid=2"), Ok(Event::Other));
        assert_eq!(zone_locked("wait_ns=x").unwrap_err().field, "wait_ns");
    }

    #[test]
    fn extfrag_keeps_all_its_fields() {
        let body = "pfn=0x156c00 alloc_order=3 fallback_order=10 pageblock_order=9 \
                    alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=1";
        assert_eq!(
            parse("mm_page_alloc_extfrag", body),
            Ok(Event::ExtFrag {
                pfn: 0x156c00,
                alloc_order: 3,
                fallback_order: 10,
                pageblock_order: 9,
                alloc_migratetype: 0,
                fallback_migratetype: 1,
                fragmenting: false,
                change_ownership: true,
            })
        );
    }

    #[test]
    fn keys_may_move_and_new_ones_may_come() {
        assert_eq!(
            parse("mm_page_free", "order=0 nid=3 pfn=77"),
            Ok(Event::Free { pfn: 77, order: 0 })
        );
    }

    #[test]
    fn bad_bodies_name_field_and_value() {
        let cases = [
            ("mm_page_free", "pfn=0x10 order=99", "order", "99"),
            ("mm_page_free", "pfn=0x10 order=-1", "order", "-1"),
            ("mm_page_free", "pfn=0x10", "order", ""),
            ("mm_page_free", "pfn=0x11 order=1", "pfn", "0x11"),
            ("mm_page_free", "pfn=0x99999999999999999999 order=1", "pfn", "0x99999999999999999999"),
            ("mm_page_free", "order=0", "pfn", ""),
            ("mm_page_free", "pfn=0x10 order=0 oops", "field", "oops"),
            ("mm_page_alloc", "pfn=0x10 order=0 migratetype=7 gfp_flags=none", "migratetype", "7"),
            ("mm_page_alloc", "pfn=0x10 order=0 migratetype=0", "gfp_flags", ""),
            ("mm_page_alloc", "pfn=zebra order=0 migratetype=0 gfp_flags=none", "pfn", "zebra"),
            (
                "mm_page_alloc_zone_locked",
                "pfn=0x1 order=0 migratetype=0 percpu_refill=yes",
                "percpu_refill",
                "yes",
            ),
            ("mm_page_pcpu_drain", "pfn=0x1 order= migratetype=0", "order", ""),
            ("mm_page_alloc_extfrag", "pfn=0x1 alloc_order=0", "fallback_order", ""),
        ];
        for (name, body, field, value) in cases {
            let problem = parse(name, body).expect_err(body);
            assert_eq!((problem.field, problem.value.as_str()), (field, value), "{body}");
        }
    }

    #[test]
    fn composite_names_and_single_bits_add_up() {
        let flags = GfpFlags::parse(b"GFP_NOFS|__GFP_HIGHMEM|__GFP_ZERO|__GFP_NORETRY|0x80");
        let wishes = GfpFlags::DIRECT_RECLAIM | GfpFlags::ZERO | GfpFlags::NORETRY;
        assert_eq!(flags, wishes | GfpFlags::HIGHMEM);
        assert!(flags.contains(GfpFlags::ZERO));
        assert!(!flags.contains(GfpFlags::NOFAIL));
    }

    #[test]
    fn a_request_that_cannot_wait_has_no_direct_reclaim() {
        for text in [&b"GFP_NOWAIT|__GFP_COMP"[..], b"none", b"", b"0x100"] {
            assert_eq!(GfpFlags::parse(text), GfpFlags::NONE, "{text:?}");
        }
        let light = GfpFlags::parse(b"GFP_TRANSHUGE_LIGHT");
        assert_eq!(light, GfpFlags::HIGHMEM | GfpFlags::MOVABLE);
        assert_eq!(GfpFlags::parse(b"GFP_ATOMIC"), GfpFlags::HIGH);
    }

    #[test]
    fn recent_flags_are_those_of_the_same_text() {
        let mut recent = RecentFlags::default();
        for text in ["GFP_ATOMIC", "GFP_ATOMIC", "GFP_KERNEL", "GFP_ATOMIC", "none", "GFP_USER"] {
            assert_eq!(recent.parse(text.as_bytes()), GfpFlags::parse(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn zones_are_determined_by_composites_and_bits() {
        assert_eq!(GfpFlags::parse(b"GFP_DMA32"), GfpFlags::DMA32);
        let user = GfpFlags::parse(b"GFP_HIGHUSER_MOVABLE|__GFP_ZERO");
        assert!(user.contains(GfpFlags::HIGHMEM | GfpFlags::MOVABLE));
        assert!(!GfpFlags::parse(b"GFP_USER").contains(GfpFlags::HIGHMEM));
    }
}
