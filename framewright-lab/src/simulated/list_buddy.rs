//! A run of the classic design: a zone per node, the CPU's own first.

use framewright::{FrameRange, MigrateType, Order, Pfn, Request};
use framewright_peers::list_buddy::{self, ListBuddy, Tuning};
use framewright_sim::{
    engine::{Machine, Options},
    machine::Spec,
};

use super::{
    Contender, Simulation, SimulationError,
    lists::SimLists,
    nodes::Nodes,
    stage::{Cast, Stage},
};
use crate::workloads::{
    Counts, Window, Workload,
    allocator::{Allocator, Frames},
};

/// One seed, one tuning.
pub(super) fn run(
    simulation: &Simulation,
    work: &Workload,
    contender: &Contender,
    seed: u64,
    tuning: Tuning,
) -> Result<Window, SimulationError> {
    let spec = &simulation.spec;
    let nodes = Nodes::new(spec, simulation.frames());
    let machine = Machine::modelled(spec.into(), Options { seed, ..Options::default() });
    let zones = Zones::new(spec, &nodes, &machine, &tuning)?;
    let stage =
        Stage { work, spec, machine: &machine, plan: simulation.plan, frames: nodes.frames() };
    let window = stage.play(&Cast {
        seat: &|cpu| Lists::new(&zones, &machine, spec, cpu),
        counts: &|| zones.counts(),
        held: &|| zones.held(spec.cpus()),
        wrong: &|| Ok(()),
    });
    let failed =
        |failure| SimulationError::Failed { contender: contender.label.clone(), seed, failure };
    let window = window.map_err(failed)?;
    match zones.missing() {
        0 => Ok(window),
        missing => Err(SimulationError::Books {
            contender: contender.label.clone(),
            seed,
            what: format!("{missing} of {} frames did not come back", nodes.frames()),
        }),
    }
}

/// The zones of all nodes that have memory.
struct Zones(Vec<Zone>);

struct Zone {
    node: u8,
    /// Where its frames are in the numbering of the machine; the allocator's own starts at 0.
    frames: FrameRange,
    buddy: ListBuddy<SimLists>,
}

impl Zones {
    fn new(
        spec: &Spec,
        nodes: &Nodes,
        machine: &Machine,
        tuning: &Tuning,
    ) -> Result<Self, SimulationError> {
        const MOST: u64 = 1 << 31;
        let zone = |(node, frames): (u8, FrameRange)| {
            if frames.frames() >= MOST {
                let reason = "list-buddy has 31 bits for the frames of a node".to_owned();
                return Err(SimulationError::Memory { machine: spec.name().to_owned(), reason });
            }
            let lists = SimLists::new(machine, node, &spec.costs().code);
            let cpus = usize::from(spec.cpus());
            let buddy = ListBuddy::on(lists, frames.frames(), cpus, tuning);
            Ok(Zone { node, frames, buddy })
        };
        Ok(Self(nodes.ranges().map(zone).collect::<Result<_, _>>()?))
    }

    fn counts(&self) -> Counts {
        let stats = self.0.iter().map(|zone| Counts::from(zone.buddy.stats()));
        stats.fold(Counts::default(), Counts::plus)
    }

    fn held(&self, cpus: u16) -> u64 {
        let of = |zone: &Zone| -> u64 {
            (0..cpus).map(|cpu| u64::from(zone.buddy.held(cpu.into()))).sum()
        };
        self.0.iter().map(of).sum()
    }

    /// Frames that are not free once all lists are empty.
    fn missing(&self) -> u64 {
        let of = |zone: &Zone| {
            zone.buddy.drain_all();
            zone.frames.frames() - u64::from(zone.buddy.free_frames())
        };
        self.0.iter().map(of).sum()
    }

    fn zone_of(&self, frame: u64) -> &Zone {
        let after = self.0.partition_point(|zone| zone.frames.start().get() <= frame);
        &self.0[after - 1]
    }
}

/// What one CPU allocates with.
struct Lists<'z> {
    zones: &'z Zones,
    machine: &'z Machine,
    cpu: usize,
    /// Indices of zones, nearest first.
    order: Vec<usize>,
}

impl<'z> Lists<'z> {
    fn new(zones: &'z Zones, machine: &'z Machine, spec: &Spec, cpu: u16) -> Self {
        let mut order: Vec<usize> = (0..zones.0.len()).collect();
        let from = spec.node_of(cpu);
        order.sort_by_key(|&zone| {
            let node = zones.0[zone].node;
            (spec.topology().distance(from, node), node)
        });
        Self { zones, machine, cpu: cpu.into(), order }
    }
}

/// Frames of the classic design.
struct ListBlock {
    frame: u64,
    order: u8,
}

impl Frames for ListBlock {
    fn pfn(&self) -> Pfn {
        Pfn::new(self.frame)
    }

    fn order(&self) -> Order {
        Order::new(self.order).unwrap_or_default()
    }
}

impl Allocator for Lists<'_> {
    type Block = ListBlock;

    fn alloc(&mut self, request: Request) -> Result<ListBlock, String> {
        let (order, of) = (request.order().get(), migratetype(request.migratetype()));
        let found = self.order.iter().find_map(|&zone| {
            let Zone { frames, buddy, .. } = &self.zones.0[zone];
            Some(frames.start().get() + buddy.alloc(self.cpu, order, of)?)
        });
        let frame = found.ok_or_else(|| format!("no zone has a block of order {order}"))?;
        if request.is_zeroed()
            && let Some(cpu) = self.machine.current()
        {
            cpu.clear_frames(1 << order);
        }
        Ok(ListBlock { frame, order })
    }

    fn free(&mut self, block: ListBlock) {
        let zone = self.zones.zone_of(block.frame);
        let freed = zone.buddy.free(self.cpu, block.frame - zone.frames.start().get(), block.order);
        // A block is freed once; if the allocator thinks otherwise the books will show it.
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    /// One after the other, with an eye on what comes next: descriptors are all over the memory of
    /// this host.
    fn free_batch(&mut self, blocks: &mut [Option<ListBlock>]) {
        const AHEAD: usize = 4;
        for place in 0..blocks.len() {
            if let Some(Some(soon)) = blocks.get(place + AHEAD) {
                let zone = self.zones.zone_of(soon.frame);
                zone.buddy.expect(soon.frame - zone.frames.start().get());
            }
            if let Some(block) = blocks[place].take() {
                self.free(block);
            }
        }
    }
}

fn migratetype(of: MigrateType) -> list_buddy::MigrateType {
    match of {
        MigrateType::Unmovable => list_buddy::MigrateType::Unmovable,
        MigrateType::Reclaimable => list_buddy::MigrateType::Reclaimable,
        _ => list_buddy::MigrateType::Movable,
    }
}
