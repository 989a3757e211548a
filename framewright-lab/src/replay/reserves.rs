//! The recorded zones' watermarks and reserves, as the settings that lead to them.

use framewright::ZoneKind;
use framewright::tuning::{Auto, Tuning, ZoneTuning};

use crate::trace::Snapshot;
use crate::trace::snapshot::Zone;

/// `tuning` with the recorded machine's reserves, where the user did not choose others.
pub(super) fn recorded(tuning: &Tuning, snapshot: &Snapshot) -> Tuning {
    let mut tuning = *tuning;
    let default = ZoneTuning::default();
    let zones: Vec<&Zone> = snapshot.zones.iter().filter(|zone| zone.managed > 0).collect();
    let min_free = min_free(&zones);
    if tuning.zone.min_free == Auto::Auto && min_free > 0 {
        tuning.zone.min_free = Auto::Fixed(u32::try_from(min_free).unwrap_or(u32::MAX));
        if tuning.zone.watermark_scale == default.watermark_scale {
            tuning.zone.watermark_scale = scale(&zones).unwrap_or(default.watermark_scale);
        }
    }
    if tuning.zone.reserve_ratios == default.reserve_ratios {
        for (kind, ratio) in ZoneKind::ALL.into_iter().zip(&mut tuning.zone.reserve_ratios) {
            let zone = zones.iter().find(|zone| zone.name == kind.name());
            *ratio = zone.and_then(|zone| reserve_ratio(zone, snapshot)).unwrap_or(*ratio);
        }
    }
    tuning
}

/// The reserve of the whole machine that gives each zone its min watermark: zones share it by size,
/// rounded down.
fn min_free(zones: &[&Zone]) -> u64 {
    let lowmem = || zones.iter().filter(|zone| zone.name != ZoneKind::Movable.name());
    let managed: u128 = lowmem().map(|zone| u128::from(zone.managed)).sum();
    let shares = lowmem().map(|zone| {
        let whole = (u128::from(zone.min) * managed).div_ceil(u128::from(zone.managed));
        u64::try_from(whole).unwrap_or(u64::MAX)
    });
    shares.max().unwrap_or(0)
}

/// The least distance of marks in 1/10000 of a zone; none where a quarter of min decided.
fn scale(zones: &[&Zone]) -> Option<u32> {
    let by_scale = zones.iter().filter(|zone| zone.low.saturating_sub(zone.min) > zone.min / 4);
    let zone = by_scale.max_by_key(|zone| zone.managed)?;
    let scale = (zone.low - zone.min).saturating_mul(10_000).div_ceil(zone.managed);
    u32::try_from(scale).ok().filter(|scale| (1..=3000).contains(scale))
}

/// One frame for every how many of the higher zones of its node a zone keeps back; none where the
/// snapshot does not tell.
fn reserve_ratio(zone: &Zone, snapshot: &Snapshot) -> Option<u32> {
    let of_node: Vec<&Zone> =
        snapshot.zones.iter().filter(|other| other.node == zone.node).collect();
    let at = of_node.iter().position(|other| other.name == zone.name)?;
    let above = of_node.get(at + 1..)?;
    let (mut sum, mut best) = (0u64, None);
    for (higher, &kept) in above.iter().zip(zone.protection.get(at + 1..)?) {
        sum = sum.saturating_add(higher.managed);
        // The largest sum is divided with the least rounding.
        if higher.managed > 0 {
            best = Some(sum.checked_div(kept).unwrap_or(0));
        }
    }
    u32::try_from(best?).ok().filter(|&ratio| ratio <= 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let tables = concat!(env!("CARGO_MANIFEST_DIR"), "/../recordings/sockets.before");
        Snapshot::open(std::path::Path::new(tables)).unwrap()
    }

    #[test]
    fn the_recorded_marks_follow_from_one_reserve() {
        let tuning = recorded(&Tuning::default(), &snapshot());
        // min_free_kbytes of the recorded machine was 67584.
        assert_eq!(tuning.zone.min_free, Auto::Fixed(67_584 / 4));
        assert_eq!(tuning.zone.watermark_scale, 10);
        assert_eq!(tuning.zone.reserve_ratios, [256, 256, 32, 0]);
    }

    #[test]
    fn what_the_user_chose_stays() {
        let mut chosen = Tuning::default();
        chosen.zone.min_free = Auto::Fixed(7);
        chosen.zone.reserve_ratios[0] = 1;
        assert_eq!(recorded(&chosen, &snapshot()).zone, chosen.zone);
    }

    #[test]
    fn other_ratios_and_scales_are_recognised() {
        let mut snapshot = snapshot();
        for zone in &mut snapshot.zones {
            zone.low = zone.min + zone.managed * 250 / 10_000;
            zone.protection.iter_mut().for_each(|kept| *kept *= 4);
        }
        let tuning = recorded(&Tuning::default(), &snapshot);
        assert_eq!(tuning.zone.watermark_scale, 250);
        assert_eq!(tuning.zone.reserve_ratios[..2], [64, 64]);
    }
}
