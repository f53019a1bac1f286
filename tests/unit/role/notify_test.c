/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "role/notify_priv.h"
#include "test.h"

/* A socket as a service manager has it, named as in $NOTIFY_SOCKET. */
static int listen_at(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(at.sun_path, name, len);
	if (*name == '@')
		at.sun_path[0] = '\0';
	is_true(fd >= 0);
	is_true(!bind(fd, (const struct sockaddr *)&at,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*name == '/'))));
	return fd;
}

static void hears(int fd, const char *text)
{
	char got[256] = "";

	is_true(recv(fd, got, sizeof(got) - 1, 0) == (ssize_t)strlen(text));
	eq_str(got, text);
}

static struct notify init_with(const char *value)
{
	struct notify n;

	is_true(!(value ? setenv("NOTIFY_SOCKET", value, 1) : unsetenv("NOTIFY_SOCKET")));
	notify_init(&n);
	is_true(!getenv("NOTIFY_SOCKET")); /* no child will speak for us */
	return n;
}

TEST(a_manager_is_told_at_a_path_and_at_an_abstract_name)
{
	char dir[] = "/tmp/cay-notify-XXXXXX";
	autofree char *abstract = xasprintf("@cay-notify-%d", (int)getpid());
	autofree char *path = NULL;

	is_true(mkdtemp(dir));
	path = xasprintf("%s/socket", dir);
	for (int i = 0; i < 2; i++) {
		const char *name = i ? abstract : path;
		autoclose fd = listen_at(name);
		struct notify n = init_with(name);

		notify_send(&n, "READY=1\nSTATUS=serving");
		notify_send(&n, "STOPPING=1");
		hears(fd, "READY=1\nSTATUS=serving");
		hears(fd, "STOPPING=1");
	}
	(void)unlink(path);
	(void)rmdir(dir);
}

TEST(without_a_manager_nothing_is_said)
{
	static const char *const rows[] = { NULL, "", "/", "@", "relative", "vsock:2:1234" };
	autofree char *at = xasprintf("@cay-notify-%d", (int)getpid());
	autofree char *too_long = xasprintf("/%0200d", 0);
	struct notify n;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		n = init_with(rows[i]);
		eq_int(n.len, 0);
		notify_send(&n, "READY=1");
	}
	n = init_with(too_long);
	eq_int(n.len, 0);
	n = init_with(at);
	is_true(n.len > 0);
}

TEST(a_manager_that_does_not_listen_is_survived)
{
	autofree char *name = xasprintf("@cay-notify-%d", (int)getpid());
	struct notify n = init_with("/nonexistent/cay/notify");
	autoclose fd = -1;

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	notify_send(&n, "READY=1");
	n = init_with("/tmp"); /* is no socket */
	notify_send(&n, "READY=1");

	fd = listen_at(name);
	n = init_with(name);
	for (int i = 0; i < 64; i++) { /* more than the queue of a socket that nobody reads */
		struct sockaddr_un to = n.at;
		autoclose from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (sendto(from, "x", 1, 0, (const struct sockaddr *)&to, n.len) < 0)
			break;
	}
	notify_send(&n, "READY=1");
	hears(fd, "x");
}
