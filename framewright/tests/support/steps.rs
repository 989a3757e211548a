//! Operations, made of plain numbers.

use framewright::{MigrateType, Order, Request};

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Alloc,
    AllocMany,
    AllocAt,
    Free,
    FreeMany,
    FreeRaw,
    FreeCapturing,
    Adopt,
    Split,
    Drain,
    DrainCpu,
    DrainAll,
    Isolate,
    UndoIsolate,
    Offline,
    Online,
    FreeTwice,
    FreeWrongOrder,
    FreeAnywhere,
}

/// How often each action is tried.
const WEIGHTS: [(Action, u8); 19] = [
    (Action::Alloc, 5),
    (Action::AllocMany, 3),
    (Action::AllocAt, 1),
    (Action::Free, 4),
    (Action::FreeMany, 3),
    (Action::FreeRaw, 2),
    (Action::FreeCapturing, 1),
    (Action::Adopt, 1),
    (Action::Split, 2),
    (Action::Drain, 1),
    (Action::DrainCpu, 1),
    (Action::DrainAll, 1),
    (Action::Isolate, 1),
    (Action::UndoIsolate, 1),
    (Action::Offline, 1),
    (Action::Online, 1),
    (Action::FreeTwice, 1),
    (Action::FreeWrongOrder, 1),
    (Action::FreeAnywhere, 1),
];

impl Action {
    /// An action for every number, by weight.
    pub fn by_number(number: u8) -> Self {
        let total: u8 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        let mut left = number % total;
        for (action, weight) in WEIGHTS {
            if left < weight {
                return action;
            }
            left -= weight;
        }
        unreachable!("what is left is less than all weights together")
    }
}

/// One operation. What a number means depends on the action; each is reduced to its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub action: Action,
    pub cpu: u8,
    pub order: u8,
    pub flags: u8,
    pub pick: u16,
}

/// Bytes that spell one step.
const STEP_BYTES: usize = 5;
/// Steps a fuzzer may ask for, so that one input takes milliseconds.
const STEPS_MAX: usize = 200;

impl Step {
    pub fn order(self) -> Order {
        Order::new(self.order % 10).unwrap_or(Order::ZERO)
    }

    pub fn migratetype(self) -> MigrateType {
        MigrateType::REQUESTABLE[usize::from(self.flags & 3) % 3]
    }

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

    /// The steps that some bytes spell.
    pub fn from_bytes(bytes: &[u8]) -> Vec<Self> {
        let step = |b: &[u8]| Self {
            action: Action::by_number(b[0]),
            cpu: b[0] >> 5,
            order: b[1],
            flags: b[2],
            pick: u16::from_le_bytes([b[3], b[4]]),
        };
        bytes.chunks_exact(STEP_BYTES).take(STEPS_MAX).map(step).collect()
    }
}
