//! The `key=value` pairs of an event's body.
//!
//! They are read by key, so that a kernel that adds or moves one is still understood.

use super::error::LineProblem;
use super::number;

/// The values of the keys that the frequent events share; empty where the body has none.
#[derive(Default)]
pub(super) struct Fields<'b> {
    pub(super) pfn: &'b [u8],
    pub(super) order: &'b [u8],
    pub(super) migratetype: &'b [u8],
    pub(super) gfp_flags: &'b [u8],
    pub(super) percpu_refill: &'b [u8],
}

impl<'b> Fields<'b> {
    /// One pass over the body.
    #[inline]
    pub(super) fn read(body: &'b [u8]) -> Result<Self, LineProblem> {
        let mut fields = Self::default();
        let mut rest = body;
        while !rest.is_empty() {
            let end = memchr::memchr(b' ', rest).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            if word.is_empty() {
                continue;
            }
            let Some(equals) = word.iter().position(|&byte| byte == b'=') else {
                return Err(LineProblem::new("field", word, "key=value"));
            };
            let (key, value) = (&word[..equals], &word[equals + 1..]);
            match key {
                b"pfn" => fields.pfn = value,
                b"order" => fields.order = value,
                b"migratetype" => fields.migratetype = value,
                b"gfp_flags" => fields.gfp_flags = value,
                b"percpu_refill" => fields.percpu_refill = value,
                _ => {}
            }
        }
        Ok(fields)
    }

    #[inline]
    pub(super) fn pfn(&self) -> Result<u64, LineProblem> {
        number::pfn(self.pfn)
    }

    #[inline]
    pub(super) fn order(&self) -> Result<u8, LineProblem> {
        number::order("order", self.order)
    }

    #[inline]
    pub(super) fn migratetype(&self) -> Result<u8, LineProblem> {
        number::migratetype("migratetype", self.migratetype)
    }
}

/// The value of `key`; empty if the body has none.
pub(super) fn find<'b>(body: &'b [u8], key: &str) -> &'b [u8] {
    body.split(|&byte| byte == b' ')
        .find_map(|word| word.strip_prefix(key.as_bytes())?.strip_prefix(b"="))
        .unwrap_or_default()
}

pub(super) fn required<'b>(key: &'static str, value: &'b [u8]) -> Result<&'b [u8], LineProblem> {
    if value.is_empty() {
        return Err(LineProblem::new(key, value, "a value"));
    }
    Ok(value)
}

/// A block of the buddy system begins at a multiple of its size.
#[inline]
pub(super) fn aligned(pfn: u64, order: u8, text: &[u8]) -> Result<u64, LineProblem> {
    if pfn & ((1 << order) - 1) != 0 {
        return Err(LineProblem::new("pfn", text, "a multiple of the block's size, 2^order"));
    }
    Ok(pfn)
}
