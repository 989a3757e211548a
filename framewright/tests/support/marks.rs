//! Watermarks and lowmem reserves of zones, from the documented formulas.

use framewright::{Tuning, ZoneInfo, ZoneKind, tuning::Auto};

use super::zone::ZoneTruth;

/// The watermarks and the lowmem reserve of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marks {
    pub min: u64,
    pub low: u64,
    pub high: u64,
    pub promo: u64,
    pub protection: [u64; ZoneKind::COUNT],
}

impl Marks {
    /// The values that a zone reports.
    pub fn of(zone: &ZoneInfo) -> Self {
        let &ZoneInfo { min, low, high, promo, protection, .. } = zone;
        Self { min, low, high, promo, protection }
    }

    /// The values that zone `index` should have.
    pub fn expected(zones: &[ZoneTruth], index: usize, tuning: &Tuning) -> Self {
        let zone = &zones[index];
        let (kind, managed) = (zone.kind, zone.managed());
        let min = min(zones, zone, tuning);
        let gap = match min {
            0 => 0,
            _ => (min / 4).max(managed * u64::from(tuning.zone.watermark_scale) / 10_000),
        };
        let ratio = u64::from(tuning.zone.reserve_ratios[kind as usize]);
        let protection = ZoneKind::ALL.map(|highest| {
            let above = |other: &&ZoneTruth| {
                other.node == zone.node && kind < other.kind && other.kind <= highest
            };
            let above: u64 = zones.iter().filter(above).map(ZoneTruth::managed).sum();
            if managed == 0 { 0 } else { above.checked_div(ratio).unwrap_or(0) }
        });
        Self { min, low: min + gap, high: min + 2 * gap, promo: min + 3 * gap, protection }
    }
}

/// The zone's share of the memory's reserve. A movable zone has a small share of its own.
fn min(zones: &[ZoneTruth], zone: &ZoneTruth, tuning: &Tuning) -> u64 {
    let lowmem = zones.iter().filter(|zone| zone.kind != ZoneKind::Movable);
    let lowmem: u64 = lowmem.map(ZoneTruth::managed).sum();
    let reserve = match tuning.zone.min_free {
        Auto::Fixed(frames) => u64::from(frames),
        // The reserve is at most a quarter of a tiny memory.
        Auto::Auto => (kib_for(lowmem * 4) / 4).min(lowmem / 4),
    };
    let managed = zone.managed();
    match zone.kind {
        // The memory has no reserve.
        ZoneKind::Movable if reserve == 0 => 0,
        ZoneKind::Movable => (managed / 1024).clamp(32, 128).min(managed / 4),
        _ => reserve * managed / lowmem.max(1),
    }
}

/// The reserve in KiB for `memory` KiB.
fn kib_for(memory: u64) -> u64 {
    let root = (0..).take_while(|root| root * root <= 16 * memory).last().unwrap_or(0);
    root.clamp(128, 262_144)
}
