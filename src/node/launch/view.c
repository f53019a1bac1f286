/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/disk/disk.h"
#include "node/launch/launch_priv.h"

/*
 * The files of a sandbox as a view shows them, in a mount namespace of their own.
 *
 * Both kinds begin as a copy of the sandbox's mount namespace, in which /dev and /proc are replaced
 * by fresh ones: those of the sandbox show its processes and its terminals.
 *
 *   read-only   every mount of the copy is made read-only; /tmp is a new tmpfs
 *   scratch     a new root: an overlay of the sandbox's root, and on it for each of its mounts an
 *               overlay of that if it can be written to, or else the mount itself, read-only
 *
 * The mounts of the copy are as live as the sandbox's own. A lower layer of an overlay is not meant
 * to change under it: what the sandbox writes later may or may not be seen in a scratch.
 *
 * A read-only mount does not stop a connection to a socket or a pipe that lies on it, behind which
 * the sandbox may write for whoever asks: view_restrict() does. In a scratch they are other files,
 * with nobody behind them, except on mounts that the sandbox has read-only: of those, the identity
 * socket leads to the daemon.
 */
#define TMP_OPTIONS_MODE "1777"

enum {
	MOUNTS_MAX = 1000,
	WORKS_MAX = 1000, /* how often a scratch can be mounted anew */
};

struct view {
	struct slot *s;
	const struct message_seat *spec;
	int dev, proc, tmp, upper; /* trees that are not attached anywhere yet; -1: none */
	int proc_dir;              /* our own proc, to read in */
	unsigned n_overlays;
	unsigned work; /* of the scratch: a volatile overlay leaves its working directory marked */
};

static void view_done(struct view *v)
{
	const int fds[] = { v->dev, v->proc, v->tmp, v->upper, v->proc_dir };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

/* The network has nothing in it but its own loopback. */
static struct err *set_up_network(int proc)
{
	autoclose fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	struct err *e;

	if (!wall_stands("view-network"))
		return NULL;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) < 0)
		return err_sys(errno, "bring up the loopback link");
	e = file_write(proc, "sys/net/ipv4/ip_unprivileged_port_start", "0");
	return e ? e : file_write(proc, "sys/net/ipv4/ping_group_range", "0 2147483647");
}

