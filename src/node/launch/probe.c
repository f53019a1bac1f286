/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/host/numbers.h"
#include "node/launch/launch_priv.h"

/*
 * What the kernel can do, tried by a process with a mount namespace of its own: its mounts end with
 * it. What is tried is what a slot does, where possible by the slot's own functions, and it counts
 * only if it had its effect: an overlay shows the file of its lower layer and puts another into its
 * upper directory, a mapped mount shows a file of root as that of another user.
 *
 *   DIR/.cay-probe-PID   on the file system that sandboxes write to; gone afterwards
 *   GROUP/probe-PID      a control group; gone afterwards, or removed as any group that is unknown
 *   /dev                 a tmpfs, in our own mount namespace: a container may have no /tmp
 */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum {
	KILL_MS = 5000, /* for a process that was killed to end */
	PTY_MODE = 0620,
};

struct probe {
	pid_t pid;         /* after which things are named */
	const char *group; /* the control group to make others in; NULL: none */
	uint32_t base;     /* of the ids that a mapped mount shows */
	uint32_t last_id;  /* also of a group */
	int place;         /* the directory on the file system that sandboxes write to */
	int disk;          /* one of our own in it; -1: it cannot be written to now */
	int memory;        /* likewise, in a tmpfs */
	int userns;        /* whose ids are mapped to base */
	unsigned unsynced; /* the bit of FEATURE_OVERLAY_VOLATILE, if there is that */
	unsigned n_layers; /* directories that were used for an overlay */
};

static struct err *make_file(int dir, const char *name)
{
	autoclose fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd < 0 ? err_sys(errno, "create a file") : NULL;
}

static struct err *open_dir(int at, const char *name, int *ret)
{
	*ret = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return *ret < 0 ? err_sys(errno, "open directory %s", name) : NULL;
}

static struct err *make_dir(int at, const char *name, int *ret)
{
	if (mkdirat(at, name, 0755) < 0)
		return err_sys(errno, "create directory %s", name);
	return open_dir(at, name, ret);
}

/* A copy of the mount at a directory, in which root of the host is somebody else. */
static struct err *clone_mapped(const struct probe *p, int dir, int *ret)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)p->userns };
	autoclose tree = open_tree(dir, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

	if (tree < 0)
		return err_sys(errno, "clone a mount");
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return err_sys(errno, "map the ids of a mount");
	*ret = take_fd(tree);
	return NULL;
}

/* Nothing is written for it: whether ids can be mapped does not depend on a disk that is full. */
static struct err *try_idmap(const struct probe *p, int dir)
{
	autoclose tree = -1;
	struct stat real, shown;
	struct err *e = clone_mapped(p, dir, &tree);

	if (e)
		return e;
	if (fstat(dir, &real) < 0 || fstat(tree, &shown) < 0)
		return err_sys(errno, "look at a mapped mount");
	if (real.st_uid < ID_RANGE && shown.st_uid != p->base + real.st_uid)
		return err_new(ERR_UNSUPPORTED, "a mapped mount shows id %u instead of %u",
			       shown.st_uid, p->base + real.st_uid);
	return NULL;
}

/* Over the directory of that name, from here on. */
static struct err *map_over(const struct probe *p, int at, const char *name)
{
	autoclose dir = -1, tree = -1;
	struct err *e = open_dir(at, name, &dir);

	if (!e)
		e = clone_mapped(p, dir, &tree);
	return e ? e : mount_move(tree, dir);
}

/* lower1, lower2 with a file, u/upper, u/work, root */
static struct err *make_layers(struct probe *p, int at, int *ret)
{
	static const char *const names[] = { "lower1", "lower2", "u", "u/upper", "u/work", "root" };
	autoclose in = -1;
	struct err *e;
	char name[24];

	(void)snprintf(name, sizeof(name), "overlay%u", p->n_layers++);
	e = make_dir(at, name, &in);
	for (size_t i = 0; i < ARRAY_LEN(names) && !e; i++)
		if (mkdirat(in, names[i], 0755) < 0)
			e = err_sys(errno, "create directory %s", names[i]);
	if (!e)
		e = make_file(in, "lower2/below");
	if (!e)
		*ret = take_fd(in);
	return e;
}

static struct err *use_overlay(int in, uid_t owner)
{
	autoclose root = -1;
	struct stat st;
	struct err *e = open_dir(in, "root", &root);

