//! The cost of cache lines, by the caches that hold them.
//!
//! A directory stores for each line the CPU that touched it last, whether it is modified, which
//! sockets have copies, and how many lines that CPU had fetched by then. The number of lines that
//! the CPU has fetched since determines the place of the line: the first-level cache, the second,
//! the last-level cache of the socket, or memory. An entry has eight bytes. It does not contain all
//! readers, so a line that several CPUs read in turn costs a last-level hit each time. The name of
//! a line is logical: no address is used. Tables are allocated in chunks, only where lines are
//! touched.
//!
//! A prefetch is a hint to *read*: a line that another CPU has modified becomes shared, and a later
//! store has to invalidate the copy of that CPU. Prefetches help with lines that are only read, or
//! that were in memory.
//!
//! The cost of an instruction includes a first-level hit; the cycles charged here are added to it.

#![allow(unsafe_code)]

use super::{Cpu, Engine, model::LineCosts};
use crate::host_memory::prefetch;
use std::cell::{Cell, RefCell};

pub use framewright::platform::{Access, Miss};

/// A kind of line. Its members are the objects with such lines, for example zones or CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Family(u8);

impl Family {
    /// Lock words, one line each.
    pub(super) const LOCKS: Self = Self(0);
    /// Published hints of a zone, by zone.
    pub const ZONE_WORDS: Self = Self(1);
    /// The index over pageblocks, by zone.
    pub const ZONE_INDEX: Self = Self(2);
    /// Maps of pageblocks, by zone.
    pub const MAPS: Self = Self(3);
    /// Maps of allocated blocks, by zone.
    pub const HEADS: Self = Self(10);
    /// Headers of pageblocks, by zone.
    pub const HEADERS: Self = Self(4);
    /// Maps of gigablocks (512 pageblocks), by zone.
    pub const GIGABLOCKS: Self = Self(5);
    /// The hot line of the lists of a CPU, by zone.
    pub const CPU_LISTS: Self = Self(6);
    /// The bundle stores of CPUs, by zone and CPU.
    pub const CPU_STORES: Self = Self(7);
    /// Descriptors of frames, by allocator.
    pub const DESCRIPTORS: Self = Self(8);
    /// Lines of the programs themselves.
    pub const PROGRAM: Self = Self(9);
    /// Depots, by zone.
    pub const DEPOTS: Self = Self(11);
    /// Heads of LRU lists, by node.
    pub const LRU_NODES: Self = Self(12);
    /// Links of LRU lists, by node.
    pub const LRU_LINKS: Self = Self(13);

    const COUNT: usize = 14;
}

/// A logical cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// The kind of line.
    pub family: Family,
    /// The member of the family.
    pub member: u32,
    /// The index of the line within the member.
    pub index: u32,
}

const MODIFIED: u8 = 1;
/// The line is in transit: its owner has prefetched it.
const IN_TRANSIT: u8 = 2;
/// No CPU has touched the line.
const NO_OWNER: u16 = 0;

/// The entry of an untouched line.
const IN_MEMORY: Entry = Entry { stamp: 0, owner: NO_OWNER, sockets: 0, flags: 0 };

/// The directory's entry of a line.
#[derive(Clone, Copy)]
struct Entry {
    /// The owner's count of fills when it last touched this line.
    stamp: u32,
    /// The CPU that touched the line last, plus one.
    owner: u16,
    /// Sockets with copies, one bit each; sockets beyond eight share bits.
    sockets: u8,
    flags: u8,
}

/// Lines that are added to the directory together, when one of them is touched.
const CHUNK: usize = 1024;

type Chunk = Box<[Cell<Entry>; CHUNK]>;

/// The lines of one member of a family. The table is sparse: only chunks with touched lines are
/// allocated.
#[derive(Default)]
struct Member {
    chunks: Vec<Option<Chunk>>,
    /// The node whose memory holds the lines.
    home_node: u8,
}

/// The lines of a machine.
#[derive(Default)]
pub(super) struct Directory([Vec<Member>; Family::COUNT]);

