/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

TEST(only_literal_addresses_are_accepted)
{
	static const char *const bad[] = {
		"",
		"localhost:80",
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:x",
		"::1:80",
		"[::1]",
		"[127.0.0.1:80",
		"127.0.0.1:-1",
		"1.2.3:80",
		"[::1%lo]:80",
		"unix:",
	};
	int fd;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		fails(net_listen(bad[i], &fd), ERR_INVALID);
		fails(net_connect(bad[i], &fd), ERR_INVALID);
	}
}

static void connects(const char *listen_addr)
{
	autoclose l = -1, c = -1, a = -1;
	char local[128], peer[128];
	struct pollfd p = { .events = POLLIN };

	works(net_listen(listen_addr, &l));
	works(net_local_addr(l, local, sizeof(local)));
	works(net_connect(local, &c));
	p.fd = l;
	eq_int(poll(&p, 1, 5000), 1);
	a = accept(l, NULL, NULL);
	is_true(a >= 0);
	works(net_peer_addr(c, peer, sizeof(peer)));
	eq_str(peer, local);
	fails(net_local_addr(l, local, 5), ERR_TOO_LARGE);
}

TEST(every_family_listens_and_connects)
{
	char dir[] = "/tmp/cay-stream-XXXXXX", path[64], addr[80];

	connects("127.0.0.1:0");
	connects("[::1]:0");

	is_true(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	(void)snprintf(addr, sizeof(addr), "unix:%s", path);
	connects(addr);
	connects(addr); /* over the file that the first one left behind */
	(void)unlink(path);
	(void)rmdir(dir);
}

TEST(a_socket_file_in_use_is_not_replaced)
{
	char dir[] = "/tmp/cay-stream-XXXXXX", path[64], addr[80];
	autoclose first = -1;
	int second;

	is_true(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/sock", dir);
	(void)snprintf(addr, sizeof(addr), "unix:%s", path);
	works(net_listen(addr, &first));
	fails(net_listen(addr, &second), ERR_SYS);
	(void)unlink(path);
	(void)rmdir(dir);
}

TEST(a_refused_unix_connection_is_unavailable)
{
	int fd;

	fails(net_connect("unix:/nonexistent/cay", &fd), ERR_UNAVAILABLE);
}

TEST(descriptors_do_not_block)
{
	autoclose fd = -1;

	works(net_listen("127.0.0.1:0", &fd));
	eq_int(accept(fd, NULL, NULL), -1);
	eq_int(errno, EAGAIN);
}
