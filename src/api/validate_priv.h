/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/kind_priv.h"
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

/* About the member of obj with that name, at p. */
const char *need_text(struct causes *c, const struct path *p, const struct json *obj,
		      const char *name); /* NULL when it is missing or empty, which is reported */
/* Absent and empty are fine. */
void check_values(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		  const char *const *values);
void check_text(struct causes *c, const struct path *p, const struct json *obj, const char *name,
		const char *(*bad)(const char *s));
void check_port(struct causes *c, const struct path *p, const struct json *obj, const char *name);
/* A number, or the name of a port. */
void check_port_or_name(struct causes *c, const struct path *p, const struct json *obj,
			const char *name);
void check_not_negative(struct causes *c, const struct path *p, const struct json *obj,
			const char *name);
const char *bad_port_name(const char *s);
const char *bad_config_key(const char *s);
void check_selector(struct causes *c, const struct path *p, const struct json *selector);

extern const char *const protocol_values[];
extern const char out_of_port_range[];

/* Pods */
void validate_containers(const struct json *spec, const struct path *p, struct causes *c);
/* One of a Pod's ephemeral containers, beyond what holds for every container. */
void validate_ephemeral(const struct json *container, const struct json *spec, const struct path *p,
			struct causes *c);
void validate_pod_spec(const struct json *spec, struct causes *c);
void validate_volumes(const struct json *spec, const struct path *p, struct causes *c);
void validate_pod_update(const struct json *spec, const struct json *old, struct causes *c);
