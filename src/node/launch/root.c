/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/disk/disk.h"
#include "node/launch/launch_priv.h"

/*
 * The root of a sandbox. Below the stage, a tmpfs that only this slot sees:
 *
 *   dev/ proc/   made first, and moved into the root
 *   hosts ...    bound into /etc of the root; a plan fills them in
 *   l0/ l1/ ...  the image's layers, read-only, mapped to the slot's ids
 *   u/           the container's own directory (upper, work), mapped as well
 *   root/        the overlay of these; it becomes "/" and the rest goes away
 *   usr0/ usr1/  the layers of a second overlay, at /usr (host_usr.c)
 *
 * On disk everything is owned by the ids that the sandbox sees: the mapping is in the mounts, so a
 * volume does not care which id range its next user has.
 */
enum {
	LOWER_MAX = 2000, /* bytes of layer names in the options of a mount */
	/* The guest keeps its log within the limit; this is for one that does not. A hole is cut
	 * only after the file has grown, and the file system needs room for both. */
	LOG_DIR_PARTS = 2,
	LOG_DIR_MORE = 1 << 20, /* that the file system sets aside for its own with each change */
};

static struct err *make_file(int dir, const char *name, mode_t mode)
{
	autoclose fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	return fd < 0 ? err_sys(errno, "create %s", name) : NULL;
}

enum etc_file {
	ETC_HOSTS,
	ETC_HOSTNAME,
	ETC_RESOLV_CONF,
	ETC_FILE_MAX_,
};
static const char *const etc_names[ETC_FILE_MAX_] = {
	[ETC_HOSTS] = "hosts",
	[ETC_HOSTNAME] = "hostname",
	[ETC_RESOLV_CONF] = "resolv.conf",
};

/* Where ids cannot be mapped, what the sandbox's root user shall own is chowned to it. */
static struct err *give(struct slot *s, const char *name)
{
	if (!s->mapped && fchownat(s->dir_fd, name, s->spec->base, s->spec->base, 0) < 0)
		return err_sys(errno, "change the owner of %s", name);
	return NULL;
}

/* A part of the slot's directory that holds at most so many bytes; it is there if the directory was
 * kept for us. */
static struct err *make_part(struct slot *s, const char *name, int64_t limit, int *ret_fd)
{
	autofree char *path = xasprintf("%s/%s/%s", s->l->slots_dir, s->spec->name, name);
	struct err *e = s->l->disk->make(path, limit);
	bool kept = err_is(e, ERR_EXISTS);

	if (kept)
		err_free(e);
	else if (e)
		return e;
	/* By its path: only what is seen through our own mounts can be cloned. */
	*ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		return err_sys(errno, "open %s", path);
	return kept ? s->l->disk->limit(*ret_fd, limit) : NULL;
}

/* Two parts: the log must not be stopped by a layer that is full, nor fill it. */
static struct err *make_parts(struct slot *s)
{
	autofree char *path = xasprintf("%s/%s", s->l->slots_dir, s->spec->name);
	struct err *e;

	if (!s->l->disk->reuse(path) && mkdir(path, 0700) < 0)
		return err_sys(errno, "create directory %s", path);
	e = make_part(s, DISK_SLOT_LAYER, wall_stands("disk-layer") ? s->l->disk_limit : 0,
		      &s->dir_fd);
	if (!e)
		e = make_part(s, DISK_SLOT_LOGS,
			      wall_stands("disk-log")
				      ? LOG_DIR_PARTS * s->l->log_limit + LOG_DIR_MORE
				      : 0,
			      &s->log_fd);
	return e ? e : make_file(s->log_fd, "log", 0600);
}

/* The slot's directory; its layer (upper, work) is mounted as "u" below the stage. */
struct err *root_make_dir(struct slot *s)
{
	static const char *const dirs[] = { "upper", "work" };
	autoclose tree = -1, to = -1;
	struct err *e = make_parts(s);

	if (e)
		return e;
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(s->dir_fd, dirs[i], 0755) < 0)
			return err_sys(errno, "create directory %s", dirs[i]);
	to = openat(s->stage_fd, "u", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (to < 0)
		return err_sys(errno, "open the stage");
	e = mount_clone(s, s->dir_fd, false, CLONE_IDS_LAYER, &tree);
	if (!e)
		e = give(s, "upper");
	return e ? e : mount_move(tree, to);
}

struct err *stage_layer(struct slot *s, const char *layer, enum clone_ids ids, const char *name)
{
	autoclose from = open(layer, O_PATH | O_DIRECTORY | O_CLOEXEC), tree = -1, to = -1;
	struct err *e;

