/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/execute/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void spool_init(struct spool *s)
{
	*s = (struct spool){ .fd = -1 };
}

void spool_done(struct spool *s)
{
	buf_done(&s->memory);
	if (s->fd >= 0)
		(void)close(s->fd);
	spool_init(s);
}

/* Nobody can give the file a name: it is gone with us, however we end. */
static int open_in(const char *dir)
{
	return open(dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
}

static void open_file(struct spool *s, const struct spool_place *place)
{
	s->max = place->max;
	s->fd = open_in(place->dir);
	if (s->fd < 0)
		s->fd = open_in("/tmp");
	if (s->fd >= 0)
		return;
	s->max = MIN(place->max, (uint64_t)SPOOL_SHARED_MAX);
	s->fd = memfd_create("output", MFD_CLOEXEC);
}

/* How much could be written. */
static size_t write_at(int fd, uint64_t at, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, data + done, len - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* True if there is a file, and in it what was in memory. */
static bool move_to_file(struct spool *s, const struct spool_place *place)
{
	if (s->max)
		return s->fd >= 0;
	open_file(s, place);
	if (s->fd < 0)
		return false;
	if (s->memory.len &&
	    write_at(s->fd, 0, buf_head(&s->memory), s->memory.len) < s->memory.len) {
		(void)close(take_fd(s->fd)); /* no space: memory has to do */
		return false;
	}
	buf_done(&s->memory);
	return true;
}

/* How much of it is kept. */
static size_t keep(struct spool *s, const struct spool_place *place, const char *data, size_t len)
{
	uint64_t all = s->kept + len, left;

	if (s->fd < 0 && all <= MIN((uint64_t)SPOOL_MEMORY, place->max)) {
		buf_add(&s->memory, data, len);
		return len;
	}
	if (!move_to_file(s, place))
		return 0;
	left = s->max > s->kept ? s->max - s->kept : 0;
	len = (size_t)MIN((uint64_t)len, left);
	return write_at(s->fd, s->kept, data, len);
}

void spool_add(struct spool *s, const struct spool_place *place, const char *data, size_t len)
{
	size_t n = s->full ? 0 : keep(s, place, data, len);

	s->total += len;
	s->kept += n;
	s->full = n < len;
	if (n)
		s->last = data[n - 1];
}

ssize_t spool_read(const struct spool *s, uint64_t at, char *to, size_t len)
{
	uint64_t left = at < s->kept ? s->kept - at : 0;
	ssize_t n;

	len = (size_t)MIN((uint64_t)len, left);
	if (!len)
		return 0;
	if (s->fd < 0) {
		memcpy(to, buf_head(&s->memory) + at, len);
		return (ssize_t)len;
	}
	do
		n = pread(s->fd, to, len, (off_t)at);
	while (n < 0 && errno == EINTR);
	return n > 0 ? n : -1;
}
