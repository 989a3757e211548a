//! Slabs: blocks of small kernel objects. One object in use makes its block, and thereby a
//! pageblock, unmovable.

use std::cell::RefCell;

use framewright::{Block, MigrateType, Order};

/// Kinds of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Inodes, some 1.1 KB each.
    Inode,
    /// Directory entries, 192 bytes.
    Entry,
    /// Nodes of the tree of a file's cached pages, 576 bytes.
    Node,
    /// A buffer head, 104 bytes: the position of a written page on the device.
    Head,
    /// Other objects of a process, half a kilobyte.
    Other,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Inode, Self::Entry, Self::Node, Self::Head, Self::Other];

    /// The order of a slab, and its number of objects: those of ext4_inode_cache, dentry,
    /// radix_tree_node, buffer_head and kmalloc-512.
    const fn shape(self) -> (u8, u16) {
        match self {
            Self::Inode => (3, 27),
            Self::Entry => (0, 21),
            Self::Node => (2, 28),
            Self::Head => (0, 39),
            Self::Other => (2, 32),
        }
    }

    /// Number of objects in a slab of a single frame, which is used when there is no larger block.
    const fn per_frame(self) -> u16 {
        match self {
            Self::Inode => 3,
            Self::Node => 7,
            Self::Other => 8,
            Self::Entry | Self::Head => self.shape().1,
        }
    }

    /// Number of objects in a slab of this order.
    fn capacity(self, order: Order) -> u16 {
        if order == self.order() { self.shape().1 } else { self.per_frame() }
    }

    pub(super) const fn migratetype(self) -> MigrateType {
        match self {
            Self::Inode | Self::Entry | Self::Node | Self::Head => MigrateType::Reclaimable,
            Self::Other => MigrateType::Unmovable,
        }
    }

    pub(super) fn order(self) -> Order {
        Order::new(self.shape().0).unwrap_or(Order::ZERO)
    }
}

struct Slab<'m> {
    block: Option<Block<'m>>,
    kind: Kind,
    /// Maximum and current number of objects.
    capacity: u16,
    used: u16,
    /// Whether the slab is on the list of slabs with free objects.
    listed: bool,
}

/// All slabs.
#[derive(Default)]
pub(super) struct Slabs<'m> {
    slabs: RefCell<Vec<Slab<'m>>>,
    unused: RefCell<Vec<u32>>,
    /// Slabs with free objects, by kind; some entries are stale.
    partial: [RefCell<Vec<u32>>; Kind::ALL.len()],
}

impl<'m> Slabs<'m> {
    /// Takes an object of an existing slab. Returns the slab.
    pub(super) fn take(&self, kind: Kind) -> Option<u32> {
        let mut partial = self.partial[kind as usize].borrow_mut();
        let mut slabs = self.slabs.borrow_mut();
        while let Some(&at) = partial.last() {
            let slab = &mut slabs[at as usize];
            let fits = slab.block.is_some() && slab.kind == kind && slab.used < slab.capacity;
            if fits {
                slab.used += 1;
            }
            if !fits || slab.used == slab.capacity {
                slab.listed = false;
                partial.pop();
            }
            if slab.block.is_none() {
                self.unused.borrow_mut().push(at);
            }
            if fits {
                return Some(at);
            }
        }
        None
    }

    /// Makes a new slab of `block`, and takes an object from it.
    pub(super) fn grow(&self, kind: Kind, block: Block<'m>) -> u32 {
        let mut slabs = self.slabs.borrow_mut();
        let capacity = kind.capacity(block.order());
        let slab = Slab { block: Some(block), kind, capacity, used: 1, listed: true };
        let at = match self.unused.borrow_mut().pop() {
            Some(at) => {
                slabs[at as usize] = slab;
                at
            }
            None => {
                slabs.push(slab);
                slabs.len() as u32 - 1
            }
        };
        self.partial[kind as usize].borrow_mut().push(at);
        at
    }

    /// Frees an object. Returns the block of its slab if the object was the slab's last.
    pub(super) fn put(&self, at: u32) -> Option<Block<'m>> {
        let mut slabs = self.slabs.borrow_mut();
        let slab = &mut slabs[at as usize];
        slab.used -= 1;
        if slab.used == 0 {
            // If the list has a stale entry of this slab, the number is not reused before the entry
            // is removed.
            if !slab.listed {
                self.unused.borrow_mut().push(at);
            }
            return slab.block.take();
        }
        if !slab.listed {
            slab.listed = true;
            self.partial[slab.kind as usize].borrow_mut().push(at);
        }
        None
    }

    /// All blocks, at the end of the run.
    pub(super) fn dissolve(&self) -> Vec<Block<'m>> {
        self.slabs.borrow_mut().iter_mut().filter_map(|slab| slab.block.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_frame_holds_as_many_objects_as_fit() {
        for (kind, bytes) in
            [(Kind::Inode, 1_100), (Kind::Node, 576), (Kind::Other, 512), (Kind::Head, 104)]
        {
            assert_eq!(kind.capacity(Order::ZERO), 4096 / bytes, "{kind:?}");
            assert!(kind.capacity(kind.order()) >= kind.capacity(Order::ZERO), "{kind:?}");
        }
    }
}
