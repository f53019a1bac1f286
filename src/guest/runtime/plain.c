/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

/* One name; "." is the directory itself. */
static int open_name(int dir, struct span name, int flags, mode_t mode)
{
	char one[NAME_MAX + 1];

	if (name.len > NAME_MAX || span_eq(name, "..")) {
		errno = name.len > NAME_MAX ? ENAMETOOLONG : EXDEV;
		return -1;
	}
	memcpy(one, name.p, name.len);
	one[name.len] = '\0';
	return openat(dir, name.len ? one : ".", flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

int plain_open(int dir, const char *path, int flags, mode_t mode)
{
	autoclose at = openat(dir, *path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct span left, name = span_cut(SPAN(path), '/', &left);

	for (; left.p && at >= 0; name = span_cut(left, '/', &left)) {
		int next = open_name(at, name, O_PATH | O_DIRECTORY, 0);

		(void)close(at);
		at = next;
	}
	return at < 0 ? -1 : open_name(at, name, flags, mode);
}
