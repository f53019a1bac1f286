/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "node/host/instance.h"
#include "node/image/image.h"
#include "node/node.h"
#include "node/pod/state.h"

/*
 * Which images sandboxes use, by the state files of their Pods: these name an image before its
 * layers are mounted, and stay while the daemon is away.
 */
struct search {
	struct map *used; /* image id → "namespace/pod" */
	int run_fd;
	struct err *failed;
};

static void free_text(void *text)
{
	free(text);
}

static void on_record(void *arg, const char *uid)
{
	struct search *s = arg;
	autoptr(arena) a = arena_new();
	struct pod_record r = { 0 };
	struct err *e = pod_record_load(s->run_fd, uid, a, &r);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e); /* it has ended just now */
		return;
	}
	if (e) {
		err_free(s->failed);
		s->failed = e;
		return;
	}
	for (size_t i = 0; i < r.n_containers; i++)
		if (r.containers[i].task.id)
			map_put(s->used, str_or(r.containers[i].image, IMAGE_ANY),
				xasprintf("%s/%s", r.ns, r.name));
}

struct err *node_images_used(const char *data_dir, struct map **ret)
{
	autoptr(instance) inst = NULL;
	autoclose run_fd = -1;
	autoptr(map) used = map_new(free_text);
	struct search s = { .used = used };
	struct err *e = instance_open(data_dir, NULL, false, &inst);

	if (e && !err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	if (inst)
		run_fd = open(inst->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s.run_fd = run_fd;
	if (run_fd >= 0)
		pod_records_each(inst->run_dir, on_record, &s);
	if (s.failed)
		return err_wrap(s.failed, "find out which images are in use");
	*ret = take(used);
	return NULL;
}
