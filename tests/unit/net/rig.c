/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/stream.h"
#include "test.h"

struct loop *rig_loop(void)
{
	struct loop *l;

	works(loop_new(&l));
	return l;
}

void rig_settle(struct loop *l)
{
	for (int i = 0; i < 20; i++)
		loop_turn(l, 0);
}

void rig_pair(int ret[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) < 0)
		fail_msg("no socket pair");
}

int rig_connect(const char *addr)
{
	int fd;

	works(net_connect(addr, &fd));
	return fd;
}

void rig_send(struct loop *l, int fd, const void *p, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = send(fd, (const char *)p + done, len - done, MSG_NOSIGNAL);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EAGAIN)
			return; /* the other side cut us: what it said tells more */
		loop_turn(l, n > 0 ? 0 : 10);
	}
}

void rig_send_str(struct loop *l, int fd, const char *text)
{
	rig_send(l, fd, text, strlen(text));
}

/* One try: count, 0 at the end, -1 nothing yet. */
static ssize_t read_some(struct loop *l, int fd, char *to, size_t len)
{
	ssize_t n = read(fd, to, len);

	if (n < 0 && errno != EAGAIN)
		return 0;
	if (n < 0)
		loop_turn(l, 10);
	return n;
}

char *rig_read(struct loop *l, int fd, const char *needle)
{
	usec end = clock_mono() + 10 * 1000000;
	struct buf b = { 0 };
	ssize_t n;

	while (!needle || !strstr(buf_str(&b), needle)) {
		n = read_some(l, fd, buf_reserve(&b, 4096), 4096);
		if (n == 0)
			break;
		if (n > 0)
			buf_wrote(&b, (size_t)n);
		if (clock_mono() > end)
			fail_msg("no \"%s\" in \"%s\"", needle ? needle : "end", buf_str(&b));
	}
	return buf_steal(&b, NULL);
}

size_t rig_read_n(struct loop *l, int fd, char *ret, size_t len)
{
	usec end = clock_mono() + 10 * 1000000;
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = read_some(l, fd, ret + done, len - done);
		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		if (clock_mono() > end)
			fail_msg("got %zu of %zu bytes", done, len);
	}
	return done;
}

bool rig_at_end(struct loop *l, int fd)
{
	char c;

	return rig_read_n(l, fd, &c, 1) == 0;
}