impl Directory {
    fn member(&mut self, family: Family, member: u32) -> &mut Member {
        let (members, member) = (&mut self.0[usize::from(family.0)], member as usize);
        if member >= members.len() {
            members.resize_with(member + 1, Member::default);
        }
        &mut members[member]
    }

    /// The entry of a line and its memory node. `None` if no line of its chunk has been touched.
    #[inline(always)]
    fn entry(&self, line: Line) -> Option<(&Cell<Entry>, u8)> {
        let index = line.index as usize;
        let member = self.0[usize::from(line.family.0)].get(line.member as usize)?;
        let chunk = member.chunks.get(index / CHUNK)?.as_ref()?;
        Some((&chunk[index % CHUNK], member.home_node))
    }

    /// Adds the chunk of a line.
    #[cold]
    #[inline(never)]
    fn add(&mut self, line: Line) {
        let (member, place) = (self.member(line.family, line.member), line.index as usize / CHUNK);
        if place >= member.chunks.len() {
            member.chunks.resize_with(place + 1, || None);
        }
        member.chunks[place]
            .get_or_insert_with(|| Box::new([const { Cell::new(IN_MEMORY) }; CHUNK]));
    }

    /// Resets all lines to memory.
    pub(super) fn clear_all(&mut self) {
        self.0.iter_mut().flatten().for_each(|member| member.chunks.clear());
    }
}

/// Cache lines of a frame.
const FRAME_LINES: u32 = 64;

/// Misses that a core can have in flight.
const IN_FLIGHT_MAX: usize = 10;

/// The engine's state of the caches of a CPU.
#[derive(Default)]
#[repr(C)]
pub(super) struct Cache {
    /// Lines fetched so far.
    fills: Cell<u32>,
    /// Prefetched lines in transit, and when they arrive; time 0 marks an empty slot.
    in_flight: RefCell<[(u64, u64); IN_FLIGHT_MAX]>,
}

impl Cache {
    fn name(line: Line) -> u64 {
        u64::from(line.family.0) << 56 ^ u64::from(line.member) << 32 ^ u64::from(line.index)
    }

    /// Removes a line from those in transit. Returns its time of arrival; 0 if it was not in
    /// transit.
    fn take_prefetched(&self, line: Line) -> u64 {
        let mut in_flight = self.in_flight.borrow_mut();
        let slot = in_flight.iter_mut().find(|(name, time)| *time > 0 && *name == Self::name(line));
        slot.map_or(0, |slot| std::mem::take(slot).1)
    }

    /// Prefetches a line that takes `latency` cycles. Returns the wait for a free slot.
    fn prefetch(&self, line: Line, now: u64, latency: u64) -> u64 {
        let mut in_flight = self.in_flight.borrow_mut();
        let first =
            in_flight.iter_mut().min_by_key(|(_, time)| *time).expect("the table has slots");
        let wait = first.1.saturating_sub(now);
        *first = (Self::name(line), now + wait + latency);
        wait
    }

    pub(super) fn clear_all(&self) {
        self.fills.set(0);
        *self.in_flight.borrow_mut() = Default::default();
    }
}

impl Engine {
    /// Sets the node whose memory holds the lines of a member. The default is node 0.
    pub(crate) fn set_home_node(&self, family: Family, member: u32, node: u8) {
        self.directory.borrow_mut().member(family, member).home_node = node;
    }

    /// Moves a line to a CPU without a charge. The caller charges the cost.
    pub(super) fn take_line(&self, line: Line, cpu: u16) {
        let stamp = self.cpus[usize::from(cpu)].cache.fills.get();
        let sockets = self.socket_bit(cpu);
        let taken = Entry { stamp, owner: cpu + 1, sockets, flags: MODIFIED };
        self.replace_entry(line, |_| taken);
    }

