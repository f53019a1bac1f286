/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/rights.h"
#include "node/network/resolv_conf.h"

/*
 * What distributions add: restrictions of user namespaces, packages that see another file system,
 * a name server on the loopback.
 */
enum {
	ANSWER_MS = 300, /* a refusal on the loopback comes at once */
};

/*
 * Ubuntu (AppArmor) and Debian can keep user namespaces from those without CAP_SYS_ADMIN. Both ask
 * whether the process that makes one has that capability in the namespace around it. A slot makes
 * its own as a user other than root but with all of root's capabilities (launch/userns.c), so it is
 * not concerned; nor is what runs inside, which may make none on any host.
 */
void check_userns_limits(struct doctor *d)
{
	static const struct {
		const char *key, *path;
		int64_t restricted;
	} rows[] = {
		{ "kernel.apparmor_restrict_unprivileged_userns",
		  "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 1 },
		{ "kernel.unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone",
		  0 },
	};
	const char *by = NULL;
	bool may = rights_held(CAP_SYS_ADMIN);

	for (size_t i = 0; i < ARRAY_LEN(rows) && !by; i++)
		if (doctor_number(rows[i].path) == rows[i].restricted)
			by = rows[i].key;
	if (!by)
		doctor_say(d, "userns-restriction", VERDICT_OK,
			   xstrdup("user namespaces are not restricted"), NULL);
	else
		doctor_say(d, "userns-restriction", may ? VERDICT_OK : VERDICT_FAIL,
			   xasprintf("%s leaves user namespaces to those with CAP_SYS_ADMIN, which "
				     "this process %s",
				     by, may ? "has" : "lacks"),
			   xstrdup("give the daemon CAP_SYS_ADMIN: run it as root, outside of a "
				   "container that drops it"));
}

/* A snap with strict confinement has another /, and so other programs, other libraries and no
 * control groups. Variables such as SNAP prove nothing: a terminal from a snap hands them on. */
void check_snap(struct doctor *d)
{
	autofree char *label = NULL;
	char exe[64] = "";
	bool snap;

	err_free(file_read(AT_FDCWD, "/proc/self/attr/current", 4096, &label, NULL));
	(void)!readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	snap = (label && str_starts(label, "snap.")) || str_starts(exe, "/snap/");
	doctor_say(d, "snap", snap ? VERDICT_FAIL : VERDICT_OK,
		   xstrdup(snap ? "this program runs in a snap, where / is not that of the host"
				: "this program sees the host's own files"),
		   xstrdup("install the Debian package, or run cay from a shell outside of the "
			   "snap"));
}

/* A datagram to a port of the loopback that nobody has is refused at once. */
static bool refuses(const struct sockaddr_storage *at)
{
	static const uint8_t question[] = {
		0xca, 0x79, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1
	};
	socklen_t len =
		at->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	autoclose fd = socket(at->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char answer[512];

	if (fd < 0 || connect(fd, (const struct sockaddr *)(const void *)at, len) < 0 ||
	    send(fd, question, sizeof(question), 0) < 0)
		return true;
	return poll(&p, 1, ANSWER_MS) == 1 && recv(fd, answer, sizeof(answer), 0) < 0 &&
	       errno == ECONNREFUSED;
}

static bool on_loopback(const struct sockaddr_storage *at)
{
	const struct sockaddr_in *v4 = (const void *)at;
	const struct sockaddr_in6 *v6 = (const void *)at;

	return at->ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
					: IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static void text_of(const struct sockaddr_storage *at, char ret[INET6_ADDRSTRLEN])
{
	const struct sockaddr_in *v4 = (const void *)at;
	const struct sockaddr_in6 *v6 = (const void *)at;

	(void)inet_ntop(at->ss_family,
			at->ss_family == AF_INET ? (const void *)&v4->sin_addr
						 : (const void *)&v6->sin6_addr,
			ret, INET6_ADDRSTRLEN);
}

/* Questions of sandboxes go to the daemon, and from there, on the host's own network, to the host's
 * name servers. So one on the loopback will do, such as 127.0.0.53 of systemd-resolved. */
void check_upstream(struct doctor *d)
{
	autofree char *text = NULL;
	struct resolv_conf conf = { 0 };
	char name[INET6_ADDRSTRLEN] = "";
	bool dead;

	err_free(file_read(AT_FDCWD, "/etc/resolv.conf", 65536, &text, NULL));
	if (text)
		resolv_conf_read(text, &conf);
	if (!conf.n_servers) {
		doctor_say(d, "name-upstream", VERDICT_WARN,
			   xstrdup("/etc/resolv.conf names no name server, so sandboxes find no "
				   "names of the Internet"),
			   xstrdup("name one there, or in a file of its own with --resolv-conf"));
		return;
	}
	text_of(&conf.servers[0], name);
	dead = on_loopback(&conf.servers[0]) && refuses(&conf.servers[0]);
	doctor_say(d, "name-upstream", dead ? VERDICT_WARN : VERDICT_OK,
		   xasprintf(dead ? "nobody answers at the name server %s"
				  : "questions of sandboxes are passed on to %s",
			     name),
		   xstrdup("systemctl start systemd-resolved, or name another server with "
			   "--resolv-conf"));
}
