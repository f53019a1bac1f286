/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/host/cgroup.h"
#include "node/host/load.h"
#include "node/runtime/native_priv.h"

/*
 * Pushes the memory of a frozen task to swap space, process by process, in pieces between which
 * somebody may want it to stop. Only what the kernel would have to write there is pushed: what
 * processes have for themselves and can write to.
 */
enum {
	PIECES = 64,
	PIECE_MAX = 32 << 20, /* bytes of one call: about 50 ms into compressed memory */
	MAPS_MAX = 8 << 20,
	PIDS_MAX = 4096,
};
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

struct pids {
	pid_t list[PIDS_MAX];
	size_t n;
};

static void note_pid(void *arg, pid_t pid)
{
	struct pids *p = arg;

	if (p->n < PIDS_MAX)
		p->list[p->n++] = pid;
}

/* A line of /proc/PID/maps: "7f00-7f10 rw-p …". False: not what we push out. */
static bool read_line(const char *line, uintptr_t *ret_from, uintptr_t *ret_to)
{
	unsigned long from, to;
	char rights[5] = "";

	if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || !str_eq(rights, "rw-p"))
		return false;
	*ret_from = from;
	*ret_to = to;
	return true;
}

static void push(int pidfd, struct iovec *list, size_t *n, size_t *bytes)
{
	if (*n)
		(void)syscall(SYS_process_madvise, pidfd, list, *n, MADV_PAGEOUT, 0);
	*n = *bytes = 0;
}

static void push_process(pid_t pid, const bool *stop)
{
	autofree char *path = xasprintf("/proc/%d/maps", (int)pid), *text = NULL;
	autoclose pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct iovec list[PIECES];
	size_t n = 0, bytes = 0;
	char *save = NULL;

	err_free(pidfd < 0 ? NULL : file_read(AT_FDCWD, path, MAPS_MAX, &text, NULL));
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		uintptr_t at, to;

		if (!read_line(line, &at, &to))
			continue;
		for (; at < to && !__atomic_load_n(stop, __ATOMIC_RELAXED);) {
			size_t len = MIN((size_t)(to - at), (size_t)PIECE_MAX - bytes);

			list[n++] = (struct iovec){ (void *)at, len };
			bytes += len;
			at += len;
			if (n == PIECES || bytes == PIECE_MAX)
				push(pidfd, list, &n, &bytes);
		}
	}
	if (!__atomic_load_n(stop, __ATOMIC_RELAXED))
		push(pidfd, list, &n, &bytes);
}

bool native_page_out(void *ctx, const char *id, const bool *stop)
{
	const struct native *n = ctx;
	autofree struct pids *pids = xnew(struct pids);

	if (!host_has_swap())
		return false;
	cgroup_let_swap(n->spec.cgroups, id, true);
	cgroup_each_process(n->spec.cgroups, id, note_pid, pids);
	for (size_t i = 0; i < pids->n && !__atomic_load_n(stop, __ATOMIC_RELAXED); i++)
		push_process(pids->list[i], stop);
	/* A thaw says stop before it takes the swap space back: one of us two is the last. */
	if (__atomic_load_n(stop, __ATOMIC_SEQ_CST))
		cgroup_let_swap(n->spec.cgroups, id, false);
	return true;
}
