/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Copies to and from the program's memory, made by the kernel. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "emu/lib/rawsys.h"
#include "emu/lib/uaccess.h"

static long user_copy(long nr, void *here, const void *user, size_t n)
{
	struct iovec local = { here, n }, remote = { (void *)user, n };
	long done = sys_call(nr, sys_call(__NR_getpid), &local, 1, &remote, 1, 0);

	if (!SYS_ERR(done))
		return (size_t)done == n ? 0 : -EFAULT;
	if (done == -EFAULT || !user)
		return -EFAULT;
	return done;
}

long copy_from_user(void *to, const void *from, size_t n)
{
	long ret = user_copy(__NR_process_vm_readv, to, from, n);

	if (ret && ret != -EFAULT)
		memcpy(to, from, n);
	return ret == -EFAULT ? ret : 0;
}

long copy_to_user(void *to, const void *from, size_t n)
{
	long ret = user_copy(__NR_process_vm_writev, (void *)from, to, n);

	if (ret && ret != -EFAULT)
		memcpy(to, from, n);
	return ret == -EFAULT ? ret : 0;
}