	if (e)
		return e;
	if (fstatat(root, "below", &st, 0) < 0)
		return err_sys(errno, "look at a file of a layer");
	if (st.st_uid != owner)
		return err_new(ERR_UNSUPPORTED, "a layer shows id %u instead of %u", st.st_uid,
			       owner);
	e = make_file(root, "above");
	if (!e && !file_exists(in, "u/upper/above"))
		e = err_new(ERR_UNSUPPORTED, "a new file is not in the upper directory");
	return e;
}

/* As a slot does it, with these features and no others, below the directory `at`. */
static struct err *try_overlay_in(struct probe *p, int at, unsigned have, bool mapped)
{
	static const char *const layers[] = { "lower1", "lower2", "u" };
	const struct overlay o = { "lower1:lower2", "u/upper", "u/work" };
	const struct features fs = { .have = have };
	autoclose in = -1, to = -1;
	struct err *e = make_layers(p, at, &in);

	if (!e && fchdir(in) < 0)
		e = err_sys(errno, "enter a directory");
	for (size_t i = 0; i < ARRAY_LEN(layers) && mapped && !e; i++)
		e = map_over(p, in, layers[i]);
	if (!e)
		e = open_dir(in, "root", &to);
	if (!e)
		e = become(mapped ? p->base : 0);
	if (!e)
		e = mount_overlay(&fs, &o, to);
	if (!e)
		e = use_overlay(in, mapped ? p->base : 0);
	err_free(become(0)); /* what we were: it cannot be refused */
	(void)umount2("root", MNT_DETACH);
	return e;
}

static bool maps_ids(const struct probe *p, int dir)
{
	autoptr(err) e = try_idmap(p, dir);

	return !e;
}

/* Nothing is written: the directory that sandboxes write to, mapped, is a layer of an overlay that
 * cannot be written to either. */
static struct err *try_mapped_layer(struct probe *p)
{
	autoclose in = -1, to = -1, tree = -1, root = -1;
	struct stat real, shown;
	struct err *e = make_layers(p, p->memory, &in);

	if (!e)
		e = open_dir(in, "lower1", &to);
	if (!e)
		e = clone_mapped(p, p->place, &tree);
	if (!e)
		e = mount_move(tree, to);
	if (e)
		return e;
	if (fchdir(in) < 0)
		return err_sys(errno, "enter a directory");
	if (mount("overlay", "root", "overlay", MS_RDONLY, "lowerdir=lower1:lower2") < 0)
		return err_sys(errno, "create overlay");
	e = open_dir(in, "root", &root);
	if (!e && (fstat(p->place, &real) < 0 || fstat(root, &shown) < 0))
		e = err_sys(errno, "look at a mapped layer");
	if (!e && real.st_uid < ID_RANGE && shown.st_uid != p->base + real.st_uid)
		e = err_new(ERR_UNSUPPORTED, "a layer shows id %u instead of %u", shown.st_uid,
			    p->base + real.st_uid);
	(void)umount2("root", MNT_DETACH);
	return e;
}

/* Of an overlay too: it makes files itself, and says so if it cannot, one way or the other. */
static bool is_disk_error(const struct err *e)
{
	static const int errnos[] = { ENOSPC, EDQUOT, EROFS, EIO };

	for (size_t i = 0; i < ARRAY_LEN(errnos); i++)
		if (err_errno(e) == errnos[i])
			return true;
	return false;
}

/* A disk that is full or broken says nothing about the kernel: then it is tried in memory. Before
 * Linux 6.3 a tmpfs maps no ids: there only reading is tried, on the disk. */
static struct err *try_overlay(struct probe *p, unsigned have, bool mapped)
{
	struct err *e = p->disk >= 0 ? try_overlay_in(p, p->disk, have, mapped) : NULL;

	if (p->disk >= 0 && (!e || !is_disk_error(e)))
		return e;
	err_free(e);
	if (mapped && !maps_ids(p, p->memory))
		return try_mapped_layer(p);
	return try_overlay_in(p, p->memory, have, mapped);
}

static struct err *open_terminal(int pts, gid_t gid)
{
	autoclose master = openat(pts, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), slave = -1;
	struct stat st;
	int unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(errno, "open ptmx");
	slave = openat(pts, "0", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || fstat(slave, &st) < 0)
		return err_sys(errno, "open a terminal");
	if (st.st_gid != gid || (st.st_mode & ALLPERMS) != PTY_MODE)
		return err_new(ERR_UNSUPPORTED,
			       "a terminal has group %u and mode %04o instead of %u "
			       "and %04o",
			       st.st_gid, st.st_mode & ALLPERMS, gid, PTY_MODE);
	return NULL;
}

