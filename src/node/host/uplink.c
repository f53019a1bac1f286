/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/uplink.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/reserved.h"

static const char notes_dir[] = "/run/cay/forwarding";
enum {
	NOTE_MAX = 8192, /* bytes: the boot's id, a path and a number */
	BOOT_ID_MAX = 64,
};

bool uplinks_have(const struct uplinks *u, const char *name)
{
	for (unsigned n = 0; n < u->n; n++)
		if (str_eq(u->name[n], name))
			return true;
	return false;
}

static void put(struct uplinks *u, const char *name)
{
	if (u->n == UPLINKS_MAX || strlen(name) >= LINK_NAME || uplinks_have(u, name))
		return;
	(void)snprintf(u->name[u->n++], LINK_NAME, "%s", name);
}

/* It becomes a part of a path and of the rules of the packet filter; the kernel allows more. */
static bool is_plain(const char *name)
{
	return !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "._-@")] &&
	       *name != '.';
}

static void note_route(void *arg, const struct netlink_route *r)
{
	char name[IF_NAMESIZE];

	/* The other tables hold the host's own addresses, and what an operator routes by rules. */
	if (r->table != NETLINK_MAIN || r->unreachable || !r->ifindex || !ip_is4(&r->dst) ||
	    reserved_holds_ip(&r->dst, r->prefix))
		return;
	if (if_indextoname(r->ifindex, name) && !str_eq(name, "lo") && !str_starts(name, "cay") &&
	    is_plain(name))
		put(arg, name);
}

struct err *uplinks_find(struct netlink *nl, struct uplinks *ret)
{
	struct uplinks found = { 0 };
	struct err *e = netlink_each_route(nl, note_route, &found);

	if (e)
		return err_wrap(e, "find the way to the Internet");
	*ret = found;
	return NULL;
}

static char *setting(const char *link)
{
	return xasprintf("/proc/sys/net/ipv4/conf/%s/forwarding", link);
}

static bool forwards(const char *link)
{
	autofree char *path = setting(link), *text = NULL;

	err_free(file_read(AT_FDCWD, path, 16, &text, NULL)); /* the link may be gone */
	return text && *text == '1';
}

static struct err *set_forwarding(const char *link, bool on)
{
	autofree char *path = setting(link);

	return file_write(AT_FDCWD, path, on ? "1" : "0");
}

/* -1: the notes cannot be locked. */
static int lock_notes(struct err **ret)
{
	autoclose fd = -1;

	*ret = file_mkdirs(notes_dir, 0700);
	if (*ret)
		return -1;
	fd = open(notes_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX) < 0) {
		*ret = err_sys(errno, "lock %s", notes_dir);
		return -1;
	}
	return take_fd(fd);
}

static void boot_id(char ret[BOOT_ID_MAX])
{
	autofree char *text = NULL;

	err_free(file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", BOOT_ID_MAX - 1, &text,
			   NULL));
	(void)snprintf(ret, BOOT_ID_MAX, "%.*s", (int)strcspn(str_or(text, ""), "\n"),
		       str_or(text, ""));
}

/* Which network namespace this is: links of others may have the same names. */
static unsigned long long own_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/net", &st) < 0 ? 0 : (unsigned long long)st.st_ino;
}

static struct err *write_note(const struct instance *i, const char *link)
{
	autofree char *path = xasprintf("%s/%s.%s", notes_dir, i->id, link);
	autofree char *text = NULL;
	char boot[BOOT_ID_MAX];

	boot_id(boot);
	text = xasprintf("%s\n%s\n%llu\n", boot, i->data_dir, own_ns());
	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

enum note_worth {
	NOTE_STALE,     /* of an earlier boot: nothing is switched on any more */
	NOTE_DEAD,      /* its data directory is gone, so nobody else will switch off */
	NOTE_ELSEWHERE, /* of another network namespace */
	NOTE_COUNTS,
};

static enum note_worth note_worth(const char *name)
{
	autofree char *path = xasprintf("%s/%s", notes_dir, name), *text = NULL, *file = NULL;
	autofree char *ns = xasprintf("%llu", own_ns());
	char boot[BOOT_ID_MAX], *save = NULL;
	const char *was, *in, *dir;

