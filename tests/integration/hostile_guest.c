/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * A guest that was taken over: it stands in for cay-init, starts nothing, and breaks the protocol
 * of src/wire/wire.h in the way that an argument of the container's command names ("hostile-...").
 * One process per connection. test_hostile_guest.py compiles it.
 */
enum {
	LISTENING = 3,
	HELLO = 0,
	START = 1,
	EXEC = 2,
	CREDIT = 6,
	READY = 9,
	STARTED_OK = 10,
	STDOUT = 12,
	EXITED = 14,
	STATE = 15,
	FRAME_MAX = 256 * 1024,
};

static char *mode; /* shared by all processes */

static void put(int fd, uint8_t type, uint32_t stream, const void *payload, uint32_t len)
{
	static char frame[9 + FRAME_MAX];
	uint32_t size = len + 5;

	memcpy(frame, &size, 4);
	frame[4] = (char)type;
	memcpy(frame + 5, &stream, 4);
	memcpy(frame + 9, payload, len);
	if (send(fd, frame, 9 + len, MSG_NOSIGNAL) < 0)
		_exit(0);
}

static void put_u32(int fd, uint8_t type, uint32_t stream, uint32_t v)
{
	put(fd, type, stream, &v, 4);
}

static int is(const char *name)
{
	return !strcmp(mode, name);
}

static void hang(void)
{
	for (;;)
		pause();
}

/* The command was "started". */
static void misbehave_on_task(int fd)
{
	if (is("hostile-task-output"))
		put(fd, STDOUT, 0, "x", 1);
	else if (is("hostile-task-state"))
		put(fd, STATE, 0, "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 23);
}

/* An exec was "started". */
static void misbehave_on_exec(int fd)
{
	static const char huge[4] = { -1, -1, -1, 127 };
	static const char block[64 * 1024];
	uint32_t end[3] = { 70000, 0, 0 };

	if (is("hostile-credit")) {
		put_u32(fd, CREDIT, 1, UINT32_MAX);
	} else if (is("hostile-stream")) {
		put(fd, STDOUT, 77, "x", 1);
	} else if (is("hostile-size")) {
		(void)send(fd, huge, sizeof(huge), MSG_NOSIGNAL);
	} else if (is("hostile-code")) {
		put(fd, EXITED, 1, end, 9);
	} else if (is("hostile-deaf")) {
		hang();
	} else if (is("hostile-generous")) { /* believes that it may, and reads nothing */
		put_u32(fd, CREDIT, 1, UINT32_MAX);
		hang();
	} else if (is("hostile-talker")) { /* heeds no credit; the node stops reading */
		for (;;)
			put(fd, STDOUT, 1, block, sizeof(block));
	}
}

static void on_frame(int fd, const char *f, size_t len)
{
	static const uint32_t ready[2] = { 1, 0 };
	const char *found;

	switch (f[0]) {
	case HELLO:
		put(fd, READY, 0, ready, sizeof(ready));
		break;
	case START:
		found = memmem(f, len, "hostile-", 8);
		if (found) /* a string has its length before it */
			memcpy(mode, found, (unsigned char)found[-4]);
		put_u32(fd, STARTED_OK, 0, 2);
		misbehave_on_task(fd);
		break;
	case EXEC:
		put_u32(fd, STARTED_OK, 1, 3);
		misbehave_on_exec(fd);
		break;
	default:
		break;
	}
}

static void serve(int fd)
{
	static char in[4 + FRAME_MAX];
	size_t have = 0;
	uint32_t size;

	for (;;) {
		ssize_t n = recv(fd, in + have, sizeof(in) - have, 0);

		if (n <= 0)
			_exit(0);
		have += (size_t)n;
		while (have >= 4) {
			memcpy(&size, in, 4);
			if (have < 4 + size)
				break;
			on_frame(fd, in + 4, size);
			have -= 4 + size;
			memmove(in, in + 4 + size, have);
		}
	}
}

int main(void)
{
	mode = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (mode == MAP_FAILED)
		return 1;
	(void)signal(SIGCHLD, SIG_IGN);
	(void)fcntl(LISTENING, F_SETFL, 0);
	for (;;) {
		int fd = accept(LISTENING, NULL, NULL);

		if (fd >= 0 && !fork())
			serve(fd);
		if (fd >= 0)
			(void)close(fd);
	}
}
