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
#include "base/parse.h"
#include "base/str.h"
#include "node/host/instance.h"
#include "node/host/netlink.h"
#include "node/host/reserved.h"

static const char notes_dir[] = "/run/cay/forwarding";
static const char ip6_end[] = ":6"; /* of the name of a note */
enum {
	NOTE_MAX = 8192,  /* bytes: the boot's id, a path and two numbers */
	NOTES_MAX = 1024, /* of all instances; any more are not read */
	BOOT_ID_MAX = 64,
};

static bool is_same(const struct uplink *a, const struct uplink *b)
{
	return a->ip6 == b->ip6 && a->ifindex == b->ifindex && str_eq(a->name, b->name);
}

bool uplinks_have(const struct uplinks *u, const struct uplink *one)
{
	for (unsigned n = 0; n < u->n; n++)
		if (is_same(&u->at[n], one))
			return true;
	return false;
}

const struct uplink *uplinks_first(const struct uplinks *u, bool ip6)
{
	for (unsigned n = 0; n < u->n; n++)
		if (u->at[n].ip6 == ip6)
			return &u->at[n];
	return NULL;
}

static void put(struct uplinks *u, const struct uplink *one)
{
	if (u->n < UPLINKS_MAX && !uplinks_have(u, one))
		u->at[u->n++] = *one;
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
	struct uplink u = { .ifindex = r->ifindex, .ip6 = !ip_is4(&r->dst) };

	/* The other tables hold the host's own addresses, and what an operator routes by rules. */
	if (r->table != NETLINK_MAIN || r->unreachable || !r->ifindex ||
	    reserved_holds_ip(&r->dst, r->prefix))
		return;
	if (if_indextoname(r->ifindex, u.name) && !str_eq(u.name, "lo") &&
	    !str_starts(u.name, "cay") && is_plain(u.name))
		put(arg, &u);
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

static char *setting(const char *link, bool ip6)
{
	return ip6 ? xasprintf("/proc/sys/net/ipv6/conf/%s/force_forwarding", link)
		   : xasprintf("/proc/sys/net/ipv4/conf/%s/forwarding", link);
}

static bool is_on(const char *path)
{
	autofree char *text = NULL;

	err_free(file_read(AT_FDCWD, path, 16, &text, NULL)); /* the link may be gone */
	return text && *text == '1';
}

static bool forwards(const struct uplink *u)
{
	autofree char *path = setting(u->name, u->ip6);

	return is_on(path);
}

static struct err *set_forwarding(const char *link, bool ip6, bool on)
{
	autofree char *path = setting(link, ip6);

	return file_write(AT_FDCWD, path, on ? "1" : "0");
}

void uplinks_set_forward6(const char *link, bool on)
{
	err_free(set_forwarding(link, true, on)); /* an older kernel does not have it */
}

/* The operator forwards everything: then no link is for us to switch on, or off. */
static bool host_forwards(bool ip6)
{
	return is_on(ip6 ? "/proc/sys/net/ipv6/conf/all/forwarding"
			 : "/proc/sys/net/ipv4/conf/all/forwarding");
}

static bool can_switch(bool ip6)
{
	autofree char *path = setting("all", ip6);

	return file_exists(AT_FDCWD, path);
}

bool uplinks_can_forward6(void)
{
	return host_forwards(true) || can_switch(true);
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

static struct err *write_note(const struct instance *i, const struct uplink *u)
{
	autofree char *path =
		xasprintf("%s/%s.%s%s", notes_dir, i->id, u->name, u->ip6 ? ip6_end : "");
	autofree char *text = NULL;
	char boot[BOOT_ID_MAX];

	boot_id(boot);
	text = xasprintf("%s\n%s\n%llu\n%u\n", boot, i->data_dir, own_ns(), u->ifindex);
	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

enum note_worth {
	NOTE_STALE,     /* of an earlier boot: nothing is switched on any more */
	NOTE_DEAD,      /* its data directory is gone, so nobody else will switch off */
	NOTE_ELSEWHERE, /* of another network namespace */
	NOTE_COUNTS,
};

struct note {
	char *file;
	bool own;
	struct uplink link; /* the name that it had */
	enum note_worth worth;
};
struct notes {
	struct note *at;
	size_t n;
};

static void notes_done(struct notes *all)
{
	for (size_t n = 0; n < all->n; n++)
		free(all->at[n].file);
	free(all->at);
}

static enum note_worth read_worth(const char *file, unsigned *ret_ifindex)
{
	autofree char *path = xasprintf("%s/%s", notes_dir, file), *text = NULL, *identity = NULL;
	autofree char *ns = xasprintf("%llu", own_ns());
	char boot[BOOT_ID_MAX], *save = NULL;
	const char *was, *in, *dir, *index;
	uint64_t number = 0;

	err_free(file_read(AT_FDCWD, path, NOTE_MAX, &text, NULL));
	was = text ? strtok_r(text, "\n", &save) : NULL;
	dir = was ? strtok_r(NULL, "\n", &save) : NULL;
	in = dir ? strtok_r(NULL, "\n", &save) : NULL;
	index = in ? strtok_r(NULL, "\n", &save) : NULL;
	if (!dir)
		return NOTE_STALE;
	boot_id(boot);
	identity = xasprintf("%s/node/instance.json", dir);
	if (!str_eq(was, boot))
		return NOTE_STALE;
	if (in && !str_eq(in, ns))
		return NOTE_ELSEWHERE;
	if (index)
		err_free(parse_uint(index, INT32_MAX, &number));
	*ret_ifindex = (unsigned)number;
	return file_exists(AT_FDCWD, identity) ? NOTE_COUNTS : NOTE_DEAD;
}

/* From "<id>.<link>" or "<id>.<link>:6"; false: it is no note. */
static bool read_note(const struct instance *i, const char *file, struct note *ret)
{
	const char *dot = strchr(file, '.');
	struct note note = { .own = dot && (size_t)(dot - file) == strlen(i->id) &&
				    str_starts(file, i->id) };
	size_t len = dot ? strlen(dot + 1) : 0;

	note.link.ip6 = dot && str_ends(dot, ip6_end);
	if (note.link.ip6)
		len -= strlen(ip6_end);
	if (!len || dot == file || len >= LINK_NAME)
		return false;
	memcpy(note.link.name, dot + 1, len);
	note.worth = read_worth(file, &note.link.ifindex);
	if (!note.link.ifindex)
		note.link.ifindex = if_nametoindex(note.link.name); /* of an earlier version */
	note.file = xstrdup(file);
	*ret = note;
	return true;
}

/* Without the lock, as a census sees them. */
static void read_notes(const struct instance *i, struct notes *ret)
{
	DIR *d = opendir(notes_dir);
	struct notes all = { .at = xnew_n(struct note, NOTES_MAX) };
	struct dirent *de;

	while (d && all.n < NOTES_MAX && (de = readdir(d)))
		all.n += read_note(i, de->d_name, &all.at[all.n]);
	if (d)
		(void)closedir(d);
	*ret = all;
}

/* The same link, whatever it is called by now. */
static bool is_about(const struct note *note, const struct uplink *u)
{
	return note->link.ip6 == u->ip6 && note->link.ifindex == u->ifindex;
}

/* What the notes of other instances for this link are worth, as bits. */
static unsigned notes_of_others(const struct notes *all, const struct uplink *u)
{
	unsigned found = 0;

	for (size_t n = 0; n < all->n; n++)
		if (!all->at[n].own && is_about(&all->at[n], u))
			found |= 1u << all->at[n].worth;
	return found;
}

static void drop(const struct note *note)
{
	autofree char *path = xasprintf("%s/%s", notes_dir, note->file);

	(void)unlink(path);
}

/* Those of others go too of whom nobody will come back. kept: it stays on for us under another
 * name. What is on elsewhere, a start there takes back. */
static void take_back(const struct notes *all, const struct note *note, bool kept)
{
	bool needed = kept || notes_of_others(all, &note->link) & 1u << NOTE_COUNTS;
	char name[IF_NAMESIZE];

	if (note->worth == NOTE_ELSEWHERE)
		return;
	if (note->worth != NOTE_STALE && !needed && !host_forwards(note->link.ip6) &&
	    if_indextoname(note->link.ifindex, name))
		err_free(set_forwarding(name, note->link.ip6, false)); /* it may be gone */
	for (size_t n = 0; n < all->n; n++)
		if (!all->at[n].own && is_about(&all->at[n], &note->link) &&
		    (all->at[n].worth == NOTE_STALE || all->at[n].worth == NOTE_DEAD))
			drop(&all->at[n]);
	drop(note);
}

/* Whoever of us it was. */
static bool we_switched_on(const struct notes *all, const struct uplink *u)
{
	for (size_t n = 0; n < all->n; n++) {
		const struct note *note = &all->at[n];

		if (is_about(note, u) &&
		    (note->worth == NOTE_COUNTS || (!note->own && note->worth == NOTE_DEAD)))
			return true;
	}
	return false;
}

static struct err *claim_each(const struct instance *i, const struct notes *all,
			      const struct uplinks *found, struct uplinks *ret)
{
	struct err *e = NULL;

	for (unsigned n = 0; n < found->n && !e; n++) {
		const struct uplink *u = &found->at[n];

		if ((u->ip6 && !i->ip6) || !can_switch(u->ip6) || host_forwards(u->ip6))
			continue;
		if (forwards(u) && !we_switched_on(all, u))
			continue;
		e = write_note(i, u);
		if (!e)
			put(ret, u);
	}
	return e;
}

static bool is_claimed(const struct note *note, const struct uplinks *got, bool by_name)
{
	for (unsigned n = 0; n < got->n; n++)
		if (is_about(note, &got->at[n]) &&
		    (!by_name || str_eq(note->link.name, got->at[n].name)))
			return true;
	return false;
}

struct err *uplinks_claim(const struct instance *i, const struct uplinks *found,
			  struct uplinks *ret)
{
	struct uplinks got = { 0 };
	struct notes all = { 0 };
	struct err *e;
	autoclose lock = lock_notes(&e);

	if (e)
		return e;
	read_notes(i, &all);
	e = claim_each(i, &all, found, &got);
	for (size_t n = 0; n < all.n && !e; n++)
		if (all.at[n].own && !is_claimed(&all.at[n], &got, true))
			take_back(&all, &all.at[n], is_claimed(&all.at[n], &got, false));
	notes_done(&all);
	if (e)
		return err_wrap(e, "note which links are switched on");
	*ret = got;
	return NULL;
}

struct err *uplinks_switch_on(const struct uplinks *claimed)
{
	struct err *e = NULL;

	for (unsigned n = 0; n < claimed->n && !e; n++)
		if (!forwards(&claimed->at[n]))
			e = set_forwarding(claimed->at[n].name, claimed->at[n].ip6, true);
	return e ? err_wrap(e, "let answers from the Internet through") : NULL;
}

void uplinks_release(const struct instance *i)
{
	struct notes all = { 0 };
	struct err *e = NULL;
	autoclose lock = file_exists(AT_FDCWD, notes_dir) ? lock_notes(&e) : -1;

	err_free(e); /* where it cannot be locked nothing was noted */
	read_notes(i, &all);
	for (size_t n = 0; n < all.n; n++)
		if (all.at[n].own)
			take_back(&all, &all.at[n], false);
	notes_done(&all);
}

void uplinks_noted(const struct instance *i, struct uplinks *ret)
{
	struct notes all = { 0 };

	*ret = (struct uplinks){ 0 };
	read_notes(i, &all);
	for (size_t n = 0; n < all.n; n++) {
		struct uplink u = all.at[n].link;

		(void)if_indextoname(u.ifindex, u.name); /* as it is called now */
		if (all.at[n].own && all.at[n].worth != NOTE_ELSEWHERE && forwards(&u))
			put(ret, &u);
	}
	notes_done(&all);
}
