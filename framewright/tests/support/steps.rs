//! Operations as plain numbers.

use framewright::{MigrateType, NodeMask, Order, Request, ZoneKind};

use super::{places::Placement, topology::node};

/// The kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Alloc,
    /// Allocates after the lists of all CPUs were drained, so that the result can be predicted.
    AllocAfterDrain,
    AllocMany,
    AllocAt,
    AllocBypassingLists,
    Free,
    FreeMany,
    FreeRaw,
    FreeCapturing,
    FreeBypassingLists,
    Adopt,
    Split,
    Drain,
    DrainCpu,
    DrainAll,
    /// Allocates the largest block.
    AllocLargest,
    ReportFree,
    AllocRange,
    AllocContiguous,
    FreeExtent,
    AddMemory,
    RemoveMemory,
    SetType,
    Isolate,
    UndoIsolate,
    Offline,
    Online,
    FreeTwice,
    FreeWrongOrder,
    FreeAnywhere,
    Trim,
    TrimAll,
}

/// The relative frequency of each action.
const WEIGHTS: [(Action, u8); 32] = [
    (Action::Alloc, 5),
    (Action::AllocAfterDrain, 3),
    (Action::AllocMany, 4),
    (Action::AllocAt, 1),
    (Action::AllocBypassingLists, 1),
    (Action::Free, 4),
    (Action::FreeMany, 3),
    (Action::FreeRaw, 2),
    (Action::FreeCapturing, 1),
    (Action::FreeBypassingLists, 1),
    (Action::Adopt, 1),
    (Action::Split, 2),
    (Action::Drain, 1),
    (Action::DrainCpu, 1),
    (Action::DrainAll, 1),
    (Action::AllocLargest, 1),
    (Action::ReportFree, 1),
    (Action::AllocRange, 2),
    (Action::AllocContiguous, 2),
    (Action::FreeExtent, 3),
    (Action::AddMemory, 2),
    (Action::RemoveMemory, 2),
    (Action::SetType, 1),
    (Action::Isolate, 1),
    (Action::UndoIsolate, 1),
    (Action::Offline, 1),
    (Action::Online, 1),
    (Action::FreeTwice, 1),
    (Action::FreeWrongOrder, 1),
    (Action::FreeAnywhere, 1),
    (Action::Trim, 1),
    (Action::TrimAll, 1),
];

impl Action {
    /// The action for a number. Every number has one, by weight.
    pub fn by_number(number: u8) -> Self {
        let total: u8 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut left = number % total;
        for (action, weight) in WEIGHTS {
            if left < weight {
                return action;
            }
            left -= weight;
        }
        unreachable!("the remainder is less than the sum of all weights")
    }
}

/// One operation. The meaning of each number depends on the action, which also reduces it to a
/// valid range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub action: Action,
    pub cpu: u8,
    pub order: u8,
    pub flags: u8,
    pub pick: u16,
}

/// The number of bytes that encode one step.
const STEP_BYTES: usize = 6;
/// The maximum number of steps in an input of the fuzzer, so that an input needs only milliseconds.
const STEPS_MAX: usize = 200;

impl Step {
    /// A step with this action and pick, and 0 in all other fields.
    pub fn simple(action: Action, pick: u16) -> Self {
        Self { action, cpu: 0, order: 0, flags: 0, pick }
    }

    pub fn order(self) -> Order {
        Order::new(self.order % Order::COUNT as u8).unwrap_or(Order::ZERO)
    }

    pub fn migratetype(self) -> MigrateType {
        MigrateType::REQUESTABLE[usize::from(self.flags & 3) % 3]
    }

    /// The request without its placement.
    pub fn request(self) -> Request {
        let request = Request::new(self.order(), self.migratetype());
        let request = if self.flags & 4 == 0 { request } else { request.zeroed() };
        match self.flags >> 3 & 7 {
            0 => request.no_wait(),
            1 => request.urgent(),
            2 => request.atomic(),
            3 => request.no_retry(),
            4 => request.retry_may_fail(),
            _ => request,
        }
    }

    /// The number of frames that the request must leave free if the min watermark is `min`.
    pub fn share_of_min(self, min: u64) -> u64 {
        match self.flags >> 3 & 7 {
            1 => min - min / 2,
            2 => min - min / 2 - (min - min / 2) / 4,
            _ => min,
        }
    }

    /// The length of a range in frames, sometimes large.
    pub fn frames(self) -> u64 {
        let frames = u64::from(self.cpu);
        (frames * frames / 20) << (6 * (self.flags >> 5 & 1))
    }

    /// The step with another order.
    pub fn of_order(self, order: Order) -> Self {
        Self { order: order.get(), ..self }
    }

    /// The step with a request that may not wait.
    pub fn without_waiting(self) -> Self {
        let how = match self.flags >> 3 & 7 {
            1 | 2 => 2,
            _ => 0,
        };
        Self { flags: self.flags & !(7 << 3) | how << 3, ..self }
    }

    /// The step with a request that may not use reserves.
    pub fn not_urgent(self) -> Self {
        match self.flags >> 3 & 7 {
            1 | 2 => Self { flags: self.flags & !(7 << 3), ..self },
            _ => self,
        }
    }

    /// The placement of the request.
    pub fn placement(self) -> Placement {
        let wanted = node((self.pick >> 5 & 7) as u8);
        let (on_node, this_node) =
            [(false, false), (true, false), (true, true), (false, true)][self.flags as usize >> 6];
        let mask = (self.pick >> 8) as u8;
        let nodes = (0..7).filter(|bit| mask >> bit & 1 == 1).map(node);
        Placement {
            highest: ZoneKind::ALL.get(usize::from(self.pick & 7)).copied(),
            node: on_node.then_some(wanted),
            this_node,
            // Half of the requests have no node mask. The other masks may have nodes that do not
            // exist.
            nodes: (mask >= 128).then(|| nodes.fold(NodeMask::NONE, NodeMask::with)),
        }
    }

    /// The steps in some bytes.
    pub fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        let step = |b: &[u8]| Self {
            action: Action::by_number(b[0]),
            cpu: b[1],
            order: b[2],
            flags: b[3],
            pick: u16::from_le_bytes([b[4], b[5]]),
        };
        bytes.chunks_exact(STEP_BYTES).take(STEPS_MAX).map(step).collect()
    }
}
