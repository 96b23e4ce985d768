/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel calls for every handler of the program: (signal, siginfo, context). Signals are
 * deferred from the second instruction on, so that a frame is either known to the model or stands
 * at one of two addresses.
 */
	.text
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
 * long send_call(nr, a0, a1, a2, a3, int *done): the system call that sends a signal. A handler that
 * interrupts us at send_called comes after it, though *done does not say so yet.
 */
	.globl	send_call
	.hidden	send_call
	.globl	send_called
	.hidden	send_called
	.type	send_call, @function
	.p2align 4
send_call:
	.cfi_startproc
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	syscall
send_called:
	movl	$1, (%r9)
	ret
	.cfi_endproc
	.size	send_call, . - send_call

	.section .note.GNU-stack, "", @progbits
