/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Other names of wrappers. A jump serves any prototype, variadic ones and vfork's return too. */

#define SYS(name, type, proto, args)
#define FUN(name, type, proto, args)
#define HAND(name)
#define CALL(number, call)
#define LEFT(name, reason)
#define ALIAS(name, target)                                                                        \
	__asm__(".globl " #name "\n.type " #name ", @function\n" #name ": jmp " #target "\n");
#include "preload/names.def"
