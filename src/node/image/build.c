/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/image/build_priv.h"

/*
 * Images from Debian packages. The same recipe and the same packages always become the same image:
 * packages in order, no script that could look at the machine, no time that is not in the input.
 */
enum {
	TICK_MS = 200,
};

static void on_signal(void *arg, int signum)
{
	struct build *b = arg;

	b->stopped = true;
	if (b->child)
		child_kill(b->child, signum);
}

static void on_tick(void *arg)
{
	struct build *b = arg;
	const struct image_progress *p = b->spec->progress;

	p->report(p->arg, "unpacking packages", b->unpacked);
	timer_set(b->tick, TICK_MS);
}

static void fill_work(void *arg)
{
	struct build *b = arg;

	b->failed = build_fill_root(b);
}

static void fill_done(void *arg)
{
	struct build *b = arg;

	loop_stop(b->loop);
}

static struct err *fill_root(struct build *b)
{
	if (mkdirat(b->work_fd, "root", 0755) < 0)
		return err_sys(errno, "create directory root");
	b->root = openat(b->work_fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (b->root < 0 || fchmod(b->root, 0755) < 0)
		return err_sys(errno, "open directory root");
	if (b->spec->progress) {
		b->tick = timer_new(b->loop, on_tick, b);
		timer_set(b->tick, TICK_MS);
	}
	job_run(b->loop, fill_work, fill_done, b);
	loop_run(b->loop);
	timer_free(take(b->tick));
	return take(b->failed);
}

static struct err *publish(struct build *b, struct json_doc **ret)
{
	autofree char *dir = xasprintf("%s/root", b->work);
	autofree char *config = recipe_config(b->spec->recipe);
	struct import_root from = { .data_dir = b->spec->data_dir,
				    .name = b->name,
				    .source = b->spec->source,
				    .dir = dir,
				    .config = config,
				    .size = b->size,
				    .progress = b->spec->progress };
	time_t when = (time_t)b->epoch;
	struct tm tm;

	(void)gmtime_r(&when, &tm);
	(void)strftime(from.created, sizeof(from.created), "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (b->stopped)
		return err_new(ERR_CANCELED, "stopped by a signal");
	return import_built(&from, ret);
}

static struct err *run(struct build *b, struct json_doc **ret)
{
	static const int signums[] = { SIGINT, SIGTERM, SIGHUP };
	struct signal_watch *watches[ARRAY_LEN(signums)];
	struct err *e;

	for (size_t i = 0; i < ARRAY_LEN(signums); i++)
		watches[i] = signal_watch_new(b->loop, signums[i], on_signal, b);
	e = build_find_packages(b);
	if (!e)
		e = fill_root(b);
	for (size_t i = 0; i < ARRAY_LEN(signums); i++)
		signal_watch_free(watches[i]);
	return e ? e : publish(b, ret);
}

static struct err *read_epoch(int64_t *ret)
{
	const char *text = getenv("SOURCE_DATE_EPOCH");
	struct err *e = str_empty(text) ? NULL : parse_int(text, 0, INT32_MAX, ret);

	return err_wrap(e, "read the variable SOURCE_DATE_EPOCH");
}

static struct err *begin(struct build *b)
{
	autoclose lock = -1;
	struct err *e = names_lock(b->spec->data_dir, &lock);

	if (!e)
		e = work_new(b->spec->data_dir, &b->work, &b->work_fd);
	return e ? e : loop_new(&b->loop);
}

static void end(struct build *b)
{
	if (b->work)
		err_free(file_remove_tree(AT_FDCWD, b->work)); /* or the next command does it */
	for (size_t i = 0; i < b->n_debs; i++)
		free(b->debs[i]);
	free(b->debs);
	auto_close_(&b->root);
	auto_close_(&b->work_fd);
	loop_free(b->loop);
	free(b->work);
	free(b->name);
}

static struct err *check_name(struct build *b)
{
	const char *name = str_or(b->spec->name, json_get_str(b->spec->recipe, "name"));

	return name ? name_to_give(name, &b->name)
		    : err_new(ERR_INVALID, "the image has no name; give it one with -t NAME");
}

struct err *image_build(const struct image_build *spec, struct json_doc **ret)
{
	struct build b = { .spec = spec, .work_fd = -1, .root = -1 };
	struct err *e = recipe_check(spec->recipe);

	if (!e)
		e = check_name(&b);
	if (!e)
		e = read_epoch(&b.epoch);
	if (!e)
		e = begin(&b);
	if (!e)
		e = run(&b, ret);
	end(&b);
	return err_wrap(e, "build %s", spec->source);
}
