//! Free memory by order: ours, and beside it the kernel's, from its tables.

use std::collections::BTreeMap;

use framewright::buddy::{BlockCounts, unusable_index};
use framewright::observe::text::COLUMNS;
use framewright::{MigrateType, Order};
use serde::Serialize;

use crate::trace::snapshot::Zone;

/// Orders that are told apart: those that both the kernel and we have. Larger blocks count as so
/// many of the last of these.
pub const SHOWN_ORDERS: usize = if Order::COUNT < COLUMNS { Order::COUNT } else { COLUMNS };

/// Blocks by order.
pub type Blocks = [u64; SHOWN_ORDERS];

/// Free memory at one moment; what is on CPU lists is not free.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeMemory {
    /// Free blocks by order.
    pub blocks: Blocks,
    /// The same by migratetype, for the types that requests may name.
    pub by_type: BTreeMap<&'static str, Blocks>,
}

/// Free memory of one zone, or of all, when the recording began and when it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FreeReport {
    /// Ours at the beginning.
    pub start: FreeMemory,
    /// Ours at the end.
    pub end: FreeMemory,
    /// The kernel's at the beginning, where there is a snapshot with buddyinfo.
    pub kernel_start: Option<FreeMemory>,
    /// The kernel's at the end, where there is such a snapshot of that.
    pub kernel_end: Option<FreeMemory>,
}

impl FreeMemory {
    /// Ours.
    pub(super) fn ours(counts: &BlockCounts) -> Self {
        let by_type =
            MigrateType::REQUESTABLE.map(|of| (of.name(), fold(&counts.free[of as usize])));
        Self { blocks: fold(&counts.by_order()), by_type: by_type.into() }
    }

    /// The kernel's in one zone; none if the snapshot has no buddyinfo of it.
    pub(super) fn of_zone(zone: &Zone) -> Option<Self> {
        let of = |name: &str| zone.types.iter().find(|lists| lists.name == name);
        let by_type = MigrateType::REQUESTABLE.map(|migratetype| {
            let name = migratetype.name();
            (name, of(name).map_or(Blocks::default(), |lists| fold(&lists.free_blocks)))
        });
        (!zone.free_blocks.is_empty())
            .then(|| Self { blocks: fold(&zone.free_blocks), by_type: by_type.into() })
    }

    /// Adds what is free elsewhere.
    pub(super) fn add(&mut self, other: &Self) {
        add(&mut self.blocks, &other.blocks);
        for (&name, blocks) in &other.by_type {
            add(self.by_type.entry(name).or_default(), blocks);
        }
    }

    /// Free frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        let blocks = self.blocks.iter().enumerate();
        blocks
            .fold(0, |sum, (order, &blocks)| sum.saturating_add(blocks.saturating_mul(1 << order)))
    }

    /// Order of the largest free block, of those that are told apart.
    #[must_use]
    pub fn largest_order(&self) -> Option<u8> {
        self.blocks.iter().rposition(|&blocks| blocks > 0).map(|order| order as u8)
    }

    /// The unusable-free index for `order`, in thousandths: which share of the free memory lies in
    /// blocks that are too small for it. Nothing free is 1000.
    #[must_use]
    pub fn unusable_index(&self, order: Order) -> u64 {
        unusable_index(&self.blocks, usize::from(order.get()))
    }

    /// How many blocks of each order there are beyond `other`'s.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> [i64; SHOWN_ORDERS] {
        let ours = self.blocks.map(|blocks| blocks as i64);
        std::array::from_fn(|order| ours[order].saturating_sub(other.blocks[order] as i64))
    }
}

impl FreeReport {
    /// Adds what is free elsewhere. The kernel's is known where it is known of every part.
    pub(super) fn add(&mut self, other: &Self) {
        self.start.add(&other.start);
        self.end.add(&other.end);
        for (sum, more) in [
            (&mut self.kernel_start, &other.kernel_start),
            (&mut self.kernel_end, &other.kernel_end),
        ] {
            match (sum.as_mut(), more) {
                (Some(sum), Some(more)) => sum.add(more),
                _ => *sum = None,
            }
        }
    }
}

fn add(sum: &mut Blocks, more: &Blocks) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
}

/// Counts larger blocks as so many of the largest that is shown.
fn fold(blocks: &[u64]) -> Blocks {
    let mut shown = Blocks::default();
    for (order, &count) in blocks.iter().enumerate() {
        let at = order.min(SHOWN_ORDERS - 1);
        shown[at] = shown[at].saturating_add(count.saturating_mul(1 << (order - at).min(63)));
    }
    shown
}
