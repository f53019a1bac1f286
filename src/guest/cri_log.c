/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "guest/cri_log_priv.h"

#define BLOCK 4096u /* holes begin and end at multiples of this */

void cri_log_init(struct cri_log *log, int fd)
{
	struct stat st;

	*log = (struct cri_log){ .fd = fd, .max = LOG_MAX, .helper = -1 };
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	log->sized = S_ISREG(st.st_mode);
	log->size = log->sized ? (uint64_t)st.st_size : 0;
}

void cri_log_done(struct cri_log *log)
{
	for (int i = 0; i < LOG_SOURCE_MAX_; i++)
		buf_done(&log->line[i]);
}

/* A kernel that makes no holes (gVisor's) has somebody outside who does. */
static bool ask_for_hole(const struct cri_log *log, uint64_t end)
{
	return log->helper >= 0 &&
	       send(log->helper, &end, sizeof(end), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(end);
}

static void bound(struct cri_log *log)
{
	uint64_t end;

	if (!log->sized || log->size - log->punched <= log->max)
		return;
	end = (log->size - log->max / 2) & ~(uint64_t)(BLOCK - 1);
	if (!fallocate(log->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)log->punched,
		       (off_t)(end - log->punched)) ||
	    ask_for_hole(log, end)) {
		log->punched = end;
		return;
	}
	/* The file system has no holes: disk space matters more than old lines. */
	if (!ftruncate(log->fd, 0))
		log->size = log->punched = 0;
	else
		log->sized = false;
}

/* A line is there as a whole or not at all. */
static bool write_whole(struct cri_log *log, const struct iovec line[4])
{
	size_t want = 0;
	ssize_t n;

	for (int i = 0; i < 4; i++)
		want += line[i].iov_len;
	do
		n = writev(log->fd, line, 4);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)want) {
		log->size += want;
		return true;
	}
	log->lost_errno = n < 0 ? errno : ENOSPC;
	if (n > 0 && (!log->sized || ftruncate(log->fd, (off_t)log->size) < 0))
		log->size += (uint64_t)n;
	return false;
}

/* Says how many lines are missing; false: it cannot. */
static bool confess(struct cri_log *log, const char *when)
{
	char text[CLOCK_TEXT_MAX + 160];
	int n = snprintf(text, sizeof(text), "%s stderr F cay: %llu lines were not logged: %s\n",
			 when, (unsigned long long)log->lost, strerror(log->lost_errno));
	const struct iovec line[4] = { { text, (size_t)n } };

	if (!write_whole(log, line))
		return false;
	log->lost = 0;
	return true;
}

static void write_line(struct cri_log *log, enum log_source source, char tag,
		       const struct iovec text[2])
{
	static const char *const names[] = {
		[LOG_SOURCE_STDOUT] = "stdout",
		[LOG_SOURCE_STDERR] = "stderr",
	};
	char when[CLOCK_TEXT_MAX], head[CLOCK_TEXT_MAX + 16];
	struct iovec line[4];
	int n;

	if (log->fd < 0)
		return;
	clock_format_nano(clock_wall(), when);
	n = snprintf(head, sizeof(head), "%s %s %c ", when, names[source], tag);
	line[0] = (struct iovec){ head, (size_t)n };
	line[1] = text[0];
	line[2] = text[1];
	line[3] = (struct iovec){ (char[]){ '\n' }, 1 };
	if ((log->lost && !confess(log, when)) || !write_whole(log, line))
		log->lost++;
	bound(log);
}

/* Writes the pending bytes and len more as one line. */
static void put(struct cri_log *log, enum log_source source, char tag, const char *data, size_t len)
{
	struct buf *b = &log->line[source];
	struct iovec text[2] = { { b->len ? buf_head(b) : NULL, b->len }, { (char *)data, len } };

	write_line(log, source, tag, text);
	buf_clear(b);
}

void cri_log_feed(struct cri_log *log, enum log_source source, const char *data, size_t len)
{
	struct buf *b = &log->line[source];

	while (len) {
		size_t space = MIN(len, LOG_LINE - b->len);
		const char *nl = memchr(data, '\n', space);
		size_t n = nl ? (size_t)(nl - data) : space;

		if (nl)
			put(log, source, 'F', data, n);
		else if (space < len || b->len + n == LOG_LINE)
			put(log, source, 'P', data, n);
		else
			buf_add(b, data, n);
		n += nl ? 1 : 0;
		data += n;
		len -= n;
	}
}

void cri_log_end(struct cri_log *log, enum log_source source)
{
	if (log->line[source].len)
		put(log, source, 'F', "", 0);
	buf_done(&log->line[source]);
}
