//! The bodies: a writer, and a reader.

use super::{Role, SocketPairs, WRITE_BYTES};
use crate::workloads::{
    allocator::{Allocator, Frames},
    cpu::{Cpu, Stopped},
    pipe::{Message, Pipe, Pipes},
    world::{Task, World},
};
use framewright::{MigrateType, Order, Request};

/// The blocks of a write; now and then there is one more of order 0.
const ORDERS: [u8; 4] = [3, 2, 1, 0];
/// Frames of a write at most.
pub(super) const MOST_FRAMES: u32 = 8 + 4 + 2 + 1 + 1;
/// Of so many writes one has the other block of order 0.
const EXTRA_EVERY: u32 = 10;

/// Writes, or reads, until the machine says that it is enough.
pub(crate) fn run<A: Allocator, W: World<A::Block>>(
    work: &SocketPairs,
    cpu: &mut Cpu<'_, A, W>,
    pipes: Pipes<'_, A::Block>,
) -> Result<(), Stopped> {
    let Some((pair, role)) = work.role(cpu.number, cpu.of) else { return Ok(()) };
    let pipe = &*pipes[usize::from(pair)];
    let result = match role {
        Role::Writer => write_all(work, cpu, pipe),
        Role::Reader => read_all(work, cpu, pipe),
    };
    pipe.close();
    // Who stops early leaves nothing behind for anybody to trip over.
    if role == Role::Reader {
        while let Some(message) = pipe.receive() {
            message.blocks.into_iter().for_each(|block| cpu.allocator.free(block));
        }
    }
    result
}

fn write_all<A: Allocator, W: World<A::Block>>(
    work: &SocketPairs,
    cpu: &mut Cpu<'_, A, W>,
    pipe: &dyn Pipe<Message<A::Block>>,
) -> Result<(), Stopped> {
    let mut random = fastrand::Rng::with_seed(work.seed ^ (u64::from(cpu.number) << 32));
    let mut value = (u64::from(cpu.number) + 1) << 48;
    while cpu.goes_on() && !cpu.is_over() {
        value += 1 << 16;
        cpu.does(Task::Compute(work.cycles_per_call));
        let extra = random.u32(..EXTRA_EVERY) == 0;
        let message = message(cpu, value, extra)?;
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

fn read_all<A: Allocator, W: World<A::Block>>(
    work: &SocketPairs,
    cpu: &mut Cpu<'_, A, W>,
    pipe: &dyn Pipe<Message<A::Block>>,
) -> Result<(), Stopped> {
    let mut result = Ok(());
    while let Some(message) = pipe.receive() {
        cpu.does(Task::Compute(work.cycles_per_call));
        for block in message.blocks {
            result = result.and(cpu.copy_out(&block, message.value));
            cpu.allocator.free(block);
        }
        if result.is_err() {
            break;
        }
    }
    result
}
