/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay explain`: why a sandbox is slow, pending or refused. Walks from the claim to the Sandbox,
 * its Pod and volumes, the events of all of them, and the node; collects what happened when, and
 * what is wrong with what to change. Whatever cannot be read is left out: an explanation with gaps
 * is better than none.
 *
 * Events outlive what they are about, and names are used again: an event belongs to the story if
 * it names the uid of an object that is there now.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/agents.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/parse.h"
#include "cli/sandbox/sandbox_priv.h"

enum {
	STEPS_MAX = 200,
	PROBLEMS_MAX = 50,
	UIDS_MAX = 32,
};

const struct setting explain_settings[] = {
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

struct step {
	usec at;
	char *object, *what;
	size_t order; /* in which it was found: times are often the same second */
};

struct problem {
	char *object, *reason, *message;
	const char *fix;
};

struct story {
	struct remote *r;
	struct named target;
	struct json_doc *pod, *node, *events; /* NULL: not readable */
	bool ready;
	usec begin; /* of the claim, or of the Sandbox */
	struct step steps[STEPS_MAX];
	size_t n_steps;
	struct problem problems[PROBLEMS_MAX];
	size_t n_problems;
	char *uids[UIDS_MAX]; /* of the objects that the story is about */
	size_t n_uids;
};

/* What a person can do about a reason. */
static const char *fix_of(const char *reason)
{
	static const struct {
		const char *reason, *fix;
	} fixes[] = {
		{ "WarmPoolNotFound", "create the pool, or name another one in spec.warmPoolRef" },
		{ "TemplateNotFound",
		  "create the template, or name another one in the pool's spec.sandboxTemplateRef" },
		{ "EnvVarsInjectionRejected",
		  "set envVarsInjectionPolicy of the template, or leave spec.env out of the claim" },
		{ "VolumeClaimTemplatesError",
		  "set volumeClaimTemplatesPolicy of the template, or leave spec.volumeClaimTemplates out of the claim" },
		{ "InvalidMetadata", "change spec.additionalPodMetadata of the claim" },
		{ "ErrImagePull",
		  "cay image ls shows the images that are here; pull, import or tag this one" },
		{ "ImagePullBackOff",
		  "cay image ls shows the images that are here; pull, import or tag this one" },
		{ "ErrImageNeverPull", "import the image, or change imagePullPolicy" },
		{ "InvalidImageName", "correct the name of the image in the Pod template" },
		{ "CrashLoopBackOff",
		  "the command ends again and again: see cay logs NAME --previous" },
		{ "BackOff", "the command ends again and again: see cay logs NAME --previous" },
		{ "CreateContainerConfigError",
		  "create the Secret, ConfigMap or key that the Pod template names" },
		{ "CreateContainerError", "correct what the message names in the Pod template" },
		{ "FailedMount", "create the volume, Secret or ConfigMap that the message names" },
		{ "FailedBinding", "see the PersistentVolumeClaim: kubectl describe pvc" },
		{ "FailedScheduling", "make room, or ask for less in the Pod template" },
		{ "OutOfpods", "delete sandboxes, or raise cay serve --max-pods" },
		{ "OutOfcpu", "delete sandboxes, or ask for less CPU in the Pod template" },
		{ "OutOfmemory", "delete sandboxes, or ask for less memory in the Pod template" },
		{ "OOMKilled", "raise resources.limits.memory of the Pod template" },
		{ "Evicted",
		  "the node ran short of what the message names; lower limits or delete sandboxes" },
		{ "Unhealthy", "the probe fails: correct it, or what it asks in the container" },
		{ "SandboxSuspended", "wake it: cay resume NAME" },
		{ "SandboxExpired", "its shutdownTime has passed: change that, or make a new one" },
		{ "ClaimExpired", "its shutdownTime has passed: make a new claim" },
		{ "PodSucceeded",
		  "its command has ended: see cay logs NAME; a sandbox needs one that stays" },
		{ "PodFailed", "its command has failed: see cay logs NAME" },
		{ "SandboxMissing", "its sandbox was deleted: make a new claim" },
		{ "DiskPressure", "free disk space on the node, or give it a larger pool" },
		{ "MemoryPressure", "delete sandboxes, or lower their memory" },
		{ "PacketFilterReady", "see cay doctor on the node" },
		{ "Ready", "see the log of cay serve, and cay doctor, on the node" },
	};

	for (size_t i = 0; reason && i < ARRAY_LEN(fixes); i++)
		if (str_eq(fixes[i].reason, reason))
			return fixes[i].fix;
	return NULL;
}

/* Collecting */

static void add_step(struct story *s, const char *at, const char *object, const char *what)
{
	struct step *one = &s->steps[s->n_steps];
	usec when;
	struct err *e;

	if (s->n_steps == STEPS_MAX || str_empty(at))
		return;
	e = clock_parse(at, &when);
	if (e) {
		err_free(e);
		return;
	}
	*one = (struct step){ when, xstrdup(object), xstrdup(what), s->n_steps };
	s->n_steps++;
}

static void add_problem(struct story *s, const char *object, const char *reason,
			const char *message)
{
	struct problem *one = &s->problems[s->n_problems];

	if (s->n_problems == PROBLEMS_MAX)
		return;
	for (size_t i = 0; i < s->n_problems; i++)
		if (str_eq(s->problems[i].object, object) && str_eq(s->problems[i].reason, reason))
			return; /* once is enough */
	*one = (struct problem){ xstrdup(object), xstrdup(str_or(reason, "no reason given")),
				 xstrdup(str_or(message, "")), fix_of(reason) };
	s->n_problems++;
}

static void add_uid(struct story *s, const struct json *object)
{
	const char *uid = json_str(json_at_path(object, "metadata.uid"));

	if (!str_empty(uid) && s->n_uids < UIDS_MAX)
		s->uids[s->n_uids++] = xstrdup(uid);
}

/* Conditions that became true are steps; one that keeps it from being Ready is a problem. */
static void add_conditions(struct story *s, const struct json *object, const char *label)
{
	json_each(it, json_at_path(object, "status.conditions")) {
		const char *type = str_or(json_get_str(it.val, "type"), "?");
		bool holds = str_eq(json_get_str(it.val, "status"), "True");
		autofree char *what =
			xasprintf("%s is %s", type, str_or(json_get_str(it.val, "status"), "?"));

		if (holds)
			add_step(s, json_get_str(it.val, "lastTransitionTime"), label, what);
		if (!holds && str_eq(type, "Ready"))
			add_problem(s, label, json_get_str(it.val, "reason"),
				    json_get_str(it.val, "message"));
	}
}

static void read_claim(struct story *s)
{
	const struct json *root = json_root(s->target.claim_doc);
	const struct json *notes = json_at_path(root, "metadata.annotations");
	autofree char *label = xasprintf("claim/%s", s->target.name);
	const char *created = json_str(json_at_path(root, "metadata.creationTimestamp"));

	if (!s->target.claim_doc)
		return;
	add_uid(s, root);
	add_step(s, str_or(json_get_str(notes, KEY_FIRST_OBSERVED), created), label,
		 "the controller saw it");
	add_step(s, json_get_str(notes, KEY_FIRST_READY), label, "Ready for the first time");
	if (!is_ready(root))
		add_conditions(s, root, label);
	s->ready = is_ready(root);
}

static void read_sandbox(struct story *s)
{
	const struct json *root = json_root(s->target.doc);
	autofree char *label = xasprintf("sandbox/%s", str_or(s->target.sandbox, "?"));
	bool warm = str_eq(json_get_str(json_at_path(root, "metadata.labels"), KEY_LAUNCH_TYPE),
			   "warm");

	if (!s->target.doc)
		return;
	add_uid(s, root);
	add_step(s, json_str(json_at_path(root, "metadata.creationTimestamp")), label,
		 s->target.claim && warm ? "created, to wait for a claim" : "created");
	add_conditions(s, root, label);
	if (str_eq(json_str(json_at_path(root, "spec.operatingMode")), "Suspended"))
		add_problem(s, label, "SandboxSuspended", "spec.operatingMode is Suspended");
	s->ready = is_ready(root);
}

static void read_container(struct story *s, const struct json *c)
{
	const struct json *state = json_get(c, "state");
	const struct json *waiting = json_get(state, "waiting");
	const struct json *ended = json_get(state, "terminated");
	const struct json *before = json_at_path(c, "lastState.terminated");
	autofree char *label = xasprintf("container/%s", str_or(json_get_str(c, "name"), "?"));

	add_step(s, json_str(json_at_path(state, "running.startedAt")), label, "started");
	if (waiting)
		add_problem(s, label, json_get_str(waiting, "reason"),
			    json_get_str(waiting, "message"));
	for (size_t i = 0; i < 2; i++) {
		const struct json *end = i ? before : ended;
		autofree char *what = xasprintf("ended with exit code %lld",
						(long long)json_get_int(end, "exitCode", 0));

		if (end)
			add_step(s, json_get_str(end, "finishedAt"), label, what);
		if (end && json_get_int(end, "exitCode", 0))
			add_problem(s, label, json_get_str(end, "reason"), what);
	}
}

static void read_volumes(struct story *s)
{
	json_each(it, json_at_path(json_root(s->pod), "spec.volumes")) {
		const char *name =
			json_str(json_at_path(it.val, "persistentVolumeClaim.claimName"));
		autofree char *path = path_volume_claims(s->target.ns, str_or(name, "-"));
		autoptr(json_doc) doc = NULL;

		if (!name || s->n_uids == UIDS_MAX)
			continue;
		err_free(remote_get(s->r, path, &doc)); /* it may be what is missing */
		if (doc)
			add_uid(s, json_root(doc));
	}
}

static void read_pod(struct story *s)
{
	autofree char *path = path_pods(s->target.ns, str_or(s->target.pod, "-"));
	autofree char *label = xasprintf("pod/%s", str_or(s->target.pod, "?"));
	const struct json *root;

	if (!s->target.pod)
		return;
	err_free(remote_get(s->r, path, &s->pod)); /* there may be none */
	root = json_root(s->pod);
	if (!s->pod)
		return;
	add_uid(s, root);
	add_step(s, json_str(json_at_path(root, "metadata.creationTimestamp")), label, "created");
	add_step(s, json_str(json_at_path(root, "status.startTime")), label, "the node took it");
	add_conditions(s, root, label);
	json_each(it, json_at_path(root, "status.initContainerStatuses"))
		read_container(s, it.val);
	json_each(it, json_at_path(root, "status.containerStatuses"))
		read_container(s, it.val);
}

static bool concerns(const struct story *s, const struct json *about)
{
	const char *uid = json_get_str(about, "uid");

	for (size_t i = 0; uid && i < s->n_uids; i++)
		if (str_eq(s->uids[i], uid))
			return true;
	return false;
}

static void read_events(struct story *s)
{
	autofree char *path = xasprintf("/api/v1/namespaces/%s/events", s->target.ns);

	err_free(remote_get(s->r, path, &s->events));
	json_each(it, json_get(json_root(s->events), "items")) {
		const struct json *about = json_get(it.val, "involvedObject");
		const char *reason = json_get_str(it.val, "reason");
		const char *message = str_or(json_get_str(it.val, "message"), "");
		autofree char *label =
			xasprintf("event/%s", str_or(json_get_str(about, "name"), "?"));
		autofree char *what = xasprintf("%s: %s", str_or(reason, "?"), message);

		if (!concerns(s, about))
			continue;
		add_step(s,
			 str_or(json_get_str(it.val, "eventTime"),
				str_or(json_get_str(it.val, "lastTimestamp"),
				       json_get_str(it.val, "firstTimestamp"))),
			 label, what);
		if (!s->ready && str_eq(json_get_str(it.val, "type"), "Warning"))
			add_problem(s, label, reason, message);
	}
}

static void read_node(struct story *s)
{
	const char *name = json_str(json_at_path(json_root(s->pod), "spec.nodeName"));
	autofree char *encoded = url_encode(str_or(name, ""));
	autofree char *path = xasprintf("/api/v1/nodes/%s", encoded);
	autofree char *label = xasprintf("node/%s", str_or(name, "?"));

	if (!name)
		return;
	err_free(remote_get(s->r, path, &s->node)); /* not everybody may */
	json_each(it, json_at_path(json_root(s->node), "status.conditions")) {
		const char *type = str_or(json_get_str(it.val, "type"), "");
		bool holds = str_eq(json_get_str(it.val, "status"), "True");

		if (holds == str_ends(type, "Pressure"))
			add_problem(s, label, type, json_get_str(it.val, "message"));
	}
}

/* Telling */

static int by_time(const void *a, const void *b)
{
	const struct step *x = a, *y = b;
	int r = (x->at > y->at) - (x->at < y->at);

	return r ? r : (x->order > y->order) - (x->order < y->order);
}

static usec begin_of(const struct story *s)
{
	const struct json_doc *doc = s->target.claim_doc ? s->target.claim_doc : s->target.doc;
	const struct json *root = json_root(doc);
	const char *seen =
		json_get_str(json_at_path(root, "metadata.annotations"), KEY_FIRST_OBSERVED);
	usec at = 0;

	err_free(clock_parse(
		str_or(seen,
		       str_or(json_str(json_at_path(root, "metadata.creationTimestamp")), "")),
		&at)); /* 0: then times are absolute, which is ugly and true */
	return at;
}

static void tell_text(const struct story *s)
{
	static const char *const heads[] = { "AFTER", "WHERE", "WHAT", NULL };
	bool colour = term_has_colour(STDOUT_FILENO);
	autoptr(grid) g = grid_new(heads);
	autobuf out = { 0 };

	for (size_t i = 0; i < s->n_steps; i++) {
		/* Most times are in whole seconds: more digits would claim too much. */
		bool exact = s->steps[i].at % 1000000 != 0;
		autofree char *after = xasprintf(exact ? "%+.3fs" : "%+.0fs",
						 (double)(s->steps[i].at - s->begin) / 1e6);

		grid_cell(g, TERM_DIM, after);
		grid_cell(g, TERM_PLAIN, s->steps[i].object);
		grid_cell(g, TERM_PLAIN, s->steps[i].what);
	}
	grid_write(g, true, colour, &out);
	buf_printf(&out, "\n%s%s is %s%s\n", colour ? s->ready ? "\033[32m" : "\033[31m" : "",
		   s->target.name, s->ready ? "Ready" : "not Ready", colour ? "\033[0m" : "");
	for (size_t i = 0; i < s->n_problems; i++) {
		const struct problem *p = &s->problems[i];
		autofree char *text = xasprintf("%s: %s: %s", p->object, p->reason, p->message);

		cli_disarm(text, '\0');
		buf_printf(&out, "  %s\n", text);
		if (p->fix)
			buf_printf(&out, "    fix: %s\n", p->fix);
	}
	cli_write(&out);
}

static void tell_json(const struct story *s, const char *format)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *steps, *problems;

	json_set_root(d, o);
	json_set_str(d, o, "name", s->target.name);
	json_set_str(d, o, "claim", s->target.claim);
	json_set_str(d, o, "sandbox", s->target.sandbox);
	json_set_bool(d, o, "ready", s->ready);
	steps = json_need_arr(d, o, "steps");
	problems = json_need_arr(d, o, "problems");
	for (size_t i = 0; i < s->n_steps; i++) {
		struct json *one = json_obj(d);
		char at[CLOCK_TEXT_MAX];

		clock_format_micro(s->steps[i].at, at);
		json_set_str(d, one, "at", at);
		(void)json_set(d, one, "after_s",
			       json_new_real(d, (double)(s->steps[i].at - s->begin) / 1e6));
		json_set_str(d, one, "object", s->steps[i].object);
		json_set_str(d, one, "what", s->steps[i].what);
		json_push(d, steps, one);
	}
	for (size_t i = 0; i < s->n_problems; i++) {
		struct json *one = json_obj(d);

		json_set_str(d, one, "object", s->problems[i].object);
		json_set_str(d, one, "reason", s->problems[i].reason);
		json_set_str(d, one, "message", s->problems[i].message);
		json_set_str(d, one, "fix", s->problems[i].fix);
		json_push(d, problems, one);
	}
	cli_print(o, format);
}

static void story_done(struct story *s)
{
	for (size_t i = 0; i < s->n_steps; i++) {
		free(s->steps[i].object);
		free(s->steps[i].what);
	}
	for (size_t i = 0; i < s->n_problems; i++) {
		free(s->problems[i].object);
		free(s->problems[i].reason);
		free(s->problems[i].message);
	}
	for (size_t i = 0; i < s->n_uids; i++)
		free(s->uids[i]);
	json_doc_free(s->pod);
	json_doc_free(s->node);
	json_doc_free(s->events);
	named_done(&s->target);
	free(s);
}

static struct err *explain(struct story *s, const struct settings *settings)
{
	const char *format = settings_text(settings, "output");
	struct err *e = named_find(s->r, settings_arg(settings, 0), &s->target);

	if (err_is(e, ERR_UNAVAILABLE) && s->target.claim)
		err_free(take(e)); /* a claim without a sandbox is just what is to be explained */
	if (!e && s->target.sandbox)
		err_free(named_load(s->r, &s->target)); /* it may be gone */
	if (e)
		return e;
	s->begin = begin_of(s);
	read_claim(s);
	read_sandbox(s);
	read_pod(s);
	read_volumes(s);
	read_events(s);
	read_node(s);
	qsort(s->steps, s->n_steps, sizeof(*s->steps), by_time);
	if (str_eq(format, "text"))
		tell_text(s);
	else
		tell_json(s, format);
	return NULL;
}

int explain_run(const struct command *c unused, const struct settings *settings)
{
	autoptr(remote) r = NULL;
	struct story *s;
	struct err *e = NULL;

	if (settings_n_args(settings) != 1)
		e = err_new(ERR_INVALID, "give one name: cay explain NAME");
	if (!e)
		e = remote_open(settings, &r);
	if (e)
		return cli_fail(err_wrap(e, "explain"));
	s = xnew(struct story);
	s->r = r;
	e = explain(s, settings);
	story_done(s);
	return e ? cli_fail(err_wrap(e, "explain")) : EXIT_OK;
}
