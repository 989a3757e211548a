//! The bodies: a writer, and a reader.

use super::{Role, SocketPairs, WRITE_BYTES};
use crate::workloads::{
    allocator::{Allocator, Frames},
    cpu::{Cpu, Stopped},
    pipe::{Message, Pipe},
    world::{Task, World},
};
use framewright::{MigrateType, Order, Request};

/// The blocks of a write; now and then there is one more of order 0.
const ORDERS: [u8; 4] = [3, 2, 1, 0];
/// Frames of a write at most.
pub(super) const MOST_FRAMES: u32 = 8 + 4 + 2 + 1 + 1;
/// Of so many writes one has the other block of order 0.
const EXTRA_EVERY: u32 = 10;

/// A CPU's end of a socket.
pub(crate) struct End<'w> {
    work: &'w SocketPairs,
    role: Option<Role>,
    random: fastrand::Rng,
    /// What the next write is made from.
    value: u64,
}

impl<'w> End<'w> {
    /// That of CPU `cpu` of a machine of `cpus`.
    pub(crate) fn new(work: &'w SocketPairs, cpu: u16, cpus: u16) -> Self {
        Self {
            work,
            role: work.role(cpu, cpus).map(|(_, role)| role),
            random: fastrand::Rng::with_seed(work.seed ^ (u64::from(cpu) << 32)),
            value: (u64::from(cpu) + 1) << 48,
        }
    }

    /// Writes, or reads, until the machine says that it is enough, or the other end does.
    pub(crate) fn work<A: Allocator, W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        pipe: &dyn Pipe<Message<A::Block>>,
    ) -> Result<(), Stopped> {
        let result = match self.role {
            Some(Role::Writer) => self.write_all(cpu, pipe),
            Some(Role::Reader) => self.read_all(cpu, pipe),
            None => return Ok(()),
        };
        pipe.close();
        result
    }

    /// Whoever stops early leaves nothing in the socket.
    pub(crate) fn give_back<A: Allocator, W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        pipe: &dyn Pipe<Message<A::Block>>,
    ) {
        while self.role == Some(Role::Reader)
            && let Some(message) = pipe.receive()
        {
            message.blocks.into_iter().for_each(|block| cpu.allocator.free(block));
        }
    }

    fn write_all<A: Allocator, W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        pipe: &dyn Pipe<Message<A::Block>>,
    ) -> Result<(), Stopped> {
        while cpu.goes_on() && !cpu.is_over() {
            self.value += 1 << 16;
            cpu.does(Task::Compute(self.work.cycles_per_call));
            let extra = self.random.u32(..EXTRA_EVERY) == 0;
            let message = message(cpu, self.value, extra)?;
            let frames: u64 = message.blocks.iter().map(|block| block.order().frames()).sum();
            if let Err(refused) = pipe.send(message) {
                refused.blocks.into_iter().for_each(|block| cpu.allocator.free(block));
                return Ok(());
            }
            cpu.tally.pages.add(frames);
            cpu.tally.bytes.add(WRITE_BYTES);
        }
        Ok(())
    }

    fn read_all<A: Allocator, W: World<A::Block>>(
        &mut self,
        cpu: &mut Cpu<'_, A, W>,
        pipe: &dyn Pipe<Message<A::Block>>,
    ) -> Result<(), Stopped> {
        while !cpu.is_over()
            && let Some(message) = pipe.receive()
        {
            cpu.does(Task::Compute(self.work.cycles_per_call));
            let mut result = Ok(());
            for block in message.blocks {
                result = result.and(cpu.copy_out(&block, message.value));
                cpu.allocator.free(block);
            }
            result?;
        }
        Ok(())
    }
}

/// The blocks of a write, filled.
fn message<A: Allocator, W: World<A::Block>>(
    cpu: &mut Cpu<'_, A, W>,
    value: u64,
    extra: bool,
) -> Result<Message<A::Block>, Stopped> {
    let mut blocks = Vec::with_capacity(ORDERS.len() + 1);
    for order in ORDERS.into_iter().chain(extra.then_some(0)) {
        let order = Order::new(order).expect("small");
        match cpu.alloc(Request::new(order, MigrateType::Unmovable)) {
            Ok(mut block) => {
                cpu.copy_in(&mut block, value);
                blocks.push(block);
            }
            Err(stopped) => {
                blocks.into_iter().for_each(|block| cpu.allocator.free(block));
                return Err(stopped);
            }
        }
    }
    Ok(Message { blocks, value })
}
