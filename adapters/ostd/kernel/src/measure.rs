//! Instructions per operation.

use alloc::vec::Vec;

use ostd::{
    cpu::num_cpus,
    mm::{Frame, FrameAllocOptions},
    prelude::println,
};

use crate::{cpus, user};

type Done = Result<(), &'static str>;

/// Prints figures for every kind of work, at the occupancy that `at` names.
pub(crate) fn all(at: &str) -> Done {
    let print = |name: &str, operations: usize, work: cpus::Work| {
        // The first run is not counted. It fills caches, and does work that the previous kind of work put off, such as
        // returning frames from the lists of a CPU.
        cpus::run(work)?;
        let instructions = cpus::run(work)?;
        let tenths = instructions * 10 / (operations * num_cpus()) as u64;
        println!("figure {}@{} {}.{}", name, at, tenths / 10, tenths % 10);
        Ok::<(), &'static str>(())
    };
    print("frame", FRAMES, |_| bursts::<1>())?;
    print("frames_in_bursts_of_16", FRAMES, |_| bursts::<16>())?;
    print("frames_in_bursts_of_256", FRAMES, |_| bursts::<256>())?;
    print("frames_in_bursts_of_2048", FRAMES, |_| bursts::<2048>())?;
    print("segment_of_2", SEGMENTS, |_| segments(2))?;
    print("segment_of_4", SEGMENTS, |_| segments(4))?;
    if at == "empty" {
        print("segment_of_3", SEGMENTS, |_| segments(3))?;
        print("segment_of_10", SEGMENTS, |_| segments(10))?;
        print("segment_of_64", SEGMENTS, |_| segments(64))?;
        print("segment_of_512", SEGMENTS / 8, |_| segments_times(512, SEGMENTS / 8))?;
    }
    print("map_and_unmap", user::PAGES, |_| user::map_and_unmap())?;
    print("user_page_fault", user::PAGES, |_| user::touch_pages())
}

/// Allocations of single frames for a figure.
const FRAMES: usize = 1 << 14;
/// Allocations of segments for a figure.
const SEGMENTS: usize = 1 << 10;

fn unzeroed() -> FrameAllocOptions {
    let mut options = FrameAllocOptions::new();
    options.zeroed(false);
    options
}

/// Allocates `BURST` frames, and then frees them, oldest first.
fn bursts<const BURST: usize>() -> Done {
    let options = unzeroed();
    let mut frames: Vec<Frame<()>> = Vec::with_capacity(BURST);
    for _ in 0..FRAMES / BURST {
        for _ in 0..BURST {
            frames.push(options.alloc_frame().map_err(|_| "no frame")?);
        }
        frames.clear();
    }
    Ok(())
}

fn segments(frames: usize) -> Done {
    segments_times(frames, SEGMENTS)
}

fn segments_times(frames: usize, times: usize) -> Done {
    let options = unzeroed();
    for _ in 0..times {
        drop(options.alloc_segment(frames).map_err(|_| "no segment")?);
    }
    Ok(())
}