	err_free(file_read(AT_FDCWD, path, NOTE_MAX, &text, NULL));
	was = text ? strtok_r(text, "\n", &save) : NULL;
	dir = was ? strtok_r(NULL, "\n", &save) : NULL;
	in = dir ? strtok_r(NULL, "\n", &save) : NULL;
	if (!dir)
		return NOTE_STALE;
	boot_id(boot);
	file = xasprintf("%s/node/instance.json", dir);
	if (!str_eq(was, boot))
		return NOTE_STALE;
	if (in && !str_eq(in, ns))
		return NOTE_ELSEWHERE;
	return file_exists(AT_FDCWD, file) ? NOTE_COUNTS : NOTE_DEAD;
}

/* Where the name of the link begins in the name of a note; NULL: it is none. */
static const char *note_link(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot && dot != name && dot[1] ? dot + 1 : NULL;
}

static bool is_own(const struct instance *i, const char *name)
{
	size_t len = strlen(i->id);

	return !strncmp(name, i->id, len) && name[len] == '.';
}

/* What the notes of other instances for this link are worth, as bits. drop: those are removed of
 * whom nobody will come back. */
static unsigned notes_of_others(const struct instance *i, const char *link, bool drop)
{
	DIR *d = opendir(notes_dir);
	struct dirent *de;
	unsigned found = 0;

	while (d && (de = readdir(d))) {
		const char *of = note_link(de->d_name);
		enum note_worth worth;

		if (!of || !str_eq(of, link) || is_own(i, de->d_name))
			continue;
		worth = note_worth(de->d_name);
		found |= 1u << worth;
		if (drop && (worth == NOTE_STALE || worth == NOTE_DEAD))
			(void)unlinkat(dirfd(d), de->d_name, 0);
	}
	if (d)
		(void)closedir(d);
	return found;
}

/* Without the lock, as a census sees them. */
static void own_notes(const struct instance *i, struct uplinks *ret)
{
	DIR *d = opendir(notes_dir);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (is_own(i, de->d_name))
			put(ret, note_link(de->d_name));
	if (d)
		(void)closedir(d);
}

static enum note_worth own_worth(const struct instance *i, const char *link)
{
	autofree char *name = xasprintf("%s.%s", i->id, link);

	return note_worth(name);
}

/* The operator forwards everything: then no link is for us to switch on, or off. */
static bool host_forwards(void)
{
	return forwards("all");
}

/* What is on elsewhere, a start there takes back. */
static void take_back(const struct instance *i, const char *link)
{
	autofree char *path = xasprintf("%s/%s.%s", notes_dir, i->id, link);
	enum note_worth worth = own_worth(i, link);
	bool needed = notes_of_others(i, link, true) & 1u << NOTE_COUNTS;

	if (worth == NOTE_ELSEWHERE)
		return;
	if (worth != NOTE_STALE && !needed && !host_forwards())
		err_free(set_forwarding(link, false)); /* it may be gone */
	(void)unlink(path);
}

/* Whoever of us it was. */
static bool we_switched_on(const struct instance *i, const char *link)
{
	return own_worth(i, link) == NOTE_COUNTS ||
	       notes_of_others(i, link, false) & (1u << NOTE_COUNTS | 1u << NOTE_DEAD);
}

static struct err *claim_each(const struct instance *i, const struct uplinks *found,
			      struct uplinks *ret)
{
	struct err *e = NULL;

	for (unsigned n = 0; n < found->n && !e; n++) {
		const char *link = found->name[n];

		if (host_forwards() || (forwards(link) && !we_switched_on(i, link)))
			continue;
		e = write_note(i, link);
		if (!e)
			put(ret, link);
	}
	return e;
}

struct err *uplinks_claim(const struct instance *i, const struct uplinks *found,
			  struct uplinks *ret)
{
	struct uplinks had = { 0 }, got = { 0 };
	struct err *e;
	autoclose lock = lock_notes(&e);

	if (e)
		return e;
	own_notes(i, &had);
	e = claim_each(i, found, &got);
	if (e)
		return err_wrap(e, "note which links are switched on");
	for (unsigned n = 0; n < had.n; n++)
		if (!uplinks_have(&got, had.name[n]))
			take_back(i, had.name[n]);
	*ret = got;
	return NULL;
}

struct err *uplinks_switch_on(const struct uplinks *claimed)
{
	struct err *e = NULL;

	for (unsigned n = 0; n < claimed->n && !e; n++)
		if (!forwards(claimed->name[n]))
			e = set_forwarding(claimed->name[n], true);
	return e ? err_wrap(e, "let answers from the Internet through") : NULL;
}

void uplinks_release(const struct instance *i)
{
	struct uplinks had = { 0 };
	struct err *e = NULL;
	autoclose lock = file_exists(AT_FDCWD, notes_dir) ? lock_notes(&e) : -1;

	err_free(e); /* where it cannot be locked nothing was noted */
	own_notes(i, &had);
	for (unsigned n = 0; n < had.n; n++)
		take_back(i, had.name[n]);
}

void uplinks_noted(const struct instance *i, struct uplinks *ret)
{
	struct uplinks had = { 0 };

	*ret = (struct uplinks){ 0 };
	own_notes(i, &had);
	for (unsigned n = 0; n < had.n; n++)
		if (forwards(had.name[n]))
			put(ret, had.name[n]);
}
