/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"
#include "base/mem.h"
#include "net/http_proxy.h"
#include "page/page_priv.h"

/*
 * Wrong codes, counted by the address that they come from. Nobody guesses one; this is so that
 * trying fills no log. A right code is never refused: many people may share an address, and one of
 * them could lock out the others. When too many addresses have tried to be counted, no other has a
 * try within the minute.
 */
#define MINUTE ((usec)60 * 1000000)

void attempts_init(struct attempts *a)
{
	a->hosts = map_new(NULL);
	a->since = 0;
}

void attempts_done(struct attempts *a)
{
	map_free(take(a->hosts));
}

static void turn(struct attempts *a, usec now)
{
	if (now - a->since < MINUTE)
		return;
	map_free(a->hosts);
	a->hosts = map_new(NULL);
	a->since = now;
}

bool attempts_failed(struct attempts *a, const char *peer, usec now, int *ret_after)
{
	char host[PEER_IP_MAX];
	uintptr_t n;

	turn(a, now);
	http_peer_ip(peer, host);
	n = (uintptr_t)map_get(a->hosts, host);
	if (n >= FAILURES_MAX || (!n && map_len(a->hosts) >= HOSTS_MAX)) {
		*ret_after = 1 + (int)((MINUTE - (now - a->since)) / 1000000);
		return false;
	}
	map_put(a->hosts, host, (void *)(n + 1)); /* NOLINT(performance-no-int-to-ptr) */
	return true;
}
