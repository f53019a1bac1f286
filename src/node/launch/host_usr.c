/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/wall.h"
#include "node/launch/launch_priv.h"

/*
 * The machine's /usr in a sandbox. Its files belong to nobody inside: what only root of the machine
 * may read, root of a sandbox may not. It is mounted read-only, or as the lowest part of an
 * overlay:
 *
 *   u/usr   what the sandbox writes, in its own layer, within its limit
 *   usr0    the directories of /usr, empty, and owned by root of the sandbox: part of the image
 *   usr1    the machine's /usr
 *
 * The attributes of a directory are those of the topmost one, so root of the sandbox creates and
 * removes names there; a file that is not its own has the attributes that it has on the machine,
 * and stays the machine's.
 */
#define HOST_USR "usr1"

static enum clone_ids ids_of_files(void)
{
	return wall_stands("host-usr-ids") ? CLONE_IDS_HOST : CLONE_IDS_SLOT;
}

/* A volatile overlay leaves its working directory marked, so the next one has its own. */
static const char *work_name(bool again)
{
	return again ? "usr-work2" : "usr-work";
}

struct err *host_usr_stage(struct slot *s, const char *layer, bool again)
{
	const char *const dirs[] = { "usr", work_name(again) };
	struct stat upper;
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(s->dir_fd, dirs[i], 0755) < 0 && errno != EEXIST)
			return err_sys(errno, "create directory %s", dirs[i]);
	/* Whoever owns the root's upper directory: that depends on whether ids can be mapped. */
	if (fstatat(s->dir_fd, "upper", &upper, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchownat(s->dir_fd, "usr", upper.st_uid, upper.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "change the owner of usr");
	e = stage_layer(s, layer, CLONE_IDS_LAYER, HOST_USR_LAYER);
	return e ? e : stage_layer(s, "/usr", ids_of_files(), HOST_USR);
}

static struct err *mount_writable(const struct slot *s, int to, bool again)
{
	autofree char *work = xasprintf("u/%s", work_name(again));

	return mount_overlay(&s->l->features,
			     &(struct overlay){ HOST_USR_LAYER ":" HOST_USR, "u/usr", work }, to);
}

static struct err *bind_read_only(struct slot *s, int usr, int to)
{
	autoclose tree = -1;
	struct err *e = mount_clone(s, usr, true, ids_of_files(), &tree);

	return e ? e : mount_move(tree, to);
}

/* Not what the machine's administrator put into /usr/local: that is the image's own, brought back
 * on top. */
struct err *host_usr_mount(struct slot *s, bool writable, bool again)
{
	autoclose usr = open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC);
	autoclose under = -1, at = -1, local = -1, to = -1;
	struct err *e;

	if (usr < 0)
		return err_sys(errno, "open /usr");
	e = root_open_target(s, s->root_fd, "/usr/local", false, &under);
	if (!e)
		e = root_open_target(s, s->root_fd, "/usr", false, &at);
	if (!e)
		e = writable ? mount_writable(s, at, again) : bind_read_only(s, usr, at);
	if (e || (!writable && faccessat(usr, "local", F_OK, 0) < 0))
		return e;
	local = open_tree(under, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (local < 0)
		return err_sys(errno, "clone /usr/local");
	e = root_open_target(s, s->root_fd, "/usr/local", false, &to);
	return e ? e : mount_move(local, to);
}
