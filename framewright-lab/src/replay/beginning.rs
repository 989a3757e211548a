//! The state when the recording began, to be compared with that when it ended.

use framewright::CpuId;
use framewright::observe::CpuStats;

use super::Tables;
use super::free::{FreeMemory, FreeReport};
use super::machine::Machine;
use super::plan::{Plan, ZonePlan};
use super::report::{HeldReport, ZoneReport};
use crate::trace::Snapshot;
use crate::trace::snapshot::Zone;

/// The state when the recording began.
pub(super) struct Beginning {
    /// Counters of every CPU.
    pub(super) stats: Vec<CpuStats>,
    /// Frames in use.
    pub(super) in_use: u64,
    /// Frames on CPU lists.
    pub(super) held: u64,
    /// The zones, their ends left open.
    pub(super) zones: Vec<ZoneReport>,
}

impl Beginning {
    pub(super) fn of(machine: &Machine<'_, '_>, plan: &Plan, tables: &Tables) -> Self {
        let zones = plan.zones.iter().filter_map(|zone| begin_zone(machine, zone, tables));
        Self {
            stats: stats(machine),
            in_use: machine.in_use(),
            held: machine.memory().held_by_cpus(),
            zones: zones.collect(),
        }
    }

    /// The zones, with their ends as they are now.
    pub(super) fn end(self, machine: &Machine<'_, '_>, plan: &Plan) -> Vec<ZoneReport> {
        let memory = machine.memory();
        let mut zones = self.zones;
        for (zone, plan) in zones.iter_mut().zip(&plan.zones) {
            if let Some(info) = machine.id_of(plan).and_then(|id| memory.zone(id)) {
                zone.free.end = FreeMemory::ours(&memory.block_counts(info.id));
                zone.held.end = info.held_by_cpus;
            }
        }
        zones
    }
}

/// A zone when the recording began.
fn begin_zone(machine: &Machine<'_, '_>, plan: &ZonePlan, tables: &Tables) -> Option<ZoneReport> {
    let memory = machine.memory();
    let info = memory.zone(machine.id_of(plan)?)?;
    let before = recorded(tables.before.as_ref(), plan);
    let after = recorded(tables.after.as_ref(), plan);
    Some(ZoneReport {
        node: info.node.get(),
        zone: info.kind.name(),
        managed: info.managed,
        watermarks: [info.min, info.low, info.high],
        held: HeldReport {
            start: info.held_by_cpus,
            end: 0,
            kernel_start: before.map(Zone::held_by_cpus),
            kernel_end: after.map(Zone::held_by_cpus),
        },
        free: FreeReport {
            start: FreeMemory::ours(&memory.block_counts(info.id)),
            end: FreeMemory::default(),
            kernel_start: before.and_then(FreeMemory::of_zone),
            kernel_end: after.and_then(FreeMemory::of_zone),
        },
    })
}

/// What a snapshot says of a zone.
fn recorded<'t>(tables: Option<&'t Snapshot>, plan: &ZonePlan) -> Option<&'t Zone> {
    let node = u16::from(plan.node.get());
    tables?.zones.iter().find(|zone| zone.node == node && zone.name == plan.kind.name())
}

/// The counters of all CPUs.
pub(super) fn stats(machine: &Machine<'_, '_>) -> Vec<CpuStats> {
    let cpus = (0..machine.cpus()).map(CpuId::new);
    cpus.map(|cpu| machine.memory().cpu_stats(cpu).unwrap_or_default()).collect()
}