    /// Changes the entry of a line. Returns the old entry and the memory node of the line.
    #[inline]
    fn replace_entry(&self, line: Line, change: impl FnOnce(Entry) -> Entry) -> (Entry, u8) {
        let directory = self.directory.borrow();
        let Some((entry, home_node)) = directory.entry(line) else {
            drop(directory);
            self.directory.borrow_mut().add(line);
            return self.replace_entry(line, change);
        };
        let found = entry.get();
        entry.set(change(found));
        (found, home_node)
    }

    fn socket_bit(&self, cpu: u16) -> u8 {
        1 << (self.model.sockets[usize::from(cpu)] % 8)
    }

    /// Whether no cache holds the line any more.
    fn is_in_memory(&self, entry: Entry) -> bool {
        let age = |owner: u16| {
            let fills = self.cpus[usize::from(owner)].cache.fills.get();
            fills.wrapping_sub(entry.stamp)
        };
        entry.owner == NO_OWNER
            || matches!(place(age(entry.owner - 1), &self.model.lines), Place::Memory)
    }

    /// The cycles for a line that is not in the L1 cache, and whether it comes from outside the
    /// core.
    fn latency(&self, entry: Entry, home_node: u8, cpu: u16, write: bool) -> (u64, bool) {
        let costs = &self.model.lines;
        let near = self.model.nodes[usize::from(cpu)] == home_node;
        let memory = if near { costs.memory_local } else { costs.memory_remote };
        if entry.owner == NO_OWNER {
            return (memory, true);
        }
        let owner = entry.owner - 1;
        let age = self.cpus[usize::from(owner)].cache.fills.get().wrapping_sub(entry.stamp);
        let fresh = place(age, costs);
        let others = entry.sockets & !self.socket_bit(cpu) != 0;
        let shared = entry.flags & MODIFIED == 0;
        // Other copies have to be invalidated before a store.
        let invalidation = match (write && shared, others) {
            (false, _) => 0,
            (true, false) => costs.same_socket,
            (true, true) => costs.remote,
        };
        if owner == cpu {
            return match fresh {
                Place::L1 => (invalidation, invalidation > 0),
                Place::L2 => (costs.l2.max(invalidation), invalidation > 0),
                Place::Llc => (costs.llc.max(invalidation), true),
                Place::Memory => (memory.max(invalidation), true),
            };
        }
        let same_socket = entry.sockets & self.socket_bit(cpu) != 0;
        let found = match (fresh, shared) {
            (Place::Memory, _) => memory,
            (Place::L1 | Place::L2, false) => self.model.transfer(owner, cpu),
            (Place::Llc, false) if same_socket => costs.llc,
            (Place::Llc, false) => costs.remote,
            (_, true) if same_socket => costs.llc,
            (_, true) => memory,
        };
        (found.max(invalidation), true)
    }
}

/// The place of a line.
#[derive(Clone, Copy)]
enum Place {
    L1,
    L2,
    Llc,
    Memory,
}

/// The place of a line after `age` other lines were fetched.
fn place(age: u32, costs: &LineCosts) -> Place {
    match age {
        _ if age < costs.l1_lines => Place::L1,
        _ if age < costs.l2_lines => Place::L2,
        _ if age < costs.l2_lines + costs.llc_lines => Place::Llc,
        _ => Place::Memory,
    }
}

