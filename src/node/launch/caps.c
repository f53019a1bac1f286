/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "node/launch/launch_priv.h"

/* Capabilities of this process, as sets of bits. */
enum {
	CAPS = 64,
	HALF = 32,
};

struct sets {
	struct __user_cap_data_struct half[_LINUX_CAPABILITY_U32S_3];
};

static int get(struct sets *ret)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return (int)syscall(SYS_capget, &h, ret->half);
}

static int set(const struct sets *to)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return (int)syscall(SYS_capset, &h, to->half);
}

bool capabilities_have(int cap)
{
	struct sets s;

	return !get(&s) && s.half[cap / HALF].effective >> cap % HALF & 1;
}

struct err *capabilities_raise(void)
{
	struct sets s;
	int r = get(&s);

	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3 && !r; i++)
		s.half[i].effective = s.half[i].permitted;
	if (!r)
		r = set(&s);
	return r < 0 ? err_sys(errno, "keep capabilities") : NULL;
}

struct err *capabilities_keep(uint64_t keep)
{
	struct sets s = { 0 };

	for (int cap = 0; cap < CAPS; cap++) {
		if (keep >> cap & 1) {
			s.half[cap / HALF].permitted |= 1u << cap % HALF;
			s.half[cap / HALF].effective |= 1u << cap % HALF;
		} else if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* the kernel knows no more */
			return err_sys(errno, "drop capability %d", cap);
		}
	}
	return set(&s) < 0 ? err_sys(errno, "drop capabilities") : NULL;
}
