/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "control/sandbox/sandbox_priv.h"
#include "fixture.h"
#include "kinds.h"

/* The plan for a living Sandbox as a whole; its parts have tests of their own. */

#define VCT_A "{'metadata':{'name':'a'}}"
#define VCT_B "{'metadata':{'name':'b'}}"
#define REJECTED                                                                           \
	"{'conditions':[{'type':'Ready','status':'False','reason':'InvalidConfiguration'," \
	"'observedGeneration':2}]}"

TEST(a_sandbox_gets_what_it_lacks_unless_that_was_refused)
{
	static const struct {
		const char *templates, *status;
		const char *pvcs[3]; /* metadata; NULL: not there */
		enum step_verb verbs[3], pod, service;
		bool e_pvc, held;
	} rows[] = {
		{ VCT_A "," VCT_B, "{}", .verbs = { STEP_CREATE, STEP_CREATE }, STEP_CREATE,
		  STEP_CREATE },
		/* what is its own already is left alone */
		{ VCT_A "," VCT_B,
		  "{}",
		  { "'ownerReferences':[{'uid':'su','controller':true}]" },
		  { STEP_NONE, STEP_CREATE },
		  STEP_CREATE,
		  STEP_CREATE },
		/* somebody else's: those that follow wait, the Pod does not */
		{ VCT_A "," VCT_B,
		  "{}",
		  { "'ownerReferences':[{'uid':'x','controller':true}]" },
		  { STEP_NONE, STEP_NONE },
		  STEP_CREATE,
		  STEP_CREATE,
		  .e_pvc = true },
		/* two templates of one name have one PVC */
		{ VCT_A "," VCT_B "," VCT_A, "{}", .verbs = { STEP_CREATE, STEP_CREATE, STEP_NONE },
		  STEP_CREATE, STEP_CREATE },
		/* refused before: no create, but anything else */
		{ VCT_A "," VCT_B,
		  REJECTED,
		  { NULL, "'labels':{'agents.x-k8s.io/adoptable':'true'}" },
		  { STEP_NONE, STEP_PATCH },
		  STEP_NONE,
		  STEP_NONE,
		  .held = true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(object) sb = object_of_f(
			kind_named("Sandbox"),
			"{'metadata':{'name':'s','namespace':'ns','uid':'su','generation':2},"
			"'spec':{'service':true,'podTemplate':{'spec':{}},"
			"'volumeClaimTemplates':[%s]},'status':%s}",
			rows[i].templates, rows[i].status);
		struct object *pvcs[3] = { 0 };
		struct sandbox_seen seen = { .sandbox = sb,
					     .pvcs = pvcs,
					     .n_pvcs = json_len(json_get(object_spec(sb),
									 "volumeClaimTemplates")) };
		struct sandbox_plan plan;

		for (size_t k = 0; k < 3; k++)
			if (rows[i].pvcs[k])
				pvcs[k] = object_of_f(kind_named("PersistentVolumeClaim"),
						      "{'metadata':{%s}}", rows[i].pvcs[k]);
		plan = sandbox_decide(&seen);
		eq_int(plan.n_pvcs, seen.n_pvcs);
		for (size_t k = 0; k < plan.n_pvcs; k++)
			eq_int(plan.pvcs[k].verb, rows[i].verbs[k]);
		eq_int(plan.pod.step.verb, rows[i].pod);
		eq_int(plan.service.step.verb, rows[i].service);
		eq_int(plan.e_pvc != NULL, rows[i].e_pvc);
		eq_int(plan.held, rows[i].held);
		sandbox_plan_done(&plan);
		for (size_t k = 0; k < 3; k++)
			object_unref(pvcs[k]);
	}
}
