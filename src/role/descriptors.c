/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>

#include "base/log.h"
#include "base/wall.h"
#include "role/descriptors_priv.h"

enum {
	API_CONNS_MAX = 4096,
	ROUTER_CONNS_MAX = 16384,
};

/* The soft limit is for programs that use select(); sandboxes get limits of their own. */
struct budget descriptors_budget(void)
{
	struct rlimit r;
	size_t all;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return (struct budget){ 0 };
	r.rlim_cur = r.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		(void)getrlimit(RLIMIT_NOFILE, &r);
	if (!wall_stands("connection-budget"))
		return (struct budget){ 0 };
	all = (size_t)MIN(r.rlim_cur, (rlim_t)1 << 20);
	log_debug("descriptors", KV("limit", (uint64_t)all));
	return (struct budget){
		.api = MAX(MIN(all / 4, (size_t)API_CONNS_MAX), (size_t)1),
		.router = MAX(MIN(all / 8, (size_t)ROUTER_CONNS_MAX), (size_t)1), /* two each */
	};
}
