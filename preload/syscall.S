/* SPDX-License-Identifier: GPL-2.0-or-later */
/* syscall(3) and vfork(2): entries through which a new task may appear on the caller's own stack. */
#include <sys/syscall.h>

/*
 * The call is made here and not in C, because parent and child both return from it: the child may
 * share the stack (vfork), so no frame may be live across it, or have another one. What must
 * survive is one reference to the new task's slot; the kernel preserves %r9, which none of the
 * clone calls uses. C is called before (clone_enter) and after (clone_child, clone_parent).
 */

	.text

/* Call \fn with the stack aligned, whatever stack a child has been given. */
	.macro call_c fn
	push	%rbp
	mov	%rsp, %rbp
	and	$-16, %rsp
	call	\fn
	mov	%rbp, %rsp
	pop	%rbp
	.endm

	.globl	syscall
	.type	syscall, @function
	.p2align 4
syscall:
	cmp	$511, %rdi
	ja	1f
	lea	emulated_calls(%rip), %rax
	bt	%rdi, (%rax)
	jc	2f
1:	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	mov	%r9, %r8
	mov	8(%rsp), %r9
	syscall
	cmp	$-4095, %rax
	jae	4f
	ret
2:	cmp	$__NR_clone, %rdi
	je	3f
	cmp	$__NR_clone3, %rdi
	je	3f
	cmp	$__NR_fork, %rdi
	je	3f
	cmp	$__NR_vfork, %rdi
	je	vfork_pop
	jmp	syscall_c
4:	mov	%rax, %rdi
	jmp	syscall_error

	/* clone, clone3, fork by number: (nr, a1 .. a5) */
3:	push	%rdi
	push	%rsi
	push	%rdx
	push	%rcx
	push	%r8
	push	%r9
	lea	32(%rsp), %rdx	/* a1 on the stack, and below it a2: flags may be taken away */
	call_c	clone_enter	/* %rax: reference; 0 = not attached; < 0 = -errno */
	mov	%rax, %r11
	pop	%r8		/* a5 */
	pop	%r10		/* a4 */
	pop	%rdx		/* a3 */
	pop	%rsi		/* a2 */
	pop	%rdi		/* a1 */
	pop	%rax		/* nr */
	mov	%r11, %r9
	test	%r9, %r9
	js	5f
	syscall
	test	%rax, %rax
	jz	6f
	mov	%rax, %rsi
	mov	%r9, %rdi
	jmp	clone_parent
5:	mov	%r9, %rdi
	jmp	syscall_error
6:	mov	%r9, %rdi
	call_c	clone_child
	xor	%eax, %eax
	ret
	.size	syscall, . - syscall

	.globl	vfork
	.type	vfork, @function
	.p2align 4
vfork:
vfork_pop:
	mov	$__NR_vfork, %edi
	xor	%esi, %esi
	xor	%edx, %edx
	call_c	clone_enter
	mov	%rax, %r9
	test	%r9, %r9
	js	5b
	pop	%rdi		/* the child overwrites the caller's return address on the stack */
	mov	$__NR_vfork, %eax
	syscall
	push	%rdi
	test	%rax, %rax
	jz	6b
	mov	%rax, %rsi
	mov	%r9, %rdi
	jmp	clone_parent
	.size	vfork, . - vfork

	.section .note.GNU-stack, "", @progbits