	if (from < 0)
		return err_sys(errno, "open layer %s", layer);
	if (mkdirat(s->stage_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "create %s below the stage", name);
	to = openat(s->stage_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	e = mount_clone(s, from, true, ids, &tree);
	return e ? e : mount_move(tree, to);
}

/* ret: the names of the layers below the stage, as an overlay wants them. */
static struct err *stage_layers(struct slot *s, const char **lower, char prefix, struct buf *ret)
{
	for (size_t n = 0; lower && lower[n]; n++) {
		char name[24];
		struct err *e;

		(void)snprintf(name, sizeof(name), "%c%zu", prefix, n);
		e = stage_layer(s, lower[n], CLONE_IDS_LAYER, name);
		if (e)
			return e;
		buf_printf(ret, "%s%s", n ? ":" : "", name);
		if (ret->len > LOWER_MAX)
			return err_new(ERR_EXHAUSTED, "image has more than %zu layers", n);
	}
	return NULL;
}

/* What a name is in the image; without a mode: it has none. The topmost layer that has the name
 * decides, be it with the device that hides what others below have. Links lead nowhere else than
 * within their layer. */
static struct stat look_in_image(const struct slot *s, const struct plan_image *image, char prefix,
				 const char *name)
{
	struct stat st = { 0 };

	for (size_t n = 0; image->lower && image->lower[n]; n++) {
		autoclose layer = -1, fd = -1;
		char at[24];
		struct err *e;

		(void)snprintf(at, sizeof(at), "%c%zu", prefix, n);
		layer = openat(s->stage_fd, at, O_PATH | O_DIRECTORY | O_CLOEXEC);
		e = file_open_in_root(layer, name, O_PATH | O_NOFOLLOW, 0, &fd);
		if (!e)
			return fstat(fd, &st) < 0 ? (struct stat){ 0 } : st;
		err_free(e);
	}
	return st;
}

static mode_t type_in_image(const struct slot *s, const struct plan_image *image, char prefix,
			    const char *name)
{
	return look_in_image(s, image, prefix, name).st_mode & S_IFMT;
}

/* The place of the identity socket, for the sandboxes that have one. A /run that is unlike others
 * is not covered: there it is made when it is needed. */
static void make_identity_place(const struct slot *s, const struct plan_image *image, char prefix,
				int upper)
{
	const struct stat run = look_in_image(s, image, prefix, "run");

	if (type_in_image(s, image, prefix, "run/cay") == S_IFDIR)
		return;
	if (run.st_mode &&
	    (run.st_mode != (S_IFDIR | 0755) || (run.st_uid != s->spec->base && run.st_uid)))
		return;
	if (!mkdirat(upper, "run", 0755) || errno == EEXIST)
		(void)mkdirat(upper, "run/cay", 0755);
}

/*
 * Makes the mount points that the image lacks in the upper directory, before anything sees it
 * through the overlay, where making them would cost more. What is in the way of a mount point, such
 * as a link that leads nowhere, is hidden by it. What is missing after all is made when something
 * is mounted there.
 */
static struct err *fill_upper(struct slot *s, const struct plan_image *image, char prefix)
{
	static const char *const dirs[] = { "dev", "proc", "sys", "etc" };
	autoclose upper = openat(s->dir_fd, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool has_etc = type_in_image(s, image, prefix, "etc") == S_IFDIR;
	struct err *e = upper < 0 ? err_sys(errno, "open the slot's directory") : NULL;

	for (size_t i = 0; i < ARRAY_LEN(dirs) && !e; i++)
		if (type_in_image(s, image, prefix, dirs[i]) != S_IFDIR &&
		    mkdirat(upper, dirs[i], 0755) < 0 && errno != EEXIST)
			e = err_sys(errno, "create /%s", dirs[i]);
	for (size_t i = 0; i < ARRAY_LEN(etc_names) && !e; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "etc/%s", etc_names[i]);
		if (file_exists(upper, path) ||
		    (has_etc && type_in_image(s, image, prefix, path) == S_IFREG))
			continue;
		if (mkdirat(upper, "etc", 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "create /etc");
		e = make_file(upper, path, 0644);
	}
	if (!e)
		make_identity_place(s, image, prefix, upper);
	return e;
}

struct err *become(uint32_t id)
{
	(void)setfsgid(id);
	(void)setfsuid(id);
	return capabilities_raise();
}

/* One by one: fsconfig() takes no more at a time than the names of 66 layers. */
static int append_lower(int fs, const char *lower)
{
	struct span rest = SPAN(lower);
	int r = 0;

	while (rest.p && !r) {
		struct span part = span_cut(rest, ':', &rest);
		char name[24];

		(void)snprintf(name, sizeof(name), "%.*s", (int)part.len, part.p);
		r = fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir+", name, 0);
	}
	return r;
}

static struct err *mount_configured(const struct overlay *o, bool append, bool unsynced, int to)
{
	autoclose fs = fsopen("overlay", FSOPEN_CLOEXEC), mnt = -1;

	if (fs < 0)
		return err_sys(errno, "open overlay");
	if (fsconfig(fs, FSCONFIG_SET_STRING, "source", "cay", 0) < 0 ||
	    (append ? append_lower(fs, o->lower)
		    : fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", o->lower, 0)) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", o->upper, 0) < 0 ||
	    fsconfig(fs, FSCONFIG_SET_STRING, "workdir", o->work, 0) < 0 ||
	    (unsynced && fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0))
		return err_sys(errno, "configure overlay");
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_sys(errno, "create overlay");
	mnt = fsmount(fs, FSMOUNT_CLOEXEC, mount_flags(MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
	if (mnt < 0)
		return err_sys(errno, "mount overlay");
	return mount_move(mnt, to);
}

/* All options in one text, which may be a page long. It needs a proc, which a view does not have
 * while it is built; but a view has few layers, whose names fit into what fsconfig() takes. */
static struct err *mount_joined(const struct overlay *o, bool unsynced, int to)
{
	autofree char *options = xasprintf("lowerdir=%s,upperdir=%s,workdir=%s%s", o->lower,
					   o->upper, o->work, unsynced ? ",volatile" : "");
	char at[64];

	(void)snprintf(at, sizeof(at), "/proc/self/fd/%d", to);
	if (mount("cay", at, "overlay", mount_flags(MS_NOSUID | MS_NODEV), options) < 0)
		return err_sys(errno, "mount overlay");
	return NULL;
}

/* volatile: otherwise the end of every sandbox would sync the file system that holds its upper. */
struct err *mount_overlay(const struct features *fs, const struct overlay *o, int to)
{
	bool unsynced = features_have(fs, FEATURE_OVERLAY_VOLATILE);
	bool append = features_have(fs, FEATURE_OVERLAY_APPEND);

	return append || !file_exists(AT_FDCWD, "/proc/self/fd")
		       ? mount_configured(o, append, unsynced, to)
		       : mount_joined(o, unsynced, to);
}

static struct err *mount_root(struct slot *s, const char *lower, bool again)
{
	const struct overlay o = { lower, "u/upper", again ? "u/work2" : "u/work" };
	autoclose at = openat(s->stage_fd, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct err *e =
		at < 0 ? err_sys(errno, "open the stage") : mount_overlay(&s->l->features, &o, at);

	if (e)
		return e;
	s->root_fd = openat(s->stage_fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->root_fd < 0 ? err_sys(errno, "open the new root") : NULL;
}

static struct err *move_into(struct slot *s, const char *name, int root)
{
	autoclose to = -1;
	struct err *e = root_open_target(s, root, name, false, &to);

	if (e)
		return e;
	if (move_mount(s->stage_fd, name + 1, to, "", MOVE_MOUNT_T_EMPTY_PATH) < 0)
		return err_sys(errno, "move %s into the root", name);
	return NULL;
}

/* On our tmpfs, where a file costs nothing, and bound over the empty one in the root. */
static struct err *place_etc_file(struct slot *s, const char *name)
{
	autofree char *to_path = xasprintf("/etc/%s", name);
	autoclose fd = openat(s->stage_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	autoclose tree = -1, to = -1;
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create %s", name);
	e = root_open_target(s, s->root_fd, to_path, true, &to);
	if (e)
		return e;
	tree = open_tree(s->stage_fd, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return tree < 0 ? err_sys(errno, "clone %s", name) : mount_move(tree, to);
}

/* What every root has. */
static struct err *place_parts(struct slot *s)
{
	struct err *e = move_into(s, "/dev", s->root_fd);

	if (!e)
		e = move_into(s, "/proc", s->root_fd);
	for (size_t i = 0; i < ARRAY_LEN(etc_names) && !e; i++)
		e = place_etc_file(s, etc_names[i]);
	return e;
}

/* Below the stage again, where one of them may still be. */
static void take_back(struct slot *s)
{
	static const char *const names[] = { "dev", "proc" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)move_mount(s->root_fd, names[i], s->stage_fd, names[i], 0);
}

/* again: another image was expected; its overlay is dropped, and the untouched upper is reused, but
 * not its working directory, which a volatile overlay leaves marked. An overlay works with the
 * identity of whoever mounted it, and a mapped upper has no ids of the host. */
struct err *root_mount_image(struct slot *s, const struct plan_image *image, bool again)
{
	char prefix = again ? 'm' : 'l';
	autobuf lower = { 0 };
	struct err *e;

	s->root_ready = false;
	if (again && s->root_fd >= 0) {
		take_back(s);
		(void)close(take_fd(s->root_fd));
		(void)umount2("root", MNT_DETACH);
	}
	e = become(0);
	if (!e && again && mkdirat(s->dir_fd, "work2", 0755) < 0)
		e = err_sys(errno, "create directory work2");
	if (!e)
		e = stage_layers(s, image->lower, prefix, &lower);
	if (!e)
		e = fill_upper(s, image, prefix);
	if (!e && image->usr)
		e = host_usr_stage(s, image->usr, again);
	if (!e)
		e = become(s->spec->base);
	if (!e)
		e = mount_root(s, buf_str(&lower), again);
	if (!e && image->host_usr)
		e = host_usr_mount(s, image->usr != NULL, again);
	if (!e)
		e = place_parts(s);
	s->root_ready = !e;
	return e;
}

static struct err *make_readonly(const struct slot *s, const struct plan *plan, int root)
{
	static const char *const below[] = { "/usr", "/usr/local" };
	struct mount_attr ro = { .attr_set = MOUNT_ATTR_RDONLY };
	struct err *e = NULL;

	if (mount_setattr(root, "", AT_EMPTY_PATH, &ro, sizeof(ro)) < 0)
		return err_sys(errno, "make the root read-only");
	for (size_t i = 0; i < ARRAY_LEN(below) && plan->image.host_usr && !e; i++) {
		autoclose fd = -1;

		e = root_open_target(s, root, below[i], false, &fd);
		if (!e && mount_setattr(fd, "", AT_EMPTY_PATH, &ro, sizeof(ro)) < 0)
			e = err_sys(errno, "make %s read-only", below[i]);
	}
	return e;
}

static struct err *write_etc(struct slot *s, const char *name, const char *text)
{
	autoclose fd = openat(s->stage_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(errno, "open %s", name) : fd_write_all(fd, text, strlen(text));
}

/* Below the root, whatever links there are. Where it cannot be made, going there fails, and the
 * guest says so. */
static void make_workdir(const struct slot *s, int root, const char *path)
{
	autoclose dir = -1;

	if (path)
		err_free(root_open_target(s, root, path, false, &dir));
}

static struct err *fill_root(struct slot *s, const struct plan *plan)
{
	const char *const texts[ETC_FILE_MAX_] = {
		[ETC_HOSTNAME] = plan->etc_hostname,
		[ETC_HOSTS] = plan->etc_hosts,
		[ETC_RESOLV_CONF] = plan->etc_resolv_conf,
	};
	struct err *e = NULL;

	for (size_t i = 0; i < ARRAY_LEN(etc_names) && !e; i++)
		e = write_etc(s, etc_names[i], str_or(texts[i], ""));
	if (!e)
		e = root_mount_volumes(s, s->root_fd, plan);
	if (!e)
		make_workdir(s, s->root_fd, plan->workdir);
	if (!e && plan->readonly && wall_stands("root-read-only"))
		e = make_readonly(s, plan, s->root_fd);
	return e;
}

struct err *root_pivot(int root)
{
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(errno, "change the root");
	if ((wall_stands("old-root") && umount2(".", MNT_DETACH) < 0) || chdir("/") < 0)
		return err_sys(errno, "leave the old root");
	return NULL;
}

/* A layer may have been removed, and come back, since the slot was parked: then the overlay that it
 * has is of files that are gone. */
static bool layer_stands(const struct slot *s, const char *name, const char *layer)
{
	struct stat here, there;

	return fstatat(s->stage_fd, name, &here, 0) == 0 && stat(layer, &there) == 0 &&
	       here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

static bool layers_stand(const struct slot *s, const struct plan_image *image)
{
	for (size_t n = 0; image->lower && image->lower[n]; n++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "l%zu", n);
		if (!layer_stands(s, name, image->lower[n]))
			return false;
	}
	return !image->usr || layer_stands(s, HOST_USR_LAYER, image->usr);
}

struct err *root_complete(struct slot *s, const struct plan *plan)
{
	struct err *e = NULL;

	if (!s->root_ready || !plan_image_equal(&plan->image, &s->spec->image) ||
	    !layers_stand(s, &plan->image))
		e = root_mount_image(s, &plan->image, true);
	return e ? e : fill_root(s, plan);
}