static struct err *try_pty(const struct probe *p)
{
	autofree char *options =
		xasprintf("newinstance,ptmxmode=0666,mode=%04o,gid=%u", PTY_MODE, p->last_id);
	autoclose at = -1, pts = -1;
	struct err *e = make_dir(p->memory, "pts", &at);
	char path[64];

	if (e)
		return e;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (mount("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC, options) < 0)
		return err_sys(errno, "mount devpts with gid=%u", p->last_id);
	e = open_dir(p->memory, "pts", &pts);
	return e ? e : open_terminal(pts, p->last_id);
}

/* In the child: it enters the group, says so, and waits for its end. */
static noreturn_fn void victim(const char *procs, int ready)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!file_write(AT_FDCWD, procs, "0"))
		(void)!write(ready, "", 1);
	for (;;)
		(void)pause();
}

static struct err *kill_group(const char *dir)
{
	autofree char *procs = xasprintf("%s/cgroup.procs", dir);
	autofree char *file = xasprintf("%s/cgroup.kill", dir);
	int ready[2];
	struct pollfd ps[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct err *e = NULL;
	char byte;
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(errno, "make a pipe");
	pid = fork();
	if (!pid)
		victim(procs, ready[1]);
	(void)close(ready[1]);
	ps[0].fd = (int)syscall(SYS_pidfd_open, pid, 0);
	ps[1].fd = ready[0];
	if (pid < 0 || ps[0].fd < 0)
		e = err_sys(errno, "create a process");
	else if (poll(&ps[1], 1, KILL_MS) != 1 || read(ready[0], &byte, 1) != 1)
		e = err_new(ERR_UNSUPPORTED, "a process cannot enter %s", dir);
	if (!e)
		e = file_write(AT_FDCWD, file, "1");
	if (!e && poll(&ps[0], 1, KILL_MS) != 1)
		e = err_new(ERR_UNSUPPORTED, "cgroup.kill does not kill");
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	(void)close(ready[0]);
	if (ps[0].fd >= 0)
		(void)close(ps[0].fd);
	return e;
}

static struct err *try_cgroup_kill(const struct probe *p)
{
	autofree char *dir = NULL;
	struct err *e;

	if (!p->group)
		return err_new(ERR_UNSUPPORTED, "no control groups of version 2 can be made");
	dir = xasprintf("%s/probe-%d", p->group, (int)p->pid);
	if (mkdir(dir, 0755) < 0)
		return err_sys(errno, "create control group %s", dir);
	e = kill_group(dir);
	(void)rmdir(dir); /* the process in it has been waited for */
	return e;
}

/* A kernel that gives any other error knows the question. */
static struct err *try_peer_pidfd(void)
{
	int pair[2], pidfd = -1;
	socklen_t len = sizeof(pidfd);
	struct err *e = NULL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(errno, "make a socket pair");
	if (getsockopt(pair[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len) < 0 && errno == ENOPROTOOPT)
		e = err_sys(errno, "ask a socket for its peer");
	if (pidfd >= 0)
		(void)close(pidfd);
	(void)close(pair[0]);
	(void)close(pair[1]);
	return e;
}

/* Lists no sockets at all; where the module is missing, the answer is an error instead of an end.
 */
static struct err *try_unix_diag(void)
{
	const struct {
		struct nlmsghdr head;
		struct unix_diag_req req;
	} q = {
		.head = { .nlmsg_len = sizeof(q),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.req = { .sdiag_family = AF_UNIX },
	};
	struct {
		struct nlmsghdr head;
		int error;
	} a = { 0 };
	autoclose fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

	if (fd < 0 || send(fd, &q, sizeof(q), 0) < 0 ||
	    recv(fd, &a, sizeof(a), MSG_DONTWAIT) < (ssize_t)sizeof(a))
		return err_sys(errno, "ask about local sockets");
	if (a.head.nlmsg_type == NLMSG_ERROR || a.error)
		return err_sys(-a.error, "ask about local sockets");
	return NULL;
}

static struct err *try_one(struct probe *p, enum feature f)
{
	switch (f) {
	case FEATURE_OVERLAY:
		return try_overlay(p, p->unsynced, false);
	case FEATURE_OVERLAY_APPEND:
		return try_overlay(p, p->unsynced | 1u << FEATURE_OVERLAY_APPEND, false);
	case FEATURE_OVERLAY_VOLATILE:
		return try_overlay(p, 1u << FEATURE_OVERLAY_VOLATILE, false);
	case FEATURE_OVERLAY_IDMAP:
		return try_overlay(p, p->unsynced, true);
	case FEATURE_IDMAP_DISK:
		return try_idmap(p, p->place);
	case FEATURE_IDMAP_TMPFS:
		return try_idmap(p, p->memory);
	case FEATURE_PTY:
		return try_pty(p);
	case FEATURE_CGROUP_KILL:
		return try_cgroup_kill(p);
	case FEATURE_PEER_PIDFD:
		return try_peer_pidfd();
	case FEATURE_UNIX_DIAG:
		return try_unix_diag();
	case FEATURE_MAX_:
		break;
	}
	return NULL;
}

static struct err *map_ids(pid_t pid, const char *file, uint32_t base)
{
	char path[64], map[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	(void)snprintf(map, sizeof(map), "0 %u %d", base, ID_RANGE);
	return file_write(AT_FDCWD, path, map);
}

/* A user namespace begins with a process; afterwards its descriptor holds it. */
static struct err *make_userns(struct probe *p)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
	struct err *e;
	char path[64];

