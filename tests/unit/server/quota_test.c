/* SPDX-License-Identifier: Apache-2.0 */
#include "api/quota.h"

#include "base/clock.h"
#include "fixture.h"
#include "kinds.h"
#include "server/policy/security.h"

/* Quotas and levels, beyond what tests/conformance/test_quota.py compares with a kube-apiserver. */

#define QUOTA(name, hard) "{'metadata':{'name':'" name "'},'spec':{'hard':{" hard "}}}"
#define POD(name, more)                                                                          \
	"{'metadata':{'name':'" name "'},'spec':{" more "'containers':[{'name':'c','image':'i'," \
	"'resources':{'limits':{'cpu':'100m','memory':'1Mi'}}}]}}"

static struct err *make_pod(struct fixture *f, const char *text)
{
	return make(f, kind_named("Pod"), "default", text, NULL);
}

static void limit(struct fixture *f, const char *text)
{
	works(make(f, kind_named("ResourceQuota"), "default", text, NULL));
}

static struct err *change_pod(struct fixture *f, const char *name, const char *sub,
			      const char *text)
{
	const struct client_ref to = { kind_named("Pod"), "default", name, sub };

	return merge(f, &to, text);
}

/* Its status, once it was written. */
static void uses(struct fixture *f, const char *resource, const char *want)
{
	usec end = clock_mono() + 20 * 1000000;
	autofree char *is = NULL;

	do {
		autoptr(object) q = NULL;

		settle(f);
		(void)loop_turn(f->loop, 10);
		q = look(f, kind_named("ResourceQuota"), "default", "q");
		free(is);
		is = xstrdup(
			str_or(json_get_str(json_get(object_status(q), "used"), resource), ""));
	} while (!str_eq(is, want) && clock_mono() < end);
	eq_str(is, want);
}

TEST(pods_that_are_over_make_room)
{
	struct fixture f;

	fixture_init(&f);
	limit(&f, QUOTA("q", "'pods':'1','limits.cpu':'100m','count/pods':'2'"));
	works(make_pod(&f, POD("a", "")));
	fails(make_pod(&f, POD("b", "")), ERR_FORBIDDEN);
	uses(&f, "limits.cpu", "100m");
	works(change_pod(&f, "a", "status", "{'status':{'phase':'Succeeded'}}"));
	works(make_pod(&f, POD("b", "")));
	uses(&f, "pods", "1");
	uses(&f, "count/pods", "2");
	/* A status is nobody's request: it is counted, not refused. */
	works(change_pod(&f, "a", "status", "{'status':{'phase':'Running'}}"));
	uses(&f, "pods", "2");
	fails(make_pod(&f, POD("c", "")), ERR_FORBIDDEN);
	fixture_done(&f);
}

TEST(a_restart_counts_what_is_there)
{
	struct fixture f;

	fixture_init(&f);
	works(make_pod(&f, POD("a", "")));
	limit(&f, QUOTA("q", "'pods':'2','requests.memory':'2Mi'"));
	uses(&f, "requests.memory", "1Mi");
	works(make_pod(&f, POD("b", "")));
	fixture_close(&f);
	works(fixture_open(&f));
	fails(make_pod(&f, POD("c", "")), ERR_FORBIDDEN);
	uses(&f, "pods", "2");
	uses(&f, "requests.memory", "2Mi");
	works(drop(&f, kind_named("Pod"), "default", "a", NULL));
	works(make_pod(&f, POD("c", "")));
	fixture_done(&f);
}

/* A Pod that a node runs is only marked, and counts until twice its grace is over, as on a
 * cluster. */
TEST(a_pod_that_does_not_go_away_counts_for_a_while)
{
	const struct client_delete_spec now = { .grace_s = 1 };
	struct fixture f;

	fixture_init(&f);
	fixture_close(&f);
	f.node_name = "n";
	works(fixture_open(&f));
	limit(&f, QUOTA("q", "'pods':'1'"));
	works(make_pod(&f, POD("a", "")));
	works(drop(&f, kind_named("Pod"), "default", "a", &now));
	fails(make_pod(&f, POD("b", "")), ERR_FORBIDDEN);
	uses(&f, "pods", "0");
	works(make_pod(&f, POD("b", "")));
	fixture_done(&f);
}

TEST(a_namespace_does_not_limit_another)
{
	struct fixture f;

	fixture_init(&f);
	limit(&f, QUOTA("q", "'configmaps':'0'"));
	fails(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL), ERR_FORBIDDEN);
	works(make(&f, kind_named("ConfigMap"), "kube-system", CONFIG("a"), NULL));
	works(drop(&f, kind_named("ResourceQuota"), "default", "q", NULL));
	works(make(&f, kind_named("ConfigMap"), "default", CONFIG("a"), NULL));
	fixture_done(&f);
}

TEST(objects_of_any_kind_are_counted)
{
	struct fixture f;

	fixture_init(&f);
	limit(&f, QUOTA("q", "'count/sandboxes.agents.x-k8s.io':'1'"));
	works(make(&f, kind_named("Sandbox"), "default", SANDBOX("a"), NULL));
	fails(make(&f, kind_named("Sandbox"), "default", SANDBOX("b"), NULL), ERR_FORBIDDEN);
	uses(&f, "count/sandboxes.agents.x-k8s.io", "1");
	fixture_done(&f);
}

