//! Bodies of the frequent events as kernels print them today: the same fields in the same order, separated by single
//! blanks. They are read in one pass. [`Event::parse`] reads all others, and these to the same event.
//!
//! ```text
//! page=0000000069f72dc4 pfn=0x12e0f3 order=0 migratetype=1 gfp_flags=GFP_KERNEL|__GFP_ZERO
//! ```

use super::{
    event::{Event, Kind, RecentFlags},
    number::{self, Cursor, MAX_MIGRATETYPE, MAX_ORDER, MAX_PFN},
};

/// Reads the body of an event; `None` if it has another form, or a value that is not valid.
#[inline]
pub(super) fn parse(kind: Kind, body: &[u8], flags: &mut RecentFlags) -> Option<Event> {
    let mut body = Cursor(body);
    body.text(b"page=")?;
    body.0 = &body.0[number::position(b' ', body.0)?..];
    body.text(b" pfn=0x")?;
    let pfn = body.hexadecimal().filter(|&pfn| pfn < MAX_PFN)?;
    body.text(b" order=")?;
    let order = body.up_to(MAX_ORDER)?;
    let is_aligned = pfn & ((1 << order) - 1) == 0;
    let event = match kind {
        Kind::Free if is_aligned => Event::Free { pfn, order },
        Kind::FreeBatched => Event::FreeBatched { pfn },
        Kind::Alloc if is_aligned && pfn > 0 => {
            let migratetype = migratetype(&mut body)?;
            body.text(b" gfp_flags=")?;
            let gfp = flags.recent(body.0)?;
            return Some(Event::Alloc { pfn, order, migratetype, gfp });
        }
        Kind::ZoneLocked => {
            let migratetype = migratetype(&mut body)?;
            body.text(b" percpu_refill=")?;
            let percpu_refill = body.up_to(1)? == 1;
            Event::ZoneLocked { pfn, order, migratetype, percpu_refill }
        }
        Kind::PcpuDrain => Event::PcpuDrain { pfn, order, migratetype: migratetype(&mut body)? },
        _ => return None,
    };
    body.0.is_empty().then_some(event)
}

#[inline(always)]
fn migratetype(body: &mut Cursor<'_>) -> Option<u8> {
    body.text(b" migratetype=")?;
    body.up_to(MAX_MIGRATETYPE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODIES: [(Kind, &str); 5] = [
        (
            Kind::Alloc,
            "page=0000000069f72dc4 pfn=0x12e0f0 order=2 migratetype=1 gfp_flags=GFP_KERNEL|__GFP_ZERO",
        ),
        (Kind::Free, "page=(____ptrval____) pfn=0x1200 order=9"),
        (Kind::FreeBatched, "page=00000000dde8fa36 pfn=0x2ea428 order=0"),
        (
            Kind::ZoneLocked,
            "page=0000000088d4d515 pfn=0x12eb78 order=10 migratetype=0 percpu_refill=1",
        ),
        (Kind::PcpuDrain, "page=0 pfn=0xffffffffff order=3 migratetype=2"),
    ];

    /// The event of a body, in one pass and field by field. Flags of requests have been seen before.
    fn both(kind: Kind, body: &[u8]) -> (Option<Event>, Option<Event>) {
        let mut flags = RecentFlags::default();
        Event::parse(BODIES[0].0, BODIES[0].1.as_bytes(), &mut flags).unwrap();
        let usual = parse(kind, body, &mut flags);
        (usual, Event::parse(kind, body, &mut RecentFlags::default()).ok())
    }

    #[test]
    fn usual_bodies_are_read_in_one_pass() {
        for (kind, body) in BODIES {
            let (usual, event) = both(kind, body.as_bytes());
            assert!(usual.is_some() && usual == event, "{body}: {usual:?}, {event:?}");
        }
    }

    #[test]
    fn a_body_that_is_read_in_one_pass_is_read_the_same_field_by_field() {
        let check = |kind: Kind, body: &[u8]| {
            let (usual, event) = both(kind, body);
            let text = String::from_utf8_lossy(body);
            assert!(usual.is_none() || usual == event, "{text}: {usual:?}, {event:?}");
        };
        for (kind, body) in BODIES {
            let body = body.as_bytes();
            for at in 0..=body.len() {
                let (before, after) = body.split_at(at);
                check(kind, before);
                for &byte in b" =\t0129aFgx-|" {
                    check(kind, &[before, &[byte], after].concat());
                    check(kind, &[before, &[byte], after.get(1..).unwrap_or_default()].concat());
                }
                check(kind, &[before, after.get(1..).unwrap_or_default()].concat());
            }
        }
    }
}