	if (pid < 0)
		return err_sys(errno,
			       "create a user namespace (user.max_user_namespaces limits them)");
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	e = map_ids(pid, "uid_map", p->base);
	if (!e)
		e = map_ids(pid, "gid_map", p->base);
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	if (!e) {
		p->userns = open(path, O_RDONLY | O_CLOEXEC);
		e = p->userns < 0 ? err_sys(errno, "open the user namespace") : NULL;
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return e;
}

/* Where others may write too, what has the name may be theirs. */
static void open_disk(struct probe *p, const char *own)
{
	struct stat st;

	p->disk = openat(AT_FDCWD, own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (p->disk >= 0 && (fstat(p->disk, &st) < 0 || st.st_uid))
		(void)close(take_fd(p->disk));
}

static struct err *open_places(struct probe *p, const char *dir, const char *own)
{
	struct err *e;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0)
		return err_sys(errno, "create a mount namespace");
	e = open_dir(AT_FDCWD, dir, &p->place);
	if (e)
		return e;
	open_disk(p, own);
	if (mount("cay", "/dev", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=4m") < 0)
		return err_sys(errno, "mount tmpfs");
	e = open_dir(AT_FDCWD, "/dev", &p->memory);
	return e ? e : make_userns(p);
}

/* e: why nothing could be tried. */
static void print(const struct features *fs, const struct err *e)
{
	autoptr(json_doc) d = json_doc_new();
	autobuf out = { 0 };

	json_set_root(d, json_obj(d));
	if (e)
		json_set_str(d, json_root(d), FEATURES_UNTRIED, err_text(e));
	else
		features_write(fs, d, json_root(d));
	json_write(json_root(d), &out);
	buf_add_str(&out, "\n");
	err_free(fd_write_all(STDOUT_FILENO, buf_head(&out), out.len));
}

/* In the child, with which all of its mounts end. An overlay that is not volatile would end with a
 * sync of the whole file system, which may take long: where there is a choice, none is made. */
static noreturn_fn void probe_all(struct probe *p, const char *dir, const char *own)
{
	struct err *e = open_places(p, dir, own);
	struct features fs = { 0 };

	if (!e)
		features_note(&fs, FEATURE_OVERLAY_VOLATILE, try_one(p, FEATURE_OVERLAY_VOLATILE));
	p->unsynced = fs.have;
	for (enum feature f = 0; f < FEATURE_MAX_ && !e; f++)
		if (f != FEATURE_OVERLAY_VOLATILE)
			features_note(&fs, f, try_one(p, f));
	print(&fs, e);
	_exit(0);
}

int probe_main(const char *dir, const char *last_id, const char *group)
{
	struct probe p = {
		.pid = getpid(), .group = group, .place = -1, .disk = -1, .memory = -1, .userns = -1
	};
	autofree char *own = features_probe_dir(dir, (int)p.pid);
	autoptr(err) e = NULL;
	int status = -1;
	int64_t id;
	bool made;
	pid_t pid;

	e = parse_int(last_id, ID_RANGE, UINT32_MAX - 1, &id);
	if (e)
		return 1;
	p.last_id = (uint32_t)id;
	p.base = p.last_id - ID_RANGE + 1;
	(void)umask(022);
	err_free(file_remove_tree(AT_FDCWD, own)); /* of a process that had our number once */
	made = !mkdir(own, 0700);
	pid = fork();
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		probe_all(&p, dir, made ? own : "");
	}
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	err_free(file_remove_tree(AT_FDCWD, own));
	return status ? 1 : 0;
}
