/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kind_priv.h"
#include "api/meta.h"
#include "api/schema_priv.h"

/*
 * What the rules of the built-in kinds share. A rule names a field by a chain of paths; its text is
 * made only when the rule is broken. The schema reports values of the wrong type: rules pass over
 * them.
 */
#define IN(up_, name_)  (&(const struct path){ .up = (up_), .name = (name_) })
#define AT(up_, i_)     (&(const struct path){ .up = (up_), .index = (i_) })
#define KEY(up_, name_) (&(const struct path){ .up = (up_), .name = (name_), .key = true })

void bad_required(struct causes *c, const struct path *p, const char *detail);
void bad_invalid(struct causes *c, const struct path *p, const struct json *v, const char *detail);
void bad_text(struct causes *c, const struct path *p, const char *v, const char *detail);
void bad_duplicate(struct causes *c, const struct path *p, const char *v);
void bad_forbidden(struct causes *c, const struct path *p, const char *detail);
void bad_not_found(struct causes *c, const struct path *p, const char *v);
void bad_int(struct causes *c, const struct path *p, int64_t v, const char *detail);
void bad_unsupported(struct causes *c, const struct path *p, const char *v,
		     const char *const *values);
void bad_too_long(struct causes *c, const struct path *p, size_t max);
void bad_too_many(struct causes *c, const struct path *p, size_t n, size_t max);

/* A member of a struct, or of each struct in a list, as messages show it: in Go's names and order.
 */
struct go_member {
	const char *go, *json;
	const struct go_member *in; /* of an object; NULL: shown as it is */
	bool text;                  /* shown as "" when it is absent, not as null */
};
void bad_struct(struct causes *c, const struct path *p, const struct json *v,
		const struct go_member *members, const char *detail);
void bad_twin(struct causes *c, const struct path *p, const struct json *v,
	      const struct go_member *members, const char *detail);

/* About the member of obj with that name, at p. */
const char *need_text(struct causes *c, const struct path *p, const struct json *obj,
		      const char *name); /* NULL when it is missing or empty, which is reported */
/* Absent and empty are fine. */
void check_values(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		  const char *const *values);
void check_text(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		const char *(*bad)(const char *s));
/* Absent and empty are not. */
void check_supported(struct causes *c, const struct path *p, const struct json *obj,
		     const char *name, const char *const *values);
/* All that is wrong with a text, each as a cause of its own. */
enum {
	FAULTS_MAX = META_FAULTS_MAX
};
void check_texts(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		 size_t (*faults)(const char *s, const char *ret[FAULTS_MAX]));
size_t port_name_faults(const char *s, const char *ret[FAULTS_MAX]);
size_t config_key_faults(const char *s, const char *ret[FAULTS_MAX]);
const char *bad_prefix_name(const char *s); /* a subdomain, or the beginning of one */
bool is_ip(const char *s);                  /* zeros ahead and all */
void check_ip(struct causes *c, const char *s, const struct path *p);
void check_cidr(struct causes *c, const char *s, const struct path *p);
/* Of a valid address: some lead nowhere that others could reach. */
void check_endpoint_ip(struct causes *c, const char *s, const struct path *p);
bool is_strictly_in(const char *block, const char *whole); /* both valid */
/* Empty is not one. */
void check_qualified(struct causes *c, const char *s, const struct path *p);
void check_labels(struct causes *c, const struct json *labels, const struct path *p);
void check_port_number(struct causes *c, const struct path *p, const struct json *obj,
		       const char *name);
/* A number, or the name of a port. */
void check_port_or_name(struct causes *c, const struct path *p, const struct json *obj,
			const char *name);
void check_not_negative(struct causes *c, const struct path *p, const struct json *obj,
			const char *name);
const char *bad_config_key(const char *s);
void check_selector(struct causes *c, const struct path *p, const struct json *selector);

extern const char *const protocol_values[];
extern const char out_of_port_range[];

/* Pods */
/* One of a Pod's ephemeral containers, beyond what holds for every container. */
void validate_ephemeral(const struct json *container, const struct json *spec, const struct path *p,
			struct causes *c);
void validate_pod_spec(const struct json *obj, struct causes *c); /* of a whole Pod */
/* The same at another place: of a template, which has metadata and spec like a Pod. */
void validate_pod_spec_at(const struct json *obj, const struct path *p, struct causes *c);
void validate_pod_update(const struct json *spec, const struct json *old, struct causes *c);
/* What a volume is to be made from. */
void validate_claim_template(const struct json *template, const struct path *p, struct causes *c);
/* One of the types of volumes that Pods and PersistentVolumes share; others pass. */
void validate_volume_source(const char *type, const struct json *v, const struct path *p,
			    struct causes *c);
/* What a RuntimeClass adds to each of its Pods. */
void validate_overhead(const struct json *fixed, const struct path *p, struct causes *c);
void check_tolerations(struct causes *c, const struct json *list, const struct path *p);
void check_node_selector(struct causes *c, const struct json *selector, const struct path *p);
