//! The functions that differ between the two allocators: the count of frames in use, and the check
//! of consistency.

type Checked = Result<(), &'static str>;

#[cfg(feature = "stock")]
mod chosen {
    use ostd::mm::PAGE_SIZE;

    use crate::held::usable;

    pub(crate) fn in_use() -> usize {
        (usable() - osdk_frame_allocator::load_total_free_size()) / PAGE_SIZE
    }

    /// OSTD's allocator has no check.
    pub(crate) fn check() -> super::Checked {
        Ok(())
    }
}

#[cfg(not(feature = "stock"))]
mod chosen {
    use framewright_ostd::FrameAllocator;
    use ostd::prelude::println;

    #[ostd::global_frame_allocator]
    static FRAMES: FrameAllocator = FrameAllocator;

    pub(crate) fn in_use() -> usize {
        let Some(memory) = framewright_ostd::memory() else { return 0 };
        memory.drain_all();
        (memory.managed() - memory.free()) as usize
    }

    pub(crate) fn check() -> super::Checked {
        let memory = framewright_ostd::memory().ok_or("the allocator was not initialised")?;
        memory.drain_all();
        println!("figure managed_frames {}", memory.managed());
        println!("figure metadata_bytes {}", memory.layout().bytes());
        memory.check().map_err(|violation| {
            println!("{}", violation);
            "the allocator is not consistent"
        })
    }
}

pub(crate) use chosen::{check, in_use};
