//! `socket-pairs`: blocks with data, allocated on one CPU and freed on another.
//!
//! This is the allocator's part of lmbench's bw_unix with 16 pairs of processes: a writer puts 64
//! KiB at a time into a socket, a reader takes them out. Linux makes two buffers of each write. For
//! these it allocates one block each of orders 3, 2 and 1, and about 1.1 of order 0, on the
//! writer's CPU; they are freed on the reader's CPU. One CPU thus only allocates, at four orders,
//! and the other only frees: its lists fill with the frames that the first CPU lacks. Frames move
//! through the zone, and their speed determines whether a frame is still in a cache when it is
//! written again.
//!
//! The socket has a capacity of 208 KiB, three writes.
//!
//! *Pinned*, each writer and each reader has a CPU: writers even ones, their readers the next ones.
//! Pairs are distributed evenly over the machine. With fewer than 32 CPUs there are fewer pairs. With
//! a larger *distance*, writers have CPUs below it, and readers those above, for example on another socket.
//! *Scheduled*, all 32 are tasks, which a scheduler places on CPUs whenever they are woken
//! (`simulated/scheduled`): a writer and its reader may then meet on a CPU, whose lists reuse the
//! frames that the reader freed.

use crate::choice::choice;
use framewright::{MigrateType, Order, Request};

use super::{
    cpu::{Cpu, Stopped},
    world::{Allocator, Message, Pipe, Task, World},
};

/// The work of each pair.
#[derive(Clone, Debug)]
pub struct SocketPairs {
    /// Number of pairs; if they are pinned, limited by the CPUs.
    pub pairs: u16,
    /// The CPUs of writers and readers.
    pub placement: Placement,
    /// The number of CPUs from a pinned writer to its reader.
    pub distance: u16,
    /// Writes that a socket holds.
    pub in_flight: u16,
    /// Cycles of a read or a write, without allocating, freeing and copying.
    pub cycles_per_call: u64,
    /// Seed of random choices.
    pub seed: u64,
}

choice! {
    /// The CPUs of writers and readers.
    pub enum Placement {
        /// Each writer and each reader has a CPU of its own
        #[default]
        Pinned = "pinned",
        /// A scheduler places them whenever they are woken, as Linux does; several may share a CPU
        Scheduled = "scheduled",
    }
}

/// Bytes of a write.
pub(crate) const WRITE_BYTES: u64 = 64 << 10;

impl SocketPairs {
    /// 16 pairs.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            pairs: 16,
            placement: Placement::default(),
            distance: 1,
            in_flight: 3,
            cycles_per_call: 4_000,
            seed,
        }
    }

    /// Maximum number of frames in all sockets, and held by writers and readers.
    #[must_use]
    pub fn live_frames(&self, cpus: u16) -> u64 {
        let writes = u64::from(self.pairs_on(cpus)) * (u64::from(self.in_flight) + 2);
        writes * u64::from(MOST_FRAMES)
    }

    /// Pairs that run on `cpus` CPUs.
    #[must_use]
    pub fn pairs_on(&self, cpus: u16) -> u16 {
        match self.distance {
            _ if !self.is_pinned() => self.pairs,
            0 | 1 => self.pairs.min(cpus / 2),
            distance => self.pairs.min(distance),
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.placement == Placement::Pinned
    }

    /// The pair of a CPU, and its role in the pair; `None` if no writer or reader is pinned to the
    /// CPU.
    pub(crate) fn role(&self, cpu: u16, cpus: u16) -> Option<(u16, Role)> {
        if !self.is_pinned() {
            return None;
        }
        let pairs = self.pairs_on(cpus);
        if self.distance > 1 {
            let stride = (self.distance / pairs.max(1)).max(1);
            let (pair, place) = (cpu % self.distance / stride, cpu % self.distance % stride);
            let role = if cpu < self.distance { Role::Writer } else { Role::Reader };
            return (place == 0 && pair < pairs && cpu / 2 < self.distance).then_some((pair, role));
        }
        let stride = (cpus / pairs.max(1)) & !1;
        let (pair, place) = (cpu / stride.max(2), cpu % stride.max(2));
        match place {
            _ if pair >= pairs => None,
            0 => Some((pair, Role::Writer)),
            1 => Some((pair, Role::Reader)),
            _ => None,
        }
    }

    pub(super) fn lacks(&self, cpus: u16) -> Option<&'static str> {
        match () {
            () if self.pairs == 0 => Some("pair"),
            () if self.in_flight == 0 => Some("write in flight"),
            () if self.is_pinned()
                && u32::from(cpus) < 2 * u32::from(self.distance)
                && self.distance > 1 =>
            {
                Some("CPU at the distance of each reader")
            }
            () if self.is_pinned() && cpus < 2 => Some("second CPU for a reader"),
            () => None,
        }
    }
}

/// The role of a CPU in its pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Writer,
    Reader,
}

/// The orders of the blocks of a write; some writes have one more of order 0.
const ORDERS: [u8; 4] = [3, 2, 1, 0];
/// The maximum number of frames of a write.
const MOST_FRAMES: u32 = 8 + 4 + 2 + 1 + 1;
/// On average, one write in this number has a second block of order 0.
const EXTRA_EVERY: u32 = 10;

