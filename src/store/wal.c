/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/wal_priv.h"

/*
 * Looks for damage in a write-ahead log before SQLite reads it. SQLite takes the frames up to the
 * first bad one and forgets the rest without a word, which is right for the end that a power cut
 * tore and wrong for a bad block in the middle.
 *
 *   header, 32 bytes: magic, version, page size, checkpoint number, two salts, two checksums
 *   frame, 24 bytes and a page: page number, pages in the file after a commit or 0, the salts of
 *   the header, two checksums over header and page that continue those of the frame before
 *
 * Each commit is synced before the next one begins, so after a power cut only the frames of the
 * last one can be bad. A frame that follows a commit, with the checksum to show for it, proves that
 * the commit was synced: if there is such a frame after a bad one, the disk has lost something that
 * it had stored. What older logs and aborted commits left behind does not look like that: it has
 * other salts, or no commit that another frame continues.
 */
enum {
	MAGIC = 0x377f0682, /* the lowest bit: checksums are of big-endian words */
	VERSION = 3007000,
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t word(const struct wal_scan *s, const uint8_t *p)
{
	return s->big_endian ? be32(p) : __builtin_bswap32(be32(p));
}

static void add(const struct wal_scan *s, uint32_t sum[2], const uint8_t *p, size_t len)
{
	for (; len >= 8; p += 8, len -= 8) {
		sum[0] += word(s, p) + sum[1];
		sum[1] += word(s, p + 4) + sum[0];
	}
}

static bool all_zero(const uint8_t *p, size_t len)
{
	while (len && !p[len - 1])
		len--;
	return !len;
}

bool wal_scan_header(struct wal_scan *s, const uint8_t head[WAL_HEADER])
{
	uint32_t magic = be32(head), sum[2] = { 0 };

	*s = (struct wal_scan){ .page = be32(head + 8) };
	if (all_zero(head, WAL_HEADER))
		return false; /* never written */
	s->big_endian = magic & 1;
	add(s, sum, head, WAL_HEADER - 8);
	if ((magic & ~1u) != MAGIC || be32(head + 4) != VERSION || s->page < 512 ||
	    s->page > WAL_PAGE_MAX || (s->page & (s->page - 1)) || sum[0] != be32(head + 24) ||
	    sum[1] != be32(head + 28)) {
		s->damaged = true;
		return false;
	}
	memcpy(s->salt, head + 16, sizeof(s->salt));
	s->sum[0] = sum[0];
	s->sum[1] = sum[1];
	return true;
}

bool wal_scan_frame(struct wal_scan *s, const uint8_t *frame)
{
	uint32_t sum[2] = { s->sum[0], s->sum[1] };
	bool salted = !memcmp(frame + 8, s->salt, sizeof(s->salt));
	bool links, commit = be32(frame + 4);

	add(s, sum, frame, 8);
	add(s, sum, frame + WAL_FRAME, s->page);
	links = salted && be32(frame) && sum[0] == be32(frame + 16) && sum[1] == be32(frame + 20);
	s->n++;
	if (!links && !s->bad)
		s->bad = s->n;
	if (s->bad && links && s->after_commit)
		s->damaged = true;
	/* The bad frame itself counts as a commit if it claims to be one: what continues it tells.
	 */
	s->after_commit = s->bad && salted && commit && (links || s->bad == s->n);
	s->sum[0] = be32(frame + 16);
	s->sum[1] = be32(frame + 20);
	return !s->damaged;
}

static bool read_all(int fd, uint8_t *p, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len && (n = read(fd, p + done, len - done)) != 0) {
		if (n < 0 && errno != EINTR)
			return false;
		done += n > 0 ? (size_t)n : 0;
	}
	return done == len;
}

static struct err *damaged(const char *path, const struct wal_scan *s)
{
	return err_new(
		ERR_CORRUPT,
		"open store: the write-ahead log %s is damaged (%s %llu), and commits that were "
		"acknowledged come after the damage; keep a copy of the directory, then restore a "
		"backup, or lose these commits with --accept-damaged-log",
		path, s->bad ? "frame" : "header, frame", (unsigned long long)s->bad);
}

struct err *wal_check(const char *path)
{
	autoclose fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	autofree uint8_t *frame = NULL;
	uint8_t head[WAL_HEADER];
	struct wal_scan s;
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? NULL : err_sys(errno, "open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(errno, "look at %s", path);
	if (st.st_size <= WAL_HEADER || !read_all(fd, head, sizeof(head)))
		return NULL; /* nothing was ever committed to it; an I/O error will meet SQLite too
			      */
	if (!wal_scan_header(&s, head))
		return s.damaged ? damaged(path, &s) : NULL;
	frame = xmalloc(WAL_FRAME + s.page);
	while (read_all(fd, frame, WAL_FRAME + s.page))
		if (!wal_scan_frame(&s, frame))
			return damaged(path, &s);
	return NULL;
}
