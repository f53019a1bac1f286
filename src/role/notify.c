/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "base/err.h"
#include "base/log.h"
#include "role/notify_priv.h"

/* "/run/systemd/notify", or "@name" for a name that no file system has. */
static socklen_t read_address(const char *text, struct sockaddr_un *ret)
{
	size_t len = text ? strlen(text) : 0;

	if (len < 2 || len >= sizeof(ret->sun_path) || (*text != '/' && *text != '@'))
		return 0;
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path, text, len);
	if (*text == '@')
		ret->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (*text == '/'));
}

void notify_init(struct notify *n)
{
	*n = (struct notify){ 0 };
	n->len = read_address(getenv("NOTIFY_SOCKET"), &n->at);
	if (!n->len && getenv("NOTIFY_SOCKET"))
		log_warn("$NOTIFY_SOCKET is neither a path nor an abstract name that fits in a "
			 "socket's address, going on without telling the service manager");
	(void)unsetenv("NOTIFY_SOCKET"); /* fails for malformed names alone */
}

void notify_send(const struct notify *n, const char *text)
{
	/* Lost news of readiness would have us stopped, so a busy manager gets time; but not more
	 * than whoever is served can do without. */
	static const struct timeval patience = { .tv_sec = 1 };
	autoclose fd = n->len ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;

	if (!n->len)
		return;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&n->at, n->len) <
		    0) {
		autoptr(err) e = err_sys(errno, "send to $NOTIFY_SOCKET");

		log_warn("the service manager was not told, going on", KV("err", e));
	}
}
