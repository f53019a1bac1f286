/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/resolv_conf.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum {
	PORT = 53,
};

static void add_server(struct resolv_conf *r, const char *text)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };

	if (r->n_servers == RESOLV_SERVERS_MAX)
		return;
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		memcpy(&r->servers[r->n_servers++], &v4, sizeof(v4));
	else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
		memcpy(&r->servers[r->n_servers++], &v6, sizeof(v6));
}

/* It becomes a word of the files of sandboxes. */
static void add_search(struct resolv_conf *r, const char *name)
{
	if (r->n_searches < RESOLV_SEARCHES_MAX && strlen(name) < RESOLV_NAME_MAX)
		(void)snprintf(r->searches[r->n_searches++], RESOLV_NAME_MAX, "%s", name);
}

static void read_line(struct resolv_conf *r, char *line)
{
	char *save = NULL;
	const char *word = strtok_r(line, " \t\r", &save), *value;

	if (str_eq(word, "search") || str_eq(word, "domain"))
		r->n_searches = 0; /* the last of these lines counts */
	else if (!str_eq(word, "nameserver"))
		return;
	while ((value = strtok_r(NULL, " \t\r", &save))) {
		if (str_eq(word, "nameserver"))
			add_server(r, value);
		else
			add_search(r, value);
	}
}

void resolv_conf_read(const char *text, struct resolv_conf *ret)
{
	autofree char *copy = xstrdup(text);
	char *save = NULL;

	*ret = (struct resolv_conf){ 0 };
	for (char *l = strtok_r(copy, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		read_line(ret, l);
}
