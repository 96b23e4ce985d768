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
 * signal, unless call->ret is an answer already. At signal_called the answer is in %rax alone.
 */
	.globl	signal_call
	.hidden	signal_call
	.globl	signal_called
	.hidden	signal_called
	.globl	signal_call_made
	.hidden	signal_call_made
	.type	signal_call, @function
	.p2align 4
signal_call:
	.cfi_startproc
	mov	$1, %eax
	ror	$1, %rax /* SIGNAL_CALL_OPEN */
	cmp	%rax, (%r9)
	jne	signal_call_made
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	syscall
signal_called:
	mov	%rax, (%r9)
signal_call_made:
	mov	(%r9), %rax
	ret
	.cfi_endproc
	.size	signal_call, . - signal_call

	.section .note.GNU-stack, "", @progbits
