//! Reports as text.

mod free_blocks;
mod high_alloc;
mod host_paging;
mod hunt;
mod large_memory;
mod machines;
mod micro;
mod paging;
mod record;
mod replay;
mod report;
mod reproduce;
mod tuning;
mod workload;

use anstyle::Style as TextStyle;
use framewright_lab::report::Style;

pub(crate) use high_alloc::high_alloc;
pub(crate) use host_paging::host_paging;
pub(crate) use hunt::{hunt, hunt_list};
pub(crate) use large_memory::large_memory;
pub(crate) use machines::{machine, machines};
pub(crate) use micro::{instructions, micro};
pub(crate) use paging::paging;
pub(crate) use record::{lost, record};
pub(crate) use replay::replay;
pub(crate) use reproduce::reproduce;
pub(crate) use tuning::tuning;
pub(crate) use workload::{emulated, on_threads, scaled, simulated};

/// Bytes in a frame.
const FRAME_BYTES: u64 = 4096;

/// `text` as a heading.
fn bold(text: &str, style: Style) -> String {
    let bold = match style {
        Style::Plain => TextStyle::new(),
        Style::Coloured => TextStyle::new().bold(),
    };
    format!("{bold}{text}{bold:#}")
}
