/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "api/validate/pod_priv.h"
#include "base/str.h"

/* Probes and hooks of containers. */

static const char *bad_header(const char *s)
{
	const char *p = s;

	while (isalnum((unsigned char)*p) || *p == '-')
		p++;
	return *s && !*p
		       ? NULL
		       : "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. "
			 "'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
}

static void check_exec(struct pod_rules *r, const struct json *h, const struct path *p)
{
	if (!json_len(json_get(h, "command")))
		bad_required(r->causes, IN(p, "command"), NULL);
}

static void check_http_get(struct pod_rules *r, const struct json *h, const struct path *p)
{
	static const char *const schemes[] = { "HTTP", "HTTPS", NULL };

	(void)need_text(r->causes, p, h, "path");
	check_port_or_name(r->causes, p, h, "port");
	check_supported(r->causes, p, h, "scheme", schemes);
	json_each(it, json_get(h, "httpHeaders")) {
		const char *name = str_or(json_get_str(it.val, "name"), "");
		const char *bad = bad_header(name);

		if (bad)
			bad_text(r->causes, IN(p, "httpHeaders"), name, bad);
	}
}

static void check_socket(struct pod_rules *r, const struct json *h, const struct path *p)
{
	check_port_or_name(r->causes, p, h, "port");
}

static void check_sleep(struct pod_rules *r, const struct json *h, const struct path *p)
{
	int64_t s = json_get_int(h, "seconds", 0);
	autofree char *why = NULL;

	if (s >= 0 && s <= r->grace_s)
		return;
	why = xasprintf("must be non-negative and less than terminationGracePeriodSeconds (%lld)",
			(long long)r->grace_s);
	bad_int(r->causes, p, s, why);
}

static void check_handler(struct pod_rules *r, const struct json *handler, const struct path *p)
{
	static const struct {
		const char *name;
		void (*check)(struct pod_rules *r, const struct json *h, const struct path *p);
	} kinds[] = {
		{ "exec", check_exec },        { "httpGet", check_http_get },
		{ "tcpSocket", check_socket }, { "grpc", check_socket },
		{ "sleep", check_sleep },
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct json *h = json_get(handler, kinds[i].name);

		if (!h)
			continue;
		if (n++)
			bad_forbidden(r->causes, IN(p, kinds[i].name),
				      "may not specify more than 1 handler type");
		else
			kinds[i].check(r, h, IN(p, kinds[i].name));
	}
	if (!n)
		bad_required(r->causes, p, "must specify a handler type");
}

static void check_probe(struct pod_rules *r, const struct json *container, const char *name,
			const struct path *up)
{
	static const char *const numbers[] = { "initialDelaySeconds", "timeoutSeconds",
					       "periodSeconds", "successThreshold",
					       "failureThreshold" };
	const struct json *probe = json_get(container, name), *grace;
	const struct path *p = IN(up, name);
	struct causes *c = r->causes;

	if (!probe)
		return;
	check_handler(r, probe, p);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		check_not_negative(c, p, probe, numbers[i]);
	grace = json_get(probe, "terminationGracePeriodSeconds");
	if (grace && json_int(grace, 1) <= 0)
		bad_invalid(c, IN(p, "terminationGracePeriodSeconds"), grace,
			    "must be greater than 0");
	if (str_eq(name, "readinessProbe")) {
		if (grace)
			bad_invalid(c, IN(p, "terminationGracePeriodSeconds"), grace,
				    "must not be set for readinessProbes");
	} else if (json_get_int(probe, "successThreshold", 1) != 1) {
		bad_invalid(c, IN(p, "successThreshold"), json_get(probe, "successThreshold"),
			    "must be 1");
	}
}

/* Sorted as a kube-apiserver lists them. */
static const char *const linux_signals[] = {
	"SIGABRT",     "SIGALRM",     "SIGBUS",      "SIGCHLD",     "SIGCLD",      "SIGCONT",
	"SIGFPE",      "SIGHUP",      "SIGILL",      "SIGINT",      "SIGIO",       "SIGIOT",
	"SIGKILL",     "SIGPIPE",     "SIGPOLL",     "SIGPROF",     "SIGPWR",      "SIGQUIT",
	"SIGRTMAX",    "SIGRTMAX-1",  "SIGRTMAX-10", "SIGRTMAX-11", "SIGRTMAX-12", "SIGRTMAX-13",
	"SIGRTMAX-14", "SIGRTMAX-2",  "SIGRTMAX-3",  "SIGRTMAX-4",  "SIGRTMAX-5",  "SIGRTMAX-6",
	"SIGRTMAX-7",  "SIGRTMAX-8",  "SIGRTMAX-9",  "SIGRTMIN",    "SIGRTMIN+1",  "SIGRTMIN+10",
	"SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMIN+2",
	"SIGRTMIN+3",  "SIGRTMIN+4",  "SIGRTMIN+5",  "SIGRTMIN+6",  "SIGRTMIN+7",  "SIGRTMIN+8",
	"SIGRTMIN+9",  "SIGSEGV",     "SIGSTKFLT",   "SIGSTOP",     "SIGSYS",      "SIGTERM",
	"SIGTRAP",     "SIGTSTP",     "SIGTTIN",     "SIGTTOU",     "SIGURG",      "SIGUSR1",
	"SIGUSR2",     "SIGVTALRM",   "SIGWINCH",    "SIGXCPU",     "SIGXFSZ",     NULL
};
static const char *const windows_signals[] = { "SIGKILL", "SIGTERM", NULL };

static void check_lifecycle(struct pod_rules *r, const struct json *container,
			    const struct path *up)
{
	static const char *const hooks[] = { "postStart", "preStop" };
	const struct json *lifecycle = json_get(container, "lifecycle");
	const struct path *p = IN(up, "lifecycle");

	for (size_t i = 0; i < ARRAY_LEN(hooks); i++)
		if (json_get(lifecycle, hooks[i]))
			check_handler(r, json_get(lifecycle, hooks[i]), IN(p, hooks[i]));
	if (!json_get(lifecycle, "stopSignal"))
		return;
	if (!r->os)
		bad_forbidden(r->causes, IN(p, "stopSignal"),
			      "may not be set for containers with empty `spec.os.name`");
	else
		check_supported(r->causes, p, lifecycle, "stopSignal",
				str_eq(r->os, "windows") ? windows_signals : linux_signals);
}

void spec_probes(struct pod_rules *r, const struct json *container, const struct path *p)
{
	check_lifecycle(r, container, p);
	check_probe(r, container, "livenessProbe", p);
	check_probe(r, container, "readinessProbe", p);
	check_probe(r, container, "startupProbe", p);
}
