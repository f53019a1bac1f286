/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_sandbox.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/sandbox/sandbox_priv.h"

/*
 * The plan for a living Sandbox: its PVCs, its Pod and its Service (docs/reference/agent-sandbox.md
 * §3.6). Pure, like the functions that it calls.
 */

/* A create that the API refused as invalid is not tried again until the spec changes. */
static void step_hold(struct step *s, struct sandbox_plan *plan, bool rejected)
{
	if (!rejected || s->verb != STEP_CREATE)
		return;
	json_doc_free(s->doc);
	*s = (struct step){ STEP_NONE };
	plan->held = true;
}

/* An earlier template has the same name, and with it the same PVC. */
static bool is_twin(const struct json *templates, size_t i)
{
	const char *name = volume_template_name(json_at(templates, i));

	for (size_t k = 0; k < i; k++)
		if (str_eq(volume_template_name(json_at(templates, k)), name))
			return true;
	return false;
}

/* After the first that is not available, the rest waits for a later pass. */
static void decide_pvcs(const struct sandbox_seen *seen, struct sandbox_plan *plan, bool rejected)
{
	const struct json *templates = sandbox_view(seen->sandbox)->blueprint.volume_templates;

	plan->pvcs = xnew_n(struct step, seen->n_pvcs + 1);
	for (size_t i = 0; i < seen->n_pvcs && !plan->e_pvc; i++) {
		if (!is_twin(templates, i))
			plan->pvcs[i] = pvc_decide(seen->sandbox, json_at(templates, i),
						   seen->pvcs[i], &plan->e_pvc);
		step_hold(&plan->pvcs[i], plan, rejected);
	}
	plan->n_pvcs = seen->n_pvcs;
}

struct sandbox_plan sandbox_decide(const struct sandbox_seen *seen)
{
	bool rejected = sandbox_was_rejected(sandbox_view(seen->sandbox));
	struct sandbox_plan plan = { 0 };

	decide_pvcs(seen, &plan, rejected);
	plan.pod = sandbox_pod_decide(&(struct sandbox_pod_seen){ seen->sandbox, seen->tracked,
								  seen->owned, seen->n_owned });
	step_hold(&plan.pod.step, &plan, rejected);
	if (plan.pod.n_owned <= 1)
		plan.service = service_decide(seen->sandbox, seen->service);
	step_hold(&plan.service.step, &plan, rejected);
	return plan;
}

void sandbox_plan_done(struct sandbox_plan *plan)
{
	for (size_t i = 0; i < plan->n_pvcs; i++)
		json_doc_free(plan->pvcs[i].doc);
	free(plan->pvcs);
	json_doc_free(plan->pod.step.doc);
	json_doc_free(plan->service.step.doc);
	err_free(plan->e_pvc);
	err_free(plan->pod.e);
	err_free(plan->service.e);
}
