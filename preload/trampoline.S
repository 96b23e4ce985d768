/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel calls for every handler of the program: (signal, siginfo, context). Signals are
 * deferred from the second instruction on, so that a frame is either known to the model or stands
 * at one of two addresses.
 */
	.section .text.signal_call, "ax", @progbits
	.globl	trampoline
	.hidden	trampoline
	.globl	trampoline_begun
	.hidden	trampoline_begun
	.type	trampoline, @function
	.p2align 4
trampoline:
	.cfi_startproc
	mov	signals_deferred@gottpoff(%rip), %rax
trampoline_begun:
	incl	%fs:(%rax)
	jmp	signal_delivered
	.cfi_endproc
	.size	trampoline, . - trampoline

/*
 * long signal_call(nr, a0, a1, a2, a3, struct signal_call *call): a system call that sends or takes a
 * signal. A handler that interrupts us at signal_called comes after it; its answer is in %rax then.
 */
	.globl	signal_call
	.hidden	signal_call
	.globl	signal_called
	.hidden	signal_called
	.type	signal_call, @function
	.p2align 4
signal_call:
	.cfi_startproc
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	syscall
signal_called:
	mov	%rax, (%r9)
	ret
	.cfi_endproc
	.size	signal_call, . - signal_call

	.section .note.GNU-stack, "", @progbits
