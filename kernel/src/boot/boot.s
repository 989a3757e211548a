# All assembly of the kernel: the entries of CPUs and of interrupts, the switch of threads, and the
# functions that compiled code calls and that a C library usually provides.

# ---- constants -----------------------------------------------------------------------------------

.set CR0_PE, 1 << 0
.set CR0_MP, 1 << 1
.set CR0_ET, 1 << 4
.set CR0_NE, 1 << 5
.set CR0_WP, 1 << 16
.set CR0_PG, 1 << 31
.set CR4_PAE, 1 << 5
.set CR4_PGE, 1 << 7
.set CR4_OSFXSR, 1 << 9
.set CR4_OSXMMEXCPT, 1 << 10
.set EFER, 0xc0000080
.set EFER_LME, 1 << 8
.set EFER_NXE, 1 << 11

.set PTE_PRESENT_WRITABLE, 3
# Global, large, writable, present.
.set PTE_KERNEL_2M, 0x183

.set CODE64, 0x08
.set DATA, 0x10
.set CODE32, 0x18

# The page below 1 MiB in which the other CPUs start, in real mode.
.set TRAMPOLINE, 0x8000

# ---- the first CPU -------------------------------------------------------------------------------

# The entry for boot loaders that support PVH: 18 is XEN_ELFNOTE_PHYS32_ENTRY.
.section .note.Xen, "a", @note
    .align 4
    .long 4, 8, 18
    .asciz "Xen"
    .quad pvh_entry

# The Multiboot2 header, without requests. GRUB searches for it in the first 32 KiB of the file.
.section .boot, "ax"
    .align 8
multiboot_header:
    .long 0xe85250d6, 0, multiboot_header_end - multiboot_header
    .long -(0xe85250d6 + 0 + (multiboot_header_end - multiboot_header))
    .short 0, 0
    .long 8
multiboot_header_end:

.code32
# 32-bit protected mode, no paging. With PVH, ebx is the address of the hvm_start_info. With Multiboot2, ebx
# is the address of its information, and eax its magic word.
.globl pvh_entry
pvh_entry:
    cli
    cld
    mov $boot_stack_end, %esp
    mov %ebx, %esi
    mov %eax, %ebp

    # Identity map of the first 4 GiB, in pages of 2 MiB.
    movl $boot_pdpt + PTE_PRESENT_WRITABLE, boot_pml4
    mov $boot_pdpt, %edi
    mov $boot_pd + PTE_PRESENT_WRITABLE, %eax
    mov $4, %ecx
1:  mov %eax, (%edi)
    add $8, %edi
    add $4096, %eax
    loop 1b
    mov $boot_pd, %edi
    mov $PTE_KERNEL_2M, %eax
    mov $2048, %ecx
2:  mov %eax, (%edi)
    add $8, %edi
    add $0x200000, %eax
    loop 2b

    mov $first64, %edi
    jmp enter_long_mode

# edi: the address to jump to in 64-bit mode. esi and ebp do not change.
enter_long_mode:
    mov $(CR4_PAE | CR4_PGE | CR4_OSFXSR | CR4_OSXMMEXCPT), %eax
    mov %eax, %cr4
    mov $boot_pml4, %eax
    mov %eax, %cr3
    mov $EFER, %ecx
    rdmsr
    or $(EFER_LME | EFER_NXE), %eax
    wrmsr
    mov $(CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG), %eax
    mov %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $CODE64, $1f
.code64
1:  mov $DATA, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    xor %eax, %eax
    mov %eax, %fs
    mov %eax, %gs
    mov %edi, %edi
    jmp *%rdi

first64:
    mov $boot_stack_end, %rsp
    mov %esi, %edi
    mov %ebp, %esi
    xor %ebp, %ebp
    call first_cpu
    ud2

# ---- the other CPUs ------------------------------------------------------------------------------

.code16
# Copied to TRAMPOLINE. Real mode, cs = TRAMPOLINE / 16, ip = 0.
.globl trampoline_start, trampoline_end
trampoline_start:
    cli
    cld
    xor %ax, %ax
    mov %ax, %ds
    lgdtl TRAMPOLINE + trampoline_gdt_pointer - trampoline_start
    mov %cr0, %eax
    or $CR0_PE, %eax
    mov %eax, %cr0
    ljmpl $CODE32, $(TRAMPOLINE + trampoline32 - trampoline_start)
.code32
trampoline32:
    mov $DATA, %eax
    mov %eax, %ds
    mov %eax, %es
    mov %eax, %ss
    mov $other64, %edi
    mov $enter_long_mode, %eax
    jmp *%eax
    .align 8
trampoline_gdt_pointer:
    .word boot_gdt_end - boot_gdt - 1
    .long boot_gdt
trampoline_end:

.code64
other64:
    mov next_stack(%rip), %rsp
    mov next_cpu(%rip), %rdi
    xor %ebp, %ebp
    call other_cpu
    ud2

.section .rodata
    .align 8
boot_gdt:
    .quad 0
    .quad 0x00af9a000000ffff    # CODE64
    .quad 0x00cf92000000ffff    # DATA
    .quad 0x00cf9a000000ffff    # CODE32
boot_gdt_end:
boot_gdt_pointer:
    .word boot_gdt_end - boot_gdt - 1
    .quad boot_gdt

