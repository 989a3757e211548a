//! CPUs and their lists.

use framewright::CpuId;

use crate::{error::FwError, memory::FwMemory};

/// Frees the blocks on the lists of all CPUs to the zones, so that larger blocks form and counts are exact. May be
/// called while other CPUs allocate and free, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_drain(memory: *mut FwMemory) -> FwError {
    // SAFETY: the contract is that of this function.
    unsafe { FwMemory::of(memory) }.map(|memory| memory.memory().drain_all()).into()
}

/// As `fw_drain`, for one CPU.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_drain_cpu(memory: *mut FwMemory, cpu: u32) -> FwError {
    // SAFETY: the contract is that of this function.
    let memory = unsafe { FwMemory::of(memory) };
    memory.and_then(|memory| Ok(memory.memory().drain_cpu(cpu_of(cpu)?)?)).into()
}

/// Returns half of the frames to the zones that the lists of the CPUs have not needed since the last call. To be called
/// about once a second, so that frames of past bursts can become part of larger blocks. May be called while other CPUs
/// allocate and free, but not by interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_trim(memory: *mut FwMemory) -> FwError {
    // SAFETY: the contract is that of this function.
    unsafe { FwMemory::of(memory) }.map(|memory| memory.memory().trim_all()).into()
}

/// Frees the blocks on the lists of the calling CPU, and gives up its ownership of them, so that
/// `fw_cpu_offline` can take it offline. The next allocation or free on the CPU takes ownership again. Not for
/// interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`. The caller is not an interrupt handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_cpu_release(memory: *mut FwMemory) -> FwError {
    // SAFETY: the contract is that of this function.
    let memory = unsafe { FwMemory::of(memory) };
    // SAFETY: the caller is not an interrupt handler.
    memory.and_then(|memory| Ok(unsafe { memory.cpus.release_cpu() }?)).into()
}

/// Takes offline a CPU that has called `fw_cpu_release`. Its lists stay empty, and those of other CPUs may grow longer.
/// Not for interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_cpu_offline(memory: *mut FwMemory, cpu: u32) -> FwError {
    // SAFETY: the contract is that of this function.
    let memory = unsafe { FwMemory::of(memory) };
    memory.and_then(|memory| Ok(memory.memory().cpu_offline(cpu_of(cpu)?)?)).into()
}

/// Brings a CPU online. Not for interrupt handlers.
///
/// # Safety
///
/// `memory` is NULL, or from `fw_memory_init` and not destroyed by `fw_memory_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_cpu_online(memory: *mut FwMemory, cpu: u32) -> FwError {
    // SAFETY: the contract is that of this function.
    let memory = unsafe { FwMemory::of(memory) };
    memory.and_then(|memory| Ok(memory.memory().cpu_online(cpu_of(cpu)?)?)).into()
}

fn cpu_of(cpu: u32) -> Result<CpuId, FwError> {
    u16::try_from(cpu).map(CpuId::new).map_err(|_| FwError::NoSuchCpu)
}