/// A CPU's end of a socket.
pub(crate) struct End<'w> {
    work: &'w SocketPairs,
    role: Option<Role>,
    random: fastrand::Rng,
    /// The value for the next write.
    value: u64,
}

impl<'w> End<'w> {
    /// The end of CPU `cpu` of a machine of `cpus`.
    pub(crate) fn new(work: &'w SocketPairs, cpu: u16, cpus: u16) -> Self {
        Self {
            work,
            role: work.role(cpu, cpus).map(|(_, role)| role),
            random: fastrand::Rng::with_seed(work.seed ^ (u64::from(cpu) << 32)),
            value: (u64::from(cpu) + 1) << 48,
        }
    }

    /// Writes, or reads, until the machine or the other end ends the run.
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

    /// Empties the socket: after an early end, nothing may be left in it.
    pub(crate) fn free_all<A: Allocator, W: World<A::Block>>(
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
        while cpu.continues() && !cpu.is_over() {
            self.value += 1 << 16;
            let message = self.work.fill(cpu, &mut self.random, self.value)?;
            let frames = message.frames();
            if let Err(refused) = pipe.send(message) {
                refused.blocks.into_iter().for_each(|block| cpu.allocator.free(block));
                return Ok(());
            }
            count_write(cpu, frames);
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
            self.work.empty(cpu, message)?;
        }
        Ok(())
    }
}

impl SocketPairs {
    /// The message of a write.
    pub(crate) fn fill<A: Allocator, W: World<A::Block>>(
        &self,
        cpu: &mut Cpu<'_, A, W>,
        random: &mut fastrand::Rng,
        value: u64,
    ) -> Result<Message<A::Block>, Stopped> {
        cpu.perform(Task::Compute(self.cycles_per_call));
        let extra = random.u32(..EXTRA_EVERY) == 0;
        message(cpu, value, extra)
    }

    /// Reads a message, and frees its blocks.
    pub(crate) fn empty<A: Allocator, W: World<A::Block>>(
        &self,
        cpu: &mut Cpu<'_, A, W>,
        message: Message<A::Block>,
    ) -> Result<(), Stopped> {
        cpu.perform(Task::Compute(self.cycles_per_call));
        let mut result = Ok(());
        for block in message.blocks {
            result = result.and(cpu.copy_out(&block, message.value));
            cpu.allocator.free(block);
        }
        result
    }
}

/// Counts a write that the socket accepted.
pub(crate) fn count_write<A, W>(cpu: &Cpu<'_, A, W>, frames: u64) {
    cpu.counters.pages.add(frames);
    cpu.counters.bytes.add(WRITE_BYTES);
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
    Ok(Message { blocks, value, written_on: cpu.number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(pairs: u16, cpus: u16) -> Vec<Option<(u16, Role)>> {
        let work = SocketPairs { pairs, ..SocketPairs::new(1) };
        (0..cpus).map(|cpu| work.role(cpu, cpus)).collect()
    }

    #[test]
    fn scheduled_pairs_have_no_cpu_of_their_own_and_need_none() {
        let work = SocketPairs { placement: Placement::Scheduled, ..SocketPairs::new(1) };
        assert_eq!((work.pairs_on(1), work.role(0, 1), work.lacks(1)), (16, None, None));
        let pinned = SocketPairs::new(1);
        assert_eq!(pinned.pairs_on(4), 2);
        assert!(pinned.lacks(1).is_some());
    }

    #[test]
    fn readers_at_a_distance_are_in_the_other_half() {
        use Role::{Reader, Writer};
        let work = SocketPairs { pairs: 2, distance: 4, ..SocketPairs::new(1) };
        let roles: Vec<_> = (0..9).map(|cpu| work.role(cpu, 9)).collect();
        let (w, r) = (|pair| Some((pair, Writer)), |pair| Some((pair, Reader)));
        assert_eq!(roles, [w(0), None, w(1), None, r(0), None, r(1), None, None]);
        assert!(work.lacks(7).is_some() && work.lacks(8).is_none());
        let most = SocketPairs { distance: 5, ..SocketPairs::new(1) };
        assert_eq!(most.pairs_on(10), 5);
        assert_eq!((0..10).filter(|&cpu| most.role(cpu, 10).is_some()).count(), 10);
    }

    #[test]
    fn pairs_are_spread_over_the_machine_and_complete() {
        use Role::{Reader, Writer};
        assert_eq!(roles(16, 3), [Some((0, Writer)), Some((0, Reader)), None]);
        let two = roles(2, 8);
        assert_eq!(two[4..6], [Some((1, Writer)), Some((1, Reader))]);
        assert_eq!(two.iter().flatten().count(), 4);
        for cpus in 2..300 {
            let roles = roles(16, cpus);
            let pairs = SocketPairs::new(1).pairs_on(cpus);
            for pair in 0..pairs {
                for role in [Writer, Reader] {
                    let with = roles.iter().flatten().filter(|had| **had == (pair, role));
                    assert_eq!(with.count(), 1, "{cpus} CPUs, pair {pair}");
                }
            }
            assert_eq!(roles.iter().flatten().count(), 2 * usize::from(pairs), "{cpus} CPUs");
        }
    }
}