.section .bss
    .align 4096
.globl boot_pml4, boot_pdpt
boot_pml4: .skip 4096
boot_pdpt: .skip 4096
boot_pd: .skip 4 * 4096
    .skip 131072
boot_stack_end:

# Written by the CPU that starts another one, and read by the started CPU.
.section .data
    .align 8
.globl next_stack, next_cpu
next_stack: .quad 0
next_cpu: .quad 0

# ---- interrupts ----------------------------------------------------------------------------------

.text
# 256 entries of 16 bytes. Each leaves the stack as after an exception with an error code (the words that
# the CPU pushed, then the code), and pushes the number of the vector.
    .align 16
.globl vectors
vectors:
.set vector, 0
.rept 256
    .align 16
    .if vector == 8 || vector == 10 || vector == 11 || vector == 12 || vector == 13 || vector == 17 || vector == 21 || vector == 29 || vector == 30
    pushq $vector
    jmp interrupt_entry
    .elseif vector == 14
    jmp page_fault_entry
    .else
    pushq $0
    pushq $vector
    jmp interrupt_entry
    .endif
    .set vector, vector + 1
.endr

# A page fault switches at once to the interrupted stack, below a red zone that may be in use. From then on
# its handler may wait, enable interrupts, and fault again.
    .align 16
page_fault_entry:
    push %rax
    push %rcx
    mov 48(%rsp), %rax
    sub $192, %rax
    and $-16, %rax
    .set offset, 0
    .rept 8
    mov offset(%rsp), %rcx
    mov %rcx, offset(%rax)
    .set offset, offset + 8
    .endr
    mov %rax, %rsp
    pop %rcx
    pop %rax
    pushq $14

# The words on the stack form a `TrapFrame`.
interrupt_entry:
    push %rax
    push %rcx
    push %rdx
    push %rsi
    push %rdi
    push %r8
    push %r9
    push %r10
    push %r11
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, %rdi
    mov %rsp, %rbx
    sub $512, %rsp
    and $-16, %rsp
    fxsave64 (%rsp)
    cld
    call interrupt
    fxrstor64 (%rsp)
    mov %rbx, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    pop %r11
    pop %r10
    pop %r9
    pop %r8
    pop %rdi
    pop %rsi
    pop %rdx
    pop %rcx
    pop %rax
    add $16, %rsp
    iretq

# ---- threads -------------------------------------------------------------------------------------

# switch_stacks(save: *mut u64, load: u64): saves the callee-saved registers and the stack pointer, and
# continues the thread whose saved stack pointer is `load`.
.globl switch_stacks
switch_stacks:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret

# The entry of a new thread: r12 is its function.
.globl thread_begins
thread_begins:
    xor %ebp, %ebp
    mov %r13, %rdi
    call *%r12
    ud2

# probe_read(address: u64, found: *mut u64) -> bool: reads a word that may not be mapped.
# probe_write(address: u64, value: u64) -> bool: writes such a word.
# try_write(address: u64, value: u64) -> bool: writes a word; a page fault may map its page.
# After a fault that is not handled, the page-fault handler continues at probe_failed.
.globl probe_read, probe_write, try_write, probe_failed
probe_read:
    mov (%rdi), %rax
    mov %rax, (%rsi)
    mov $1, %eax
    ret
    .align 8
probe_write:
    mov %rsi, (%rdi)
    mov $1, %eax
    ret
    .align 8
try_write:
    mov %rsi, (%rdi)
    mov $1, %eax
    ret
probe_failed:
    xor %eax, %eax
    ret

# ---- functions that the compiler calls -----------------------------------------------------------

.globl memcpy, memmove, memset, memcmp, bcmp, strlen
memcpy:
    mov %rdi, %rax
    mov %rdx, %rcx
    shr $3, %rcx
    rep movsq
    mov %edx, %ecx
    and $7, %ecx
    rep movsb
    ret
memmove:
    mov %rdi, %rax
    sub %rsi, %rax
    cmp %rdx, %rax
    jae memcpy
    mov %rdi, %rax
    mov %rdx, %rcx
    lea -1(%rdi, %rdx), %rdi
    lea -1(%rsi, %rdx), %rsi
    std
    rep movsb
    cld
    ret
memset:
    mov %rdi, %r8
    movzbl %sil, %eax
    mov $0x0101010101010101, %rcx
    imul %rcx, %rax
    mov %rdx, %rcx
    shr $3, %rcx
    rep stosq
    mov %edx, %ecx
    and $7, %ecx
    rep stosb
    mov %r8, %rax
    ret
memcmp:
bcmp:
    xor %eax, %eax
    xor %r8d, %r8d
1:  cmp %rdx, %r8
    je 2f
    movzbl (%rdi, %r8), %eax
    movzbl (%rsi, %r8), %ecx
    inc %r8
    sub %ecx, %eax
    je 1b
2:  ret
strlen:
    xor %eax, %eax
1:  cmpb $0, (%rdi, %rax)
    je 2f
    inc %rax
    jmp 1b
2:  ret

# Referenced by unwind tables, but never called: a panic ends the machine.
.globl rust_eh_personality, _Unwind_Resume
rust_eh_personality:
_Unwind_Resume:
    ud2
