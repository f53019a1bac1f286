/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/socket.h>

/* What the host's resolv.conf says. Lines that are not understood are skipped, as libc does. */
enum {
	RESOLV_SERVERS_MAX = 3,
	RESOLV_SEARCHES_MAX = 16,
	RESOLV_NAME_MAX = 256,
};
struct resolv_conf {
	struct sockaddr_storage servers[RESOLV_SERVERS_MAX]; /* of IPv4 or IPv6, port 53 */
	size_t n_servers;
	char searches[RESOLV_SEARCHES_MAX][RESOLV_NAME_MAX];
	size_t n_searches;
};
void resolv_conf_read(const char *text, struct resolv_conf *ret);
