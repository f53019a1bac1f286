/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_pod.h"

#include "api/object.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"
#include "kinds.h"
#include "test.h"

struct viewed {
	struct object *obj;
	struct arena *arena;
	struct pod_view *v;
};

/* A Pod in JSON with ' for ". */
static struct viewed view(const char *text)
{
	struct viewed w = { .arena = arena_new() };
	autofree char *json = xstrdup(text);
	struct json_doc *d = NULL;

	for (char *c = json; *c; c++)
		if (*c == '\'')
			*c = '"';
	works(json_parse(json, strlen(json), NULL, &d));
	w.obj = object_new(kind_named("Pod"), d);
	w.v = pod_view_new(w.obj, w.arena);
	return w;
}

static void done(struct viewed *w)
{
	arena_free(w->arena);
	object_unref(w->obj);
}

TEST(a_pod_says_as_a_struct_what_its_tree_says)
{
	struct viewed w = view(
		"{'metadata':{'name':'p','uid':'u','deletionGracePeriodSeconds':7},"
		"'spec':{'restartPolicy':'OnFailure','hostname':'h','activeDeadlineSeconds':9,"
		"'securityContext':{'runAsUser':5,'fsGroup':6,'supplementalGroups':[1,2]},"
		"'initContainers':[{'name':'i','image':'x'}],"
		"'containers':[{'name':'c','image':'y','args':['a','b'],"
		"'securityContext':{'runAsUser':8,'capabilities':{'add':['CAP_CHOWN','KILL']}},"
		"'ports':[{'name':'web','containerPort':80},{'containerPort':53,'protocol':'UDP'}],"
		"'env':[{'name':'A','value':'1'},{'name':'B','valueFrom':{'secretKeyRef':"
		"{'name':'s','key':'k','optional':true}}}],"
		"'livenessProbe':{'httpGet':{'port':'web'},'periodSeconds':0}}],"
		"'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':'q'}}]},"
		"'status':{'phase':'Failed','containerStatuses':[{'name':'c','state':{'running':"
		"{'startedAt':'1970-01-01T00:00:01Z'}}}]}}");
	const struct pod_container_view *c = pod_view_container(w.v, "c");

	eq_int(w.v->n_containers, 2);
	eq_int(w.v->n_init, 1);
	is_true(w.v->containers[0].init && !c->init);
	eq_int(w.v->containers[0].user, 5);
	eq_int(c->user, 8);
	eq_int(w.v->grace_s, 7);
	eq_int(w.v->deadline_s, 9);
	eq_int(w.v->fs_group, 6);
	eq_int(w.v->n_groups, 2);
	eq_int(w.v->restart, POD_RESTART_ON_FAILURE);
	eq_str(w.v->hostname, "h");
	is_true(!c->command);
	eq_str(c->args[1], "b");
	is_true(!c->args[2]);
	eq_str(c->add_capabilities[0], "CHOWN");
	eq_str(c->add_capabilities[1], "KILL");
	is_true(pod_container_has_port(c, 80));
	is_false(pod_container_has_port(c, 53));
	eq_str(c->env[0].value, "1");
	eq_int(c->env[1].source, POD_ENV_SECRET);
	is_true(c->env[1].ref.optional);
	eq_int(c->liveness.port, 80);
	eq_int(c->liveness.period_s, 1);
	eq_str(c->liveness.http_path, "/");
	is_false(c->readiness.there);
	eq_int(c->status_started, 1000000);
	is_true(pod_view_over(w.v));
	is_true(pod_view_default_container(w.v) == c);
	done(&w);
}

TEST(any_tree_can_be_viewed)
{
	static const char *const rows[] = {
		"{}",
		"{'metadata':5,'spec':[],'status':'x'}",
		"{'spec':{'containers':{'a':1},'volumes':'x','initContainers':[null,1,'a']}}",
		"{'spec':{'containers':[{'name':1,'env':[[]],'ports':[7],'resources':5,"
		"'volumeMounts':[null],'command':[1,{}],'livenessProbe':[],"
		"'securityContext':{'capabilities':{'add':{'x':1}}}}]}}",
		"{'spec':{'volumes':[{'projected':{'sources':[null,{'secret':7}]}},{'emptyDir':1},"
		"{'configMap':{'items':[null,{'mode':'x'}]}},{'persistentVolumeClaim':null}],"
		"'terminationGracePeriodSeconds':-1,'hostAliases':[1],'dnsConfig':{'options':[2]}}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct viewed w = view(rows[i]);

		is_true(w.v->grace_s >= 0);
		is_true(w.v->qos != NULL);
		is_true(pod_view_count_mounts(w.v, "x") == 0);
		(void)pod_view_default_container(w.v);
		for (size_t k = 0; k < w.v->n_containers; k++)
			is_true(w.v->containers[k].name && w.v->containers[k].image);
		done(&w);
	}
}

TEST(quality_of_service_follows_requests_and_limits)
{
	static const struct {
		const char *containers, *qos, *more;
	} rows[] = {
		{ "{}", "BestEffort" },
		{ "{'resources':{'limits':{'nvidia.com/gpu':1}}}", "BestEffort" },
		{ "{'resources':{'limits':{'cpu':0},'requests':{'cpu':'0'}}}", "BestEffort" },
		{ "{'resources':{'limits':{'cpu':'1','memory':'1Gi'}}}", "Burstable",
		  "'initContainers':[{}]," },
		{ "{}", "Burstable", "'initContainers':[{'resources':{'limits':{'cpu':'1'}}}]," },
		{ "{}", "Guaranteed", "'resources':{'limits':{'cpu':'1','memory':'1Gi'}}," },
		{ "{'resources':{'limits':{'cpu':'1','memory':'1Gi'}}}", "Guaranteed" },
		{ "{'resources':{'limits':{'cpu':'1','memory':'1Gi'},'requests':{'cpu':'1000m'}}}",
		  "Guaranteed" },
		{ "{'resources':{'limits':{'cpu':'1','memory':'1Gi'},'requests':{'cpu':'500m'}}}",
		  "Burstable" },
		{ "{'resources':{'requests':{'cpu':'1'}}}", "Burstable" },
		{ "{'resources':{'limits':{'cpu':'1','memory':'1Gi'}}},{}", "Burstable" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf("{'spec':{%s'containers':[%s]}}",
						str_or(rows[i].more, ""), rows[i].containers);
		struct viewed w = view(text);

		eq_str(w.v->qos, rows[i].qos);
		done(&w);
	}
}

TEST(the_default_container_is_the_annotated_one_if_it_exists)
{
	static const struct {
		const char *annotated, *want;
	} rows[] = { { "b", "b" }, { "i", "i" }, { "gone", "a" }, { "", "a" } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = xasprintf(
			"{'metadata':{'annotations':{'kubectl.kubernetes.io/default-container':"
			"'%s'}},'spec':{'initContainers':[{'name':'i'}],"
			"'containers':[{'name':'a'},{'name':'b'}]}}",
			rows[i].annotated);
		struct viewed w = view(text);

		eq_str(pod_view_default_container(w.v)->name, rows[i].want);
		done(&w);
	}
}
