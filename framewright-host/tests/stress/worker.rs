//! A worker, which does random operations, and writes and verifies every frame.

use framewright::{
    AllocError, Block, CpuError, CpuId, CpuToken, Memory, MigrateType, NodeId, Order, Request,
    ZoneKind,
    frame::{FRAME_SIZE, PAGEBLOCK_FRAMES},
};
use framewright_host::HostMachine;
use std::{
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{Receiver, Sender},
    },
    thread,
    time::Duration,
};

const WORDS: u64 = (FRAME_SIZE / 8) as u64;
const TYPES: [MigrateType; 3] =
    [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
/// The number of operations between two checks of the inbox.
const OPERATIONS: usize = 64;

/// A block and the value in its words.
pub(crate) struct Held<'m> {
    block: Block<'m>,
    value: u64,
}

pub(crate) struct Worker<'a, 'm> {
    memory: &'a Memory<'m, HostMachine>,
    cpu: CpuId,
    random: fastrand::Rng,
    /// Nodes that have memory.
    nodes: Vec<NodeId>,
    /// Unique among all workers.
    next_value: u64,
    held: Vec<Held<'m>>,
    others: Vec<Sender<Held<'m>>>,
    inbox: Receiver<Held<'m>>,
}

type Token<'a, 'm> = CpuToken<'a, 'm, HostMachine>;

impl<'a, 'm> Worker<'a, 'm> {
    pub(crate) fn new(
        memory: &'a Memory<'m, HostMachine>,
        number: u16,
        seed: u64,
        others: Vec<Sender<Held<'m>>>,
        inbox: Receiver<Held<'m>>,
    ) -> Self {
        Self {
            memory,
            cpu: CpuId::new(number),
            random: fastrand::Rng::with_seed(seed << 16 | u64::from(number)),
            nodes: memory.zones().map(|zone| zone.node).collect(),
            next_value: (u64::from(number) + 1) << 48,
            held: Vec::new(),
            others,
            inbox,
        }
    }

    /// Works until `stop`. Then frees all blocks, including those that other workers still send.
    pub(crate) fn work(mut self, stop: &AtomicBool) {
        let registered = self.memory.platform().register_as(self.cpu).unwrap();
        assert_eq!(registered.id(), self.cpu);
        while !stop.load(Relaxed) {
            let mut token = self.claim();
            for _ in 0..self.random.usize(1..20) {
                if self.random.bool() {
                    self.burst(&mut token);
                } else {
                    self.rush(&mut token);
                }
                self.held.extend(self.inbox.try_iter());
            }
            drop(token);
            // The pause is long enough for the disturber to take the CPU offline sometimes.
            thread::sleep(Duration::from_micros(self.random.u64(0..200)));
        }
        self.others.clear();
        let mut token = self.claim();
        self.held.extend(self.inbox.iter());
        while !self.held.is_empty() {
            self.free_one(&mut token);
        }
    }