static int clone_below(int dir, const char *name)
{
	return open_tree(dir, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

/* Not attached yet. Its memory counts for the sandbox. */
static struct err *new_tmp(const struct slot *s, int *ret)
{
	autoclose fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	char id[16];

	(void)snprintf(id, sizeof(id), "%u", s->spec->base);
	if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "mode", TMP_OPTIONS_MODE, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "uid", id, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "gid", id, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "size", "1g", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "200k", 0) < 0 ||
	    fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_sys(errno, "create a tmpfs");
	*ret = fsmount(fs, FSMOUNT_CLOEXEC, mount_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
	return *ret < 0 ? err_sys(errno, "mount a tmpfs") : NULL;
}

/* What we make is made on the stage, in a copy of the host's mounts. */
static struct err *prepare_parts(struct view *v)
{
	struct slot *s = v->s;
	struct err *e = root_prepare(s);

	if (e)
		return e;
	v->proc_dir = openat(s->stage_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (v->proc_dir < 0)
		return err_sys(errno, "open proc");
	e = set_up_network(v->proc_dir);
	if (!e)
		e = root_mask_proc(s->l);
	if (e)
		return e;
	v->dev = clone_below(s->stage_fd, "dev");
	v->proc = clone_below(s->stage_fd, "proc");
	if (v->dev < 0 || v->proc < 0)
		return err_sys(errno, "clone /dev and /proc");
	return v->spec->view == SEAT_READ_ONLY ? new_tmp(s, &v->tmp) : NULL;
}

/* It is there already if the seat is made once more: what it has written stays. */
static struct err *make_scratch(struct view *v)
{
	struct slot *s = v->s;
	const char *path = v->spec->scratch;
	int64_t limit = v->spec->disk ? v->spec->disk : s->l->disk_limit;
	struct err *e = s->l->disk->make(path, wall_stands("disk-layer") ? limit : 0);
	char work[16];

	if (err_is(e, ERR_EXISTS))
		err_free(e);
	else if (e)
		return e;
	s->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return err_sys(errno, "open %s", path);
	for (v->work = 0; v->work < WORKS_MAX; v->work++) {
		(void)snprintf(work, sizeof(work), "w%u", v->work);
		if (!mkdirat(s->dir_fd, work, 0755))
			break;
		if (errno != EEXIST)
			return err_sys(errno, "create %s", work);
	}
	if (v->work == WORKS_MAX)
		return err_new(ERR_EXHAUSTED, "a scratch was mounted %d times", WORKS_MAX);
	return mount_clone(s, s->dir_fd, false, CLONE_IDS_LAYER, &v->upper);
}

/* From here on we are in a copy of the sandbox's mounts. */
static struct err *copy_mounts(int sandbox)
{
	int more = CLONE_NEWUTS | (wall_stands("view-network") ? 0 : CLONE_NEWNET) |
		   (wall_stands("view-ipc") ? 0 : CLONE_NEWIPC);

	if (setns(sandbox, CLONE_NEWNS | more) < 0 || unshare(CLONE_NEWNS | CLONE_NEWCGROUP) < 0)
		return err_sys(errno, "copy the mounts of the sandbox");
	if (mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return err_sys(errno, "make the mount namespace private");
	return NULL;
}

static struct err *detach(const char *at)
{
	return umount2(at, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? err_sys(errno, "detach %s", at)
							     : NULL;
}

static struct err *attach(int tree, int root, const char *path)
{
	autoclose to = -1;
	struct err *e = file_open_in_root(root, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &to);

	return e ? e : mount_move(tree, to);
}

/* A root without a /tmp, or with a link there, has none. */
static struct err *attach_tmp(const struct view *v, int root)
{
	struct err *e = attach(v->tmp, root, "/tmp");

	if (err_is(e, ERR_NOT_FOUND) || (e && (err_errno(e) == ENOTDIR || err_errno(e) == ELOOP))) {
		err_free(e);
		return NULL;
	}
	return e;
}

static struct err *read_only_root(struct view *v)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	autoclose root = -1;
	struct err *e = detach("/proc");

	if (!e)
		e = detach("/dev");
	if (e)
		return e;
	if (wall_stands("view-read-only") &&
	    mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &ro, sizeof(ro)) < 0)
		return err_sys(errno, "make all mounts read-only");
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(errno, "open the root");
	e = attach(v->dev, root, "/dev");
	if (!e)
		e = attach(v->proc, root, "/proc");
	if (!e)
		e = attach_tmp(v, root);
	return e ? e : chdir("/") < 0 ? err_sys(errno, "enter the root") : NULL;
}

/* The scratch */

/* Below the stage; its parts in upper are made there. */
static struct err *overlay_over(struct view *v, const char *lower, int to)
{
	autofree char *dir = xasprintf("u/%u", v->n_overlays);
	autofree char *work = xasprintf("u/w%u/%u", v->work, v->n_overlays);
	struct err *e = become(0);

	if (e)
		return e;
	v->n_overlays++;
	/* By the descriptor of the directory itself, where ids on disk are those of the sandbox. */
	if ((mkdirat(v->s->dir_fd, dir + 2, 0755) < 0 && errno != EEXIST) ||
	    mkdirat(v->s->dir_fd, work + 2, 0755) < 0)
		return err_sys(errno, "create %s", dir);
	if (!v->s->mapped && fchownat(v->s->dir_fd, dir + 2, v->s->spec->base, v->s->spec->base,
				      AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "change the owner of %s", dir);
	e = become(v->s->spec->base);
	return e ? e : mount_overlay(&v->s->l->features, &(struct overlay){ lower, dir, work }, to);
}

/* The stage in the copy, at /proc, where a directory is in any case; and upper on it. */
static struct err *set_stage(struct view *v, int stage_tree)
{
	struct slot *s = v->s;
	autoclose to = -1;
	struct err *e = detach("/proc");

	if (!e)
		e = detach("/dev");
	if (e)
		return e;
	if (move_mount(stage_tree, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(errno, "attach the stage");
	(void)close(take_fd(s->stage_fd));
	s->stage_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->stage_fd < 0 || fchdir(s->stage_fd) < 0)
		return err_sys(errno, "enter the stage");
	to = openat(s->stage_fd, "u", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return to < 0 ? err_sys(errno, "open the stage") : mount_move(v->upper, to);
}

struct below {
	char *at; /* a mount point, below the root */
	bool readonly, noexec;
};

/* "\040" and its like, in place. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; s++, to++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*to = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*to = *s;
		}
	}
	*to = '\0';
}

static bool is_below(const char *path, const char *top)
{
	size_t len = strlen(top);

	return !strncmp(path, top, len) && (!path[len] || path[len] == '/');
}

/* A line of mountinfo: id parent device root at options ... False: it is not to be shown. */
static bool read_mount(char *line, struct below *ret)
{
	char *save = NULL, *word[6] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(word); i++) {
		word[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!word[i])
			return false;
	}
	unescape(word[4]);
	ret->at = word[4];
	ret->readonly = str_starts(word[5], "ro,") || str_eq(word[5], "ro");
	ret->noexec = strstr(word[5], ",noexec") != NULL;
	return !str_eq(ret->at, "/") && !is_below(ret->at, "/proc") && !is_below(ret->at, "/dev");
}

/* What the mount below forbids stays forbidden in the overlay over it. */
static struct err *forbid_exec(const struct view *v, const char *path)
{
	struct mount_attr noexec = { .attr_set = MOUNT_ATTR_NOEXEC };
	autoclose at = -1;
	struct err *e = file_open_in_root(v->s->root_fd, path, O_PATH, 0, &at);

	if (!e && mount_setattr(at, "", AT_EMPTY_PATH, &noexec, sizeof(noexec)) < 0)
		e = err_sys(errno, "forbid execution");
	return e;
}

/* One mount of the sandbox, in the new root: its own overlay if it is a directory that could be
 * written to; what cannot be a layer is shown read-only. */
static struct err *show(struct view *v, const struct below *m)
{
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	autoclose tree = open_tree(AT_FDCWD, m->at, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	autoclose to = -1, lower = -1;
	struct stat st;
	char name[16];
	struct err *e;

	if (tree < 0 || fstat(tree, &st) < 0)
		return err_sys(errno, "clone a mount");
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &ro, sizeof(ro)) < 0)
		return err_sys(errno, "make a mount read-only");
	e = file_open_in_root(v->s->root_fd, m->at, O_PATH, 0, &to);
	if (e || m->readonly || !S_ISDIR(st.st_mode))
		return e ? e : mount_move(tree, to);
	(void)snprintf(name, sizeof(name), "m%u", v->n_overlays);
	if (mkdirat(v->s->stage_fd, name, 0700) < 0)
		return err_sys(errno, "create %s below the stage", name);
	lower = openat(v->s->stage_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	e = mount_move(tree, lower);
	if (e)
		return e;
	e = overlay_over(v, name, to);
	if (!e)
		return m->noexec ? forbid_exec(v, m->at) : NULL;
	err_free(e);
	(void)close(take_fd(tree));
	tree = open_tree(v->s->stage_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree < 0 ? err_sys(errno, "clone a mount") : mount_move(tree, to);
}

/* As they were before the stage was set. */
static struct err *show_all(struct view *v, char *mounts)
{
	char *save = NULL;
	struct err *e = NULL;
	unsigned n = 0;

	for (char *line = strtok_r(mounts, "\n", &save); line && !e;
	     line = strtok_r(NULL, "\n", &save)) {
		struct below m;

		if (!read_mount(line, &m))
			continue;
		if (n++ == MOUNTS_MAX)
			return err_new(ERR_EXHAUSTED, "the sandbox has more than %d mounts",
				       MOUNTS_MAX);
		e = err_wrap(show(v, &m), "show %s", m.at);
	}
	return e;
}

static struct err *scratch_root(struct view *v, int stage_tree)
{
	struct slot *s = v->s;
	autofree char *mounts = NULL;
	autoclose at = -1;
	struct err *e = file_read(v->proc_dir, "self/mountinfo", 8 << 20, &mounts, NULL);

	if (!e)
		e = set_stage(v, stage_tree);
	if (e)
		return e;
	at = openat(s->stage_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	e = at < 0 ? err_sys(errno, "open the stage") : overlay_over(v, "/", at);
	if (e)
		return e;
	s->root_fd = openat(s->stage_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->root_fd < 0)
		return err_sys(errno, "open the new root");
	e = show_all(v, mounts);
	if (!e)
		e = attach(v->dev, s->root_fd, "/dev");
	if (!e)
		e = attach(v->proc, s->root_fd, "/proc");
	return e ? e : root_pivot(s->root_fd);
}

struct err *view_enter(struct slot *s, const struct message_seat *spec, int sandbox)
{
	struct view v = {
		.s = s, .spec = spec, .dev = -1, .proc = -1, .tmp = -1, .upper = -1, .proc_dir = -1
	};
	bool scratch = spec->view == SEAT_SCRATCH;
	autoclose stage = -1;
	struct err *e = prepare_parts(&v);

	if (!e && scratch)
		e = make_scratch(&v);
	if (!e && scratch) {
		stage = open_tree(s->stage_fd, "",
				  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
		if (stage < 0)
			e = err_sys(errno, "clone the stage");
	}
	if (!e)
		e = copy_mounts(sandbox);
	if (!e)
		e = scratch ? scratch_root(&v, stage) : read_only_root(&v);
	view_done(&v);
	return err_wrap(e, "build the view");
}

/* What a view must not do */

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

/* Landlock refuses what a read-only mount lets through: to open a pipe for writing. Where the
 * kernel has none, the mounts stand alone. */
static struct err *forbid_writing(void)
{
	static const char *const own[] = { "/tmp", "/dev", "/proc" };
	long version = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0,
			       LANDLOCK_CREATE_RULESET_VERSION);
	uint64_t writing = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
			   LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
			   LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
			   LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
			   LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
	struct landlock_ruleset_attr attr = { 0 };
	autoclose rules = -1;

	if (version < 1 || !wall_stands("view-landlock"))
		return NULL;
	if (version >= 2)
		writing |= LANDLOCK_ACCESS_FS_REFER;
	if (version >= 3)
		writing |= LANDLOCK_ACCESS_FS_TRUNCATE;
	attr.handled_access_fs = writing;
	rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	if (rules < 0)
		return err_sys(errno, "make rules for files");
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		autoclose fd = open(own[i], O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		struct landlock_path_beneath_attr beneath = { .allowed_access = writing,
							      .parent_fd = fd };

		if (fd >= 0 && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH,
				       &beneath, 0) < 0)
			return err_sys(errno, "add a rule for %s", own[i]);
	}
	if (syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return err_sys(errno, "obey the rules for files");
	return NULL;
}

/* No sockets that could be connected to one in the file system. A pair of streams is connected to
 * itself for good; one of datagrams could be led elsewhere. The filter of all sandboxes, which is
 * installed next, refuses calls of a foreign ABI. */
static struct err *forbid_unix_sockets(void)
{
#define WORD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
	static struct sock_filter program[] = {
		WORD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		WORD(args[0]), /* the lower half comes first, on all that we run on */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 6, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socketpair, 0, 5),
		WORD(args[1]),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf), /* without flags */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
#undef WORD
	const struct sock_fprog filter = { ARRAY_LEN(program), program };

	return wall_stands("view-sockets") ? seccomp_install(&filter) : NULL;
}

struct err *view_restrict(void)
{
	struct err *e = forbid_writing();

	return e ? e : forbid_unix_sockets();
}
