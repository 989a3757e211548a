//! Who takes part, with which settings.

use framewright::{
    Tuning,
    tuning::{Auto, BulkFree, HighOrderDrain},
};
use framewright_peers::list_buddy;
use indexmap::IndexMap;

use crate::workloads::Side;

/// One column of a comparison.
#[derive(Clone, Debug)]
pub struct Contender {
    /// Name of its column.
    pub label: String,
    /// What it is.
    pub design: Design,
    /// Those of its settings that the result shall name.
    pub settings: IndexMap<String, String>,
}

/// An allocator and its settings.
#[derive(Clone, Copy, Debug)]
pub enum Design {
    /// The library.
    Framewright(Tuning),
    /// The classic design.
    ListBuddy(list_buddy::Tuning),
}

/// The same list sizes for every design: as many frames per batch, and on a CPU's lists at most.
/// Nothing tunes itself then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListSizes {
    /// Frames per refill or bulk free.
    pub batch: u32,
    /// Frames on the lists of a CPU.
    pub high: u32,
}

impl Contender {
    /// The library with the settings of a side.
    #[must_use]
    pub fn framewright(side: &Side) -> Self {
        let Side { label, tuning, settings } = side.clone();
        Self { label, design: Design::Framewright(tuning), settings }
    }

    /// The classic design with those settings of a side that it knows; its own defaults are those
    /// of current kernels.
    #[must_use]
    pub fn list_buddy(label: &str, side: &Side) -> Self {
        let mut tuning = list_buddy::Tuning::default();
        let known = |(key, _): &(&String, &String)| adopt(key, &side.tuning, &mut tuning);
        let settings = side.settings.iter().filter(known);
        let settings = settings.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { label: label.to_owned(), design: Design::ListBuddy(tuning), settings }
    }

    /// The same with lists of other sizes, of one of `cpus` CPUs of a zone of `zone` frames.
    #[must_use]
    pub fn with_lists(mut self, sizes: ListSizes, zone: u64, cpus: u16) -> Self {
        let ListSizes { batch, high } = sizes;
        match &mut self.design {
            Design::Framewright(tuning) => {
                let (zone, most) = (zone as f64, f64::from(high) * f64::from(cpus.max(1)));
                tuning.pcp.batch = Auto::Fixed(batch);
                tuning.pcp.high_fraction = ((zone / most) as u32).clamp(8, 1_000_000);
                tuning.pcp.scale_max = 0;
            }
            Design::ListBuddy(tuning) => {
                (tuning.batch, tuning.high) = (Some(batch), Some(high));
                tuning.batch_scale_max = 0;
            }
        }
        self.settings.insert("lists".to_owned(), format!("{batch}/{high}"));
        self
    }
}

/// Takes over the setting called `key`; says whether the classic design has it.
fn adopt(key: &str, from: &Tuning, to: &mut list_buddy::Tuning) -> bool {
    match key {
        "pcp.bulk_free" => {
            to.bulk_free = match from.pcp.bulk_free {
                BulkFree::SelectUnderLock => list_buddy::BulkFree::SelectUnderLock,
                BulkFree::SelectBeforeLock => list_buddy::BulkFree::SelectBeforeLock,
            };
        }
        "pcp.high_order_drain" => {
            to.high_order_drain = match from.pcp.high_order_drain {
                HighOrderDrain::SecondConsecutive => list_buddy::HighOrderDrain::SecondConsecutive,
                HighOrderDrain::EveryFree => list_buddy::HighOrderDrain::EveryFree,
            };
        }
        "pcp.batch" => to.batch = given(from.pcp.batch),
        "pcp.high_fraction" => to.high_fraction = from.pcp.high_fraction,
        "pcp.scale_max" => to.batch_scale_max = from.pcp.scale_max as u8,
        "pcp.cache_frames" => {
            to.cache_frames = (from.pcp.cache_frames > 0).then_some(from.pcp.cache_frames);
        }
        "zone.watermark_scale" => to.watermark_scale_factor = from.zone.watermark_scale,
        _ => return false,
    }
    true
}

fn given(value: Auto) -> Option<u32> {
    match value {
        Auto::Auto => None,
        Auto::Fixed(value) => Some(value),
    }
}
