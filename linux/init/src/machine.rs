//! Mounts, loading of modules, kernel counters, marks for `linux/counter`, and the exit of the
//! virtual machine.

use std::{
    arch::{asm, x86_64::_rdtsc},
    ffi::CString,
    fs::{self, File},
    io::{self, Write, stdout},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    ptr,
};

use crate::Failure;

/// QEMU's `isa-debug-exit`, and the values to write there: success, and any failure.
const EXIT_PORT: u16 = 0xf4;
const PASSED: u32 = 0x10;
const FAILED: u32 = 0x12;
/// QEMU's `isa-debugcon`: its bytes go to a file of the host.
const BYTE_PORT: u16 = 0xe9;

/// Mounts the usual file systems.
pub(crate) fn set_up() -> Result<(), Failure> {
    for (kind, at) in [("proc", "/proc"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(at)?;
        mount(kind, Path::new(at), kind)?;
    }
    Ok(())
}

fn mount(what: &str, at: &Path, kind: &str) -> Result<(), Failure> {
    let failed = |error| format!("cannot mount {what} at {}: {error}", at.display());
    let [from, to, kind] = [what, at.to_str().unwrap_or_default(), kind].map(CString::new);
    let (from, to, kind) = (from?, to?, kind?);
    // SAFETY: all three are strings that end with a 0.
    let done = unsafe { libc::mount(from.as_ptr(), to.as_ptr(), kind.as_ptr(), 0, ptr::null()) };
    // An already mounted file system is not an error.
    let error = io::Error::last_os_error();
    if done == 0 || error.raw_os_error() == Some(libc::EBUSY) {
        return Ok(());
    }
    Err(failed(error).into())
}

/// Creates a RAM disk from the image in the initramfs, and mounts it. Returns the mount point.
pub(crate) fn mount_disk() -> Result<PathBuf, Failure> {
    let image = fs::read("/disk.img")?;
    let module = File::open("/brd.ko")?;
    let options = CString::new(format!("rd_nr=1 rd_size={}", image.len() >> 10))?;
    // SAFETY: a file, and a string that ends with a 0.
    let loaded =
        unsafe { libc::syscall(libc::SYS_finit_module, module.as_raw_fd(), options.as_ptr(), 0) };
    if loaded != 0 {
        return Err(format!("cannot load brd.ko: {}", io::Error::last_os_error()).into());
    }
    let disk = Path::new("/dev/ram0");
    File::options().write(true).open(disk)?.write_all(&image)?;
    let at = PathBuf::from("/disk");
    fs::create_dir_all(&at)?;
    mount("/dev/ram0", &at, "ext4")?;
    Ok(at)
}

/// Counters of the kernel.
pub(crate) struct Counters {
    /// TLB shootdown interrupts.
    pub(crate) interrupts: u64,
    /// Pages that were reclaimed.
    pub(crate) reclaimed: u64,
}

impl Counters {
    /// The current counters.
    pub(crate) fn now() -> Result<Self, Failure> {
        Self::of(&fs::read_to_string("/proc/interrupts")?, &fs::read_to_string("/proc/vmstat")?)
    }

    /// The counters in the text of these two files.
    fn of(interrupts: &str, stats: &str) -> Result<Self, Failure> {
        let row = interrupts.lines().find_map(|line| line.trim_start().strip_prefix("TLB:"));
        let row = row.ok_or("/proc/interrupts has no row TLB")?;
        let reclaimed = ["pgsteal_kswapd ", "pgsteal_direct "].into_iter().map(|name| {
            stats.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()).unwrap_or(0)
        });
        Ok(Self {
            interrupts: row.split_whitespace().map_while(|word| word.parse::<u64>().ok()).sum(),
            reclaimed: reclaimed.sum(),
        })
    }
}

/// The cycle counter; under `-icount`, it counts instructions of the whole machine.
pub(crate) fn timestamp() -> u64 {
    // SAFETY: every x86-64 CPU has this counter.
    unsafe { _rdtsc() }
}

/// Begins the code that `linux/counter` counts. It has no effect otherwise.
#[inline(always)]
pub(crate) fn mark_begin() {
    // SAFETY: an instruction without effect.
    unsafe { asm!("nop dword ptr [rax + 0x46574b31]", options(nostack, preserves_flags)) };
}

/// Ends the counted code.
#[inline(always)]
pub(crate) fn mark_end() {
    // SAFETY: an instruction without effect.
    unsafe { asm!("nop dword ptr [rax + 0x46574b32]", options(nostack, preserves_flags)) };
}

/// Writes the addresses of the kernel's functions to the host: lines `ADDRESS NAME`.
pub(crate) fn write_symbols() -> Result<(), Failure> {
    let all = fs::read_to_string("/proc/kallsyms")?;
    let mut text = String::new();
    for line in all.lines() {
        let mut parts = line.split_whitespace();
        if let (Some(at), Some("t" | "T" | "w" | "W"), Some(name)) =
            (parts.next(), parts.next(), parts.next())
        {
            text.extend([at, " ", name, "\n"]);
        }
    }
    // SAFETY: requests access to a port that only writes to the host's file, and writes the bytes
    // of a string there.
    unsafe {
        if libc::ioperm(BYTE_PORT.into(), 1, 1) != 0 {
            return Err(io::Error::last_os_error().into());
        }
        asm!("rep outsb", in("dx") BYTE_PORT, inout("rsi") text.as_ptr() => _,
             inout("rcx") text.len() => _, options(nostack, preserves_flags, readonly));
    }
    Ok(())
}

/// Stops the virtual machine.
pub(crate) fn end(passed: bool) -> ! {
    // The output must be sent before the machine stops.
    let _ = stdout().flush();
    // SAFETY: sends the rest of the console's buffer. Then the write to the port ends QEMU; without
    // the port, the machine is powered off.
    unsafe {
        libc::tcdrain(1);
        if libc::ioperm(EXIT_PORT.into(), 4, 1) == 0 {
            let outcome = if passed { PASSED } else { FAILED };
            asm!("out dx, eax", in("dx") EXIT_PORT, in("eax") outcome, options(nostack));
        }
        libc::reboot(libc::RB_POWER_OFF);
    }
    std::process::exit(i32::from(!passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERRUPTS: &str = "\
           CPU0       CPU1
  0:         40          0   IO-APIC   2-edge      timer
LOC:       1000       2000   Local timer interrupts
TLB:         17         25   TLB shootdowns of 2 CPUs
ERR:          3
";

    #[test]
    fn counters_are_summed_over_cpus_and_over_kinds_of_reclaim() {
        let stats =
            "pgsteal_kswapd 100\npgsteal_direct 20\npgsteal_khugepaged 5\npgsteal_file 125\n";
        let counters = Counters::of(INTERRUPTS, stats).unwrap();
        assert_eq!((counters.interrupts, counters.reclaimed), (42, 120));
        assert_eq!(Counters::of(INTERRUPTS, "pgfault 3\n").unwrap().reclaimed, 0);
    }

    #[test]
    fn a_missing_row_of_interrupts_is_named() {
        let error = Counters::of("LOC: 1 2\n", "").err().unwrap().to_string();
        assert!(error.contains("no row TLB"), "{error}");
    }
}
