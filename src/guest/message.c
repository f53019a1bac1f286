/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "guest/guest_priv.h"

/*
 * The termination message: the end of a file that the command may write, or, if it failed and left
 * none there, the end of its output. Its bytes are passed on and never looked at. The file is the
 * sandbox's: a link, a pipe or a device in its place is no message.
 */
enum {
	TAIL_LEN = 2048,
	TAIL_LINES = 80,
};

struct message {
	const char *path;
	char *tail; /* TAIL_LEN bytes; NULL: output is no message */
	size_t tail_len;
	char *text; /* made at the end: there are thousands of us on a host */
};

struct message *message_new(const struct wire_start *start)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct message *m;
	int fd;

	if (!start->message_path)
		return NULL;
	m = xnew(struct message);
	m->path = start->message_path;
	m->tail = start->flags & WIRE_MESSAGE_LOG ? xmalloc(TAIL_LEN) : NULL;
	fd = open(m->path, flags, 0666);
	if (fd < 0)
		return m; /* as where the root is read-only: then there is none */
	(void)!fchmod(fd, 0666);
	(void)close(fd);
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
	autoclose fd = open(m->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	m->text = xmalloc(WIRE_TEXT_MAX);
	n = pread(fd, m->text, WIRE_TEXT_MAX,
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