TEST(what_a_pod_needs_is_added_up_as_a_scheduler_does)
{
	static const struct {
		const char *spec, *requests, *limits; /* of CPU, in thousandths; NULL: none */
	} rows[] = {
		{ "{'containers':[{},{}]}", NULL, NULL },
		{ "{'containers':[{'resources':{'requests':{'cpu':'1'}}},{'resources':{'requests':"
		  "{'cpu':'250m'}}}]}",
		  "1250m", NULL },
		{ "{'containers':[{'resources':{'requests':{'cpu':'1'}}}],'initContainers':[{"
		  "'resources':{'requests':{'cpu':'3'}}}]}",
		  "3", NULL },
		{ "{'containers':[{'resources':{'requests':{'cpu':'1'}}}],'initContainers':[{"
		  "'restartPolicy':'Always','resources':{'requests':{'cpu':'1'}}},{'resources':{"
		  "'requests':{'cpu':'2'}}}]}",
		  "3", NULL },
		{ "{'containers':[{'resources':{'limits':{'cpu':'1'}}}],'resources':{'limits':{"
		  "'cpu':'5'}}}",
		  NULL, "5" },
		{ "{'containers':[{'resources':{'requests':{'cpu':'1'}}}],'overhead':{'cpu':'1'}}",
		  "2", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{'spec':%s}", rows[i].spec);
		autoptr(json_doc) d = parse(text);
		const char *want[] = {
			[POD_REQUESTS] = rows[i].requests, [POD_LIMITS] = rows[i].limits
		};

		for (int which = POD_REQUESTS; which <= POD_LIMITS; which++) {
			char is[QUANTITY_TEXT_MAX] = "";
			struct quantity q;

			if (pod_amount(json_root(d), (enum pod_amount)which, "cpu",
				       POD_AMOUNT_OVERHEAD, &q))
				quantity_text(&q, is);
			eq_str(is, str_or(want[which], ""));
		}
	}
}

TEST(a_container_that_is_being_resized_counts_for_the_larger_size)
{
	autoptr(json_doc) d = parse(
		"{'spec':{'containers':[{'name':'c','resources':{'requests':{'cpu':'1'}}}]},'status':{"
		"'containerStatuses':[{'name':'c','resources':{'requests':{'cpu':'2'}},"
		"'allocatedResources':{'cpu':'3'}}]}}");
	struct quantity q;

	is_true(pod_amount(json_root(d), POD_REQUESTS, "cpu", 0, &q));
	eq_int(quantity_milli(&q), 1000);
	is_true(pod_amount(json_root(d), POD_REQUESTS, "cpu", POD_AMOUNT_STATUS, &q));
	eq_int(quantity_milli(&q), 3000);
}

/* Levels: what the recorded answers do not reach, since that server has no privileged Pods. */
TEST(levels_name_what_they_forbid)
{
	static const struct security baseline = { SECURITY_BASELINE, SECURITY_LATEST };
	static const struct security old = { SECURITY_BASELINE, 18 };
	static const struct {
		const struct security *level;
		const char *pod, *found;
	} rows[] = {
		{ &baseline, "'spec':{'containers':[{'name':'c'}]}", NULL },
		{ &baseline,
		  "'spec':{'containers':[{'name':'c','securityContext':{'privileged':true}}]}",
		  "privileged (container \"c\" must not set securityContext.privileged=true)" },
		{ &baseline,
		  "'spec':{'securityContext':{'windowsOptions':{'hostProcess':true}},'containers':[{"
		  "'name':'c','securityContext':{'windowsOptions':{'hostProcess':true}}}]}",
		  "hostProcess (pod and container \"c\" must not set "
		  "securityContext.windowsOptions.hostProcess=true)" },
		{ &baseline,
		  "'spec':{'containers':[{'name':'c','ports':[{'hostPort':80},{'hostPort':80},{"
		  "'hostPort':443}]}]}",
		  "hostPort (container \"c\" uses hostPorts 443, 80)" },
		{ &baseline,
		  "'metadata':{'annotations':{'container.apparmor.security.beta.kubernetes.io/"
		  "c':'unconfined','container.apparmor.security.beta.kubernetes.io/"
		  "d':'bogus'}},'spec':{'containers':[{'name':'c'}]}",
		  "forbidden AppArmor profiles (annotations must not set AppArmor profile type to "
		  "\"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\", "
		  "\"container.apparmor.security.beta.kubernetes.io/d=\"bogus\"\")" },
		{ &old,
		  "'metadata':{'annotations':{'seccomp.security.alpha.kubernetes.io/"
		  "pod':'unconfined'}},'spec':{'containers':[{'name':'c','securityContext':{"
		  "'seccompProfile':{'type':'Unconfined'}}}]}",
		  "seccompProfile (forbidden annotation "
		  "seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{%s}", rows[i].pod), *found = NULL;
		autoptr(json_doc) d = parse(text);

		found = security_violations(rows[i].level, json_root(d), true);
		eq_str(str_or(found, ""), str_or(rows[i].found, ""));
	}
}