    /// Waits until the CPU is online.
    fn claim(&self) -> Token<'a, 'm> {
        loop {
            match self.memory.cpu(self.cpu) {
                Ok(token) => return token,
                Err(CpuError::Offline(_) | CpuError::InUse(_)) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Allocates and frees as fast as possible, so that the lists are in use most of the time.
    /// Writes and verifies only one word of each frame.
    fn rush(&mut self, token: &mut Token<'a, 'm>) {
        let request = Request::new(Order::ZERO, TYPES[self.random.usize(0..TYPES.len())]);
        let machine = self.memory.platform();
        let word = self.random.usize(0..WORDS as usize);
        for _ in 0..100 {
            let blocks: Vec<_> = (0..16).map_while(|_| token.alloc(request).ok()).collect();
            for (value, block) in (self.next_value..).zip(&blocks) {
                machine.words(block)[word].store(value, Relaxed);
            }
            for (value, block) in (self.next_value..).zip(blocks) {
                let found = machine.words(&block)[word].load(Relaxed);
                assert_eq!(found, value, "{block:?} was used by another thread");
                token.free(block).unwrap();
            }
            self.next_value += 16;
        }
    }

    /// Does operations that are mostly allocations, or mostly frees.
    fn burst(&mut self, token: &mut Token<'a, 'm>) {
        let allocating = self.random.usize(0..=12);
        for _ in 0..OPERATIONS {
            if self.random.usize(0..12) < allocating {
                match self.random.u32(0..8) {
                    0 => self.alloc_bulk(token),
                    _ => self.alloc_one(token),
                }
                continue;
            }
            match self.random.u32(0..64) {
                0 => token.drain(),
                1..4 => self.split(token),
                4..6 => self.through_raw(token),
                6..10 => self.free_capturing(token),
                10..12 => self.alloc_at(token),
                12..24 => self.send(),
                24..30 => self.free_bulk(token),
                _ => self.free_one(token),
            }
        }
    }

    fn request(&mut self, largest: u8) -> Request {
        // Half of the requests are for single frames. Larger orders are rarer.
        let order = (self.random.u32(..).leading_zeros() as u8).min(largest);
        let of = TYPES[self.random.usize(0..TYPES.len())];
        let request = Request::new(Order::new(order).unwrap(), of);
        let request = if self.random.bool() { request.zeroed() } else { request };
        let request = match self.random.u32(0..8) {
            0 => request.on_node(self.nodes[self.random.usize(..self.nodes.len())]),
            1 => request.zone(ZoneKind::Normal),
            _ => request,
        };
        match self.random.u32(0..8) {
            0 => request.atomic(),
            1 => request.no_wait(),
            2 => request.retry_may_fail(),
            3 => request.no_retry(),
            _ => request,
        }
    }

    fn alloc_one(&mut self, token: &mut Token<'a, 'm>) {
        let request = self.request(9);
        match token.alloc(request) {
            Ok(block) => self.hold(block, request),
            Err(AllocError::BelowWatermark(_) | AllocError::NoBlockOfOrder(_)) => {
                self.free_half(token);
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn alloc_bulk(&mut self, token: &mut Token<'a, 'm>) {
        let request = self.request(3);
        let mut blocks: Vec<_> = (0..self.random.usize(1..100)).map(|_| None).collect();
        let filled = token.alloc_bulk(request, &mut blocks);
        assert_eq!(filled, blocks.iter().flatten().count());
        for block in blocks.into_iter().flatten() {
            self.hold(block, request);
        }
    }

    fn alloc_at(&mut self, token: &mut Token<'a, 'm>) {
        let frames = self.memory.platform().frames();
        let request = self.request(9);
        let pfn = frames.start().offset(self.random.u64(0..frames.frames()));
        let pfn = pfn.align_down(request.order());
        if let Ok(block) = token.alloc_at(pfn, request.order(), request.migratetype()) {
            assert_eq!(block.pfn(), pfn);
            self.hold(block, Request::new(request.order(), request.migratetype()));
        }
    }

    /// Frees half of the held blocks, because memory is short.
    fn free_half(&mut self, token: &mut Token<'a, 'm>) {
        for _ in 0..self.held.len() / 2 {
            self.free_one(token);
        }
    }

    /// Checks a new block and writes a pattern into it.
    fn hold(&mut self, mut block: Block<'m>, request: Request) {
        assert_eq!(block.order(), request.order());
        assert!(block.pfn().is_aligned(block.order()));
        let machine = self.memory.platform();
        assert_eq!(machine.words(&block).len() as u64, block.order().frames() * WORDS);
        assert!(!request.is_zeroed() || machine.is_zero(&block), "{block:?} is not zeroed");
        let value = self.next_value;
        self.next_value += PAGEBLOCK_FRAMES as u64 * WORDS;
        machine.fill(&mut block, value);
        self.held.push(Held { block, value });
    }

    /// Removes a random block from the held blocks, and verifies it.
    fn take_held(&mut self) -> Option<Block<'m>> {
        if self.held.is_empty() {
            return None;
        }
        let Held { block, value } = self.held.swap_remove(self.random.usize(..self.held.len()));
        if let Err(mismatch) = self.memory.platform().verify(&block, value) {
            panic!("{block:?} was used by another thread: {mismatch}");
        }
        Some(block)
    }

    fn free_one(&mut self, token: &mut Token<'a, 'm>) {
        if let Some(block) = self.take_held() {
            token.free(block).unwrap();
        }
    }

    fn free_bulk(&mut self, token: &mut Token<'a, 'm>) {
        let count = self.random.usize(1..100);
        let mut blocks: Vec<_> = (0..count).map_while(|_| self.take_held()).map(Some).collect();
        token.free_bulk(&mut blocks);
        assert!(blocks.iter().all(Option::is_none));
    }

    fn free_capturing(&mut self, token: &mut Token<'a, 'm>) {
        let Some(block) = self.take_held() else { return };
        let larger = (block.order().get() + self.random.u8(1..4)).min(9);
        let of = TYPES[self.random.usize(0..TYPES.len())];
        let request = Request::new(Order::new(larger).unwrap(), of);
        if let Some(captured) = token.free_capturing(block, request).unwrap() {
            self.hold(captured, request);
        }
    }

    fn send(&mut self) {
        let Some(held) = self.held.pop() else { return };
        let other = &self.others[self.random.usize(..self.others.len())];
        // A worker that has ended accepts no blocks.
        if let Err(refused) = other.send(held) {
            self.held.push(refused.0);
        }
    }

    fn split(&mut self, token: &mut Token<'a, 'm>) {
        let Some(Held { block, value }) = self.held.pop() else { return };
        match token.split(block) {
            Ok((lower, upper)) => {
                let upper_value = value + lower.order().frames() * WORDS;
                self.held.push(Held { block: lower, value });
                self.held.push(Held { block: upper, value: upper_value });
            }
            Err(block) => {
                assert_eq!(block.order(), Order::ZERO);
                self.held.push(Held { block, value });
            }
        }
    }

    /// Turns a block into its number and adopts it again. Then frees another block by its number.
    fn through_raw(&mut self, token: &mut Token<'a, 'm>) {
        let Some(Held { block, value }) = self.held.pop() else { return };
        let (pfn, order) = block.into_raw();
        // SAFETY: the number is that of the block in the line above.
        let block = unsafe { token.adopt(pfn, order) }.unwrap();
        self.held.push(Held { block, value });
        let Some((pfn, order)) = self.take_held().map(Block::into_raw) else { return };
        // SAFETY: the number is that of the block in the line above.
        unsafe { token.free_raw(pfn, order) }.unwrap();
    }
}
