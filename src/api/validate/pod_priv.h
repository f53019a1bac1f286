/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/validate_priv.h"

struct map;

/* One walk over a PodSpec. */
struct pod_rules {
	struct causes *causes;
	const struct json *spec;
	struct map *volumes; /* name → struct json, of those without faults; NULL: there are none */
	struct map *claims;  /* names of resourceClaims; NULL: there are none */
	const char *os;      /* NULL: not said */
	const char *name;    /* of the Pod; NULL: not known */
	int64_t grace_s;
	bool never_restarts;
	bool host_users;
};

void spec_containers(struct pod_rules *r, const struct path *spec);
void spec_image_spaces(struct pod_rules *r, const struct path *spec);
void spec_env(struct causes *c, const struct json *container, const struct path *p);
void spec_env_files(struct pod_rules *r, const struct json *container, const struct path *p);
void spec_field_ref(struct causes *c, const struct json *ref, const char *const *fields,
		    const struct path *p);
void spec_resource_ref(struct causes *c, const struct json *ref, bool volume, const struct path *p);
void spec_mounts(struct pod_rules *r, const struct json *container, const struct path *p);
void spec_resources(struct pod_rules *r, const struct json *resources, const struct path *p);
void spec_level_resources(struct pod_rules *r, const struct path *spec);
void spec_probes(struct pod_rules *r, const struct json *container, const struct path *p);
void spec_security(struct pod_rules *r, const struct json *container, const struct path *p);
void spec_security_context(struct pod_rules *r, const struct path *spec);
void spec_os(struct pod_rules *r, const struct path *spec);
void spec_host_process(struct pod_rules *r, const struct path *spec);
void spec_scheduling(struct pod_rules *r, const struct path *spec);
void spec_topology(struct pod_rules *r, const struct path *spec);
void spec_volumes(struct pod_rules *r, const struct path *spec);
/* Files that are made of keys and fields. */
void spec_key_paths(struct causes *c, const struct json *source, const struct path *p);
void spec_downward_item(struct causes *c, const struct json *item, const struct path *p);
void spec_projected(struct causes *c, const struct json *projected, const struct path *p);

/* Texts of a kube-apiserver that several rules share. */
void check_mode(struct causes *c, const struct json *obj, const char *name, const struct path *p);
void check_descending(struct causes *c, const char *s, const struct path *p); /* relative, no .. */
void check_local(struct causes *c, const char *s, const struct path *p);      /* and not ..name */
bool has_backstep(const char *s);
void check_pull_policy(struct causes *c, const struct json *obj, const char *name,
		       const struct path *p);

/* Calls visit for every container of the spec: init containers first, then the others. */
void spec_visit(const struct json *spec, const struct path *p,
		void (*visit)(struct pod_rules *r, const struct json *container,
			      const struct path *p),
		struct pod_rules *r);
