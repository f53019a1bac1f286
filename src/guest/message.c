/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/guest_priv.h"
#include "guest/runtime/plain.h"

/*
 * The termination message: the end of a file that the command may write, or, if it failed and left
 * none there, the end of its output. Its bytes are passed on and never looked at.
 *
 * The command may run as another user than we do, and own a directory on the way to the file. So no
 * link is followed anywhere on that way, only a regular file without a second name counts, and the
 * one that was there at the start is the one that is read at the end.
 */
enum {
	TAIL_LEN = 2048,
	TAIL_LINES = 80,
};

struct message {
	int fd;     /* -1: there is no such file */
	char *tail; /* TAIL_LEN bytes; NULL: output is no message */
	size_t tail_len;
	char *text; /* made at the end: there are thousands of us on a host */
};

/* -1: there is none, and none can be made, as where the root is read-only. */
static int open_file(const char *path)
{
	struct open_how how = { .flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
				.mode = 0666,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	autoclose fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	struct stat st;

	if (fd < 0 && errno == ENOSYS)
		fd = plain_open(AT_FDCWD, path, (int)how.flags, (mode_t)how.mode);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1 ||
	    ftruncate(fd, 0) < 0)
		return -1;
	(void)!fchmod(fd, 0666);
	return take_fd(fd);
}

struct message *message_new(const struct wire_start *start)
{
	struct message *m;

	if (!start->message_path)
		return NULL;
	m = xnew(struct message);
	m->tail = start->flags & WIRE_MESSAGE_LOG ? xmalloc(TAIL_LEN) : NULL;
	m->fd = open_file(start->message_path);
	return m;
}

void message_feed(struct message *m, const char *data, size_t len)
{
	size_t keep;

	if (!m->tail)
		return;
	if (len > TAIL_LEN) {
		data += len - TAIL_LEN;
		len = TAIL_LEN;
	}
	keep = MIN(m->tail_len, TAIL_LEN - len);
	memmove(m->tail, m->tail + m->tail_len - keep, keep);
	memcpy(m->tail + keep, data, len);
	m->tail_len = keep + len;
}

static struct span last_lines(const struct message *m)
{
	size_t at = m->tail_len;
	unsigned lines = 0;

	while (at > 0 && (m->tail[at - 1] != '\n' || at == m->tail_len || ++lines < TAIL_LINES))
		at--;
	return (struct span){ m->tail + at, m->tail_len - at };
}

static size_t read_file(struct message *m)
{
	struct stat st;
	ssize_t n;

	if (m->fd < 0 || fstat(m->fd, &st) < 0)
		return 0;
	m->text = xmalloc(WIRE_TEXT_MAX);
	n = pread(m->fd, m->text, WIRE_TEXT_MAX,
		  st.st_size > WIRE_TEXT_MAX ? st.st_size - WIRE_TEXT_MAX : 0);
	return n > 0 ? (size_t)n : 0;
}

struct span message_end(struct message *m, bool failed)
{
	size_t len = read_file(m);

	if (!len && failed && m->tail)
		return last_lines(m);
	return (struct span){ m->text, len };
}
