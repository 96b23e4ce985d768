/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Message queues: libc's rules for names, then the model's call. */
#include <fcntl.h>
#include <stdarg.h>

#include <kpemu/mqueue.h>

#include "emu/lib/uaccess.h"
#include "preload/hook.h"

/* A name that cannot be read is the kernel's to refuse; it looks without doing anything. */
static long check_name(const char *name)
{
	struct stat st;
	long ret = sys_call(__NR_newfstatat, AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW);

	return ret == -EFAULT ? ret : 0;
}

long hook_sys_mq_open(const char *name, int oflag, mode_t mode, const struct mq_attr *attr)
{
	struct refusal why = { 0 };
	struct mq_attr a;
	uint64_t mask;
	long ret;

	ret = check_name(name);
	if (!ret && attr && (oflag & O_CREAT))
		ret = copy_from_user(&a, attr, sizeof(a));
	if (ret)
		return ret;
	block_signals(&mask);
	ret = do_mq_open(current, name, oflag, mode, attr ? &a : NULL, &why);
	restore_signals(&mask);
	refusal_log(&why, "mq_open");
	return ret;
}

long hook_mq_open(const char *name, int oflag, mode_t mode, const struct mq_attr *attr)
{
	return name[0] != '/' ? -EINVAL : hook_sys_mq_open(name + 1, oflag, mode, attr);
}

EXPORT mqd_t mq_open(const char *name, int oflag, ...)
{
	const struct mq_attr *attr = NULL;
	mode_t mode = 0;
	va_list ap;

	if (oflag & O_CREAT) {
		va_start(ap, oflag);
		mode = va_arg(ap, mode_t);
		attr = va_arg(ap, struct mq_attr *);
		va_end(ap);
	}
	if (task_here())
		return errno_ret(hook_mq_open(name, oflag, mode, attr));
	if (name[0] != '/')
		return errno_ret(-EINVAL);
	return errno_ret(sys_call(__NR_mq_open, name + 1, oflag, mode, attr));
}

long hook___mq_open_2(const char *name, int oflag)
{
	return hook_mq_open(name, oflag, 0, NULL);
}

long hook_sys_mq_unlink(const char *name)
{
	uint64_t mask;
	long ret = check_name(name);

	if (ret)
		return ret;
	block_signals(&mask);
	ret = do_mq_unlink(current, name);
	restore_signals(&mask);
	return ret;
}

/* The directory's EPERM is EACCES in libc, as POSIX wants it. */
long hook_mq_unlink(const char *name)
{
	long ret = name[0] != '/' ? -EINVAL : hook_sys_mq_unlink(name + 1);

	return ret == -EPERM ? -EACCES : ret;
}

long hook_mq_close(mqd_t mqdes)
{
	long ret = sys_call(__NR_close, mqdes);
	uint64_t mask;

	if (!ret && READ_ONCE(world->mq_unlinked)) {
		block_signals(&mask);
		mqueue_reap_unlinked(current);
		restore_signals(&mask);
	}
	return ret;
}

long hook_mq_setattr(mqd_t mqdes, const struct mq_attr *new, struct mq_attr *old)
{
	return do_mq_getsetattr(mqdes, new, old);
}

long hook_mq_getattr(mqd_t mqdes, struct mq_attr *attr)
{
	return do_mq_getsetattr(mqdes, NULL, attr);
}