impl Cpu<'_> {
    /// Accesses a line, and waits for it.
    #[inline]
    pub fn touch(&self, line: Line, access: Access, miss: Miss) {
        if !self.engine.has_caches || self.hits_l1(line, access) {
            return;
        }
        self.get_line(line, access, miss);
    }

    /// Whether a line is in the first-level cache, ready for `access`. If so, the access is done.
    #[inline]
    fn hits_l1(&self, line: Line, access: Access) -> bool {
        // SAFETY: no code of other modules runs below, so nothing changes the directory while this
        // reference is alive. A counted borrow would cost as much as the look-up itself.
        let directory = unsafe { self.engine.directory.try_borrow_unguarded() };
        let Ok(directory) = directory else { return false };
        let Some((cell, _)) = directory.entry(line) else { return false };
        let (entry, fills) = (cell.get(), self.state().cache.fills.get());
        let mine = entry.owner == self.number() + 1 && entry.flags & IN_TRANSIT == 0;
        let may = access != Access::Write || entry.flags & MODIFIED != 0;
        let near = fills.wrapping_sub(entry.stamp) < self.engine.model.lines.l1_lines;
        let hits = mine && may && near;
        if hits {
            cell.set(Entry { stamp: fills, ..entry });
        }
        hits
    }

    /// Fetches a line that is not in the first-level cache.
    #[inline(never)]
    fn get_line(self, line: Line, access: Access, miss: Miss) {
        let fills = self.state().cache.fills.get();
        let touched = |found| self.touched(found, access, fills);
        let (found, home_node) = self.engine.replace_entry(line, touched);
        self.wait_for_line(line, found, home_node, access, miss);
    }

    /// The new entry of a line that this CPU accesses.
    fn touched(&self, found: Entry, access: Access, fills: u32) -> Entry {
        let me = self.number() + 1;
        let (my_bit, stamp) = (self.engine.socket_bit(self.number()), fills.wrapping_add(1));
        let (sockets, flags) = match access {
            Access::Read if found.owner == me => (found.sockets, found.flags & MODIFIED),
            Access::Read => (found.sockets | my_bit, 0),
            Access::Write => (my_bit, MODIFIED),
            Access::Prefetch if found.owner == me => {
                (found.sockets, found.flags & MODIFIED | IN_TRANSIT)
            }
            // No cache holds the line: it arrives exclusive, ready for a store.
            Access::Prefetch if self.engine.is_in_memory(found) => (my_bit, MODIFIED | IN_TRANSIT),
            Access::Prefetch => (found.sockets | my_bit, IN_TRANSIT),
        };
        Entry { stamp, owner: me, sockets, flags }
    }

    fn wait_for_line(self, line: Line, found: Entry, home_node: u8, access: Access, miss: Miss) {
        let (state, me) = (self.state(), self.number());
        let cache = &state.cache;
        cache.fills.set(cache.fills.get().wrapping_add(1));
        let costs = &self.engine.model.lines;
        let write = access == Access::Write;
        let wait = if found.owner == me + 1 && found.flags & IN_TRANSIT != 0 {
            let shared = write && found.flags & MODIFIED == 0;
            // The contents have been prefetched; only a store waits, for the invalidation of other
            // copies.
            let invalidation =
                if shared { self.engine.latency(found, home_node, me, true).0 } else { 0 };
            cache.take_prefetched(line).saturating_sub(self.now()) + invalidation / costs.parallel
        } else {
            let (latency, outside) = self.engine.latency(found, home_node, me, write);
            match (access, miss) {
                (Access::Prefetch, _) => cache.prefetch(line, self.now(), latency),
                (_, Miss::Independent) if outside => latency / costs.parallel,
                _ => latency,
            }
        };
        state.missed.set(state.missed.get() + wait);
        self.work(wait);
    }

    /// Prefetches the directory's entry of a line that is likely to be accessed next. Nothing
    /// happens on the simulated machine.
    #[inline]
    pub fn expect_line(&self, line: Line) {
        if let Some((entry, _)) = self.engine.directory.borrow().entry(line) {
            prefetch(entry);
        }
    }

    /// Counts `lines` more lines as fetched into the caches of this CPU. They push other lines out,
    /// but have no entries of their own.
    pub fn pollute(&self, lines: u32) {
        let fills = &self.state().cache.fills;
        fills.set(fills.get().wrapping_add(lines));
    }

    /// Charges clearing `frames` frames.
    pub fn clear_frames(&self, frames: u64) {
        self.work(self.engine.model.clear * frames);
        self.pollute(FRAME_LINES.wrapping_mul(frames as u32));
    }

    /// Charges copying a frame.
    pub fn copy_frame(&self) {
        self.work(self.engine.model.copy);
        self.pollute(2 * FRAME_LINES);
    }
}
