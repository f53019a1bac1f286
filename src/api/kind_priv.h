/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/agents.h"
#include "api/kind.h"

/*
 * The built-in kinds and the parts that make up their table.
 */

/* Descriptions in the order of discovery, ending with NULL; kinds_new() turns them into counted
 * kinds. */
extern const struct kind *const kinds_builtin[];

/* kinds_apps.c */
extern const struct kind kind_deployment, kind_replica_set;

/* Columns, each ending with a NULL name. */
extern const struct column columns_namespace[], columns_pod[], columns_service[],
	columns_persistent_volume_claim[], columns_persistent_volume[], columns_storage_class[],
	columns_secret[], columns_config_map[], columns_service_account[], columns_event[],
	columns_node[], columns_endpoint_slice[], columns_endpoints[], columns_network_policy[],
	columns_lease[], columns_runtime_class[], columns_gateway[], columns_sandbox[],
	columns_role[], columns_binding[], columns_sandbox_claim[], columns_sandbox_warm_pool[],
	columns_crd[], columns_ingress[], columns_ingress_class[], columns_ip_address[],
	columns_service_cidr[], columns_plain[];
extern const struct column columns_resource_quota[], columns_limit_range[],
	columns_priority_class[];

/* Conversion, in place. */
struct err *convert_event_to_core(const struct kind *k, struct json_doc *d);
struct err *convert_pod_to_metrics(const struct kind *k, struct json_doc *d);
struct err *convert_node_to_metrics(const struct kind *k, struct json_doc *d);
struct err *convert_event_from_core(const struct kind *k, struct json_doc *d);
struct err *convert_sandbox_to_v1beta1(const struct kind *k, struct json_doc *d);
struct err *convert_sandbox_to_v1alpha1(const struct kind *k, struct json_doc *d);
struct err *convert_template_to_v1beta1(const struct kind *k, struct json_doc *d);
struct err *convert_template_to_v1alpha1(const struct kind *k, struct json_doc *d);
struct err *convert_pool_to_v1beta1(const struct kind *k, struct json_doc *d);
struct err *convert_pool_to_v1alpha1(const struct kind *k, struct json_doc *d);
struct err *convert_claim_to_v1beta1(const struct kind *k, struct json_doc *d);
struct err *convert_claim_to_v1alpha1(const struct kind *k, struct json_doc *d);

/* What the server decides about an object. */
void prepare_create_pod(struct json_doc *d, const struct kind_env *env);
void prepare_create_persistent_volume_claim(struct json_doc *d, const struct kind_env *env);
void prepare_create_persistent_volume(struct json_doc *d, const struct kind_env *env);
void prepare_create_namespace(struct json_doc *d, const struct kind_env *env);
void prepare_update_namespace(struct json_doc *d, const struct json *old,
			      const struct kind_env *env);
void prepare_update_pod(struct json_doc *d, const struct json *old, const struct kind_env *env);
void prepare_delete_namespace(struct json_doc *d);
const char *forbid_update_persistent_volume_claim(const struct json *obj, const struct json *old,
						  const struct kind_env *env);
void apply_pod_ephemeral(struct json_doc *whole, const struct json *sent);
void apply_pod_resize(struct json_doc *whole, const struct json *sent);
int64_t grace_pod(const struct json *obj, int64_t asked);

/* Defaults that a schema cannot express. old is NULL on create. */
void defaults_namespace(struct json_doc *d, const struct json *old);
void defaults_pod(struct json_doc *d, const struct json *old);
void defaults_service(struct json_doc *d, const struct json *old);
void defaults_persistent_volume_claim(struct json_doc *d, const struct json *old);
void defaults_persistent_volume(struct json_doc *d, const struct json *old);
void defaults_storage_class(struct json_doc *d, const struct json *old);
void defaults_secret(struct json_doc *d, const struct json *old);
void defaults_network_policy(struct json_doc *d, const struct json *old);
void defaults_ingress(struct json_doc *d, const struct json *old);
void defaults_ingress_class(struct json_doc *d, const struct json *old);
void validate_events_event(const struct json *obj, const struct json *old, struct causes *c);
void validate_events_event_change(const struct json *obj, const struct json *old, struct causes *c);
void defaults_lease(struct json_doc *d, const struct json *old);
void label_namespace(struct json_doc *d);
void defaults_role(struct json_doc *d, const struct json *old);
void defaults_event(struct json_doc *d, const struct json *old);
void defaults_endpoint_slice(struct json_doc *d, const struct json *old);
void defaults_endpoints(struct json_doc *d, const struct json *old);
void defaults_resource_quota(struct json_doc *d, const struct json *old);
void defaults_limit_range(struct json_doc *d, const struct json *old);
void defaults_priority_class(struct json_doc *d, const struct json *old);
void defaults_node(struct json_doc *d, const struct json *old);
void defaults_binding(struct json_doc *d, const struct json *old);
void defaults_deployment(struct json_doc *d, const struct json *old);
void defaults_replica_set(struct json_doc *d, const struct json *old);

void validate_pod_status(const struct json *obj, const struct json *old, struct causes *c);
void validate_ingress_status(const struct json *obj, const struct json *old, struct causes *c);
void validate_service_status(const struct json *obj, const struct json *old, struct causes *c);
void warn_service(const struct json *obj, const struct json *old,
		  void (*say)(void *arg, const char *text), void *arg);
void warn_ingress(const struct json *obj, const struct json *old,
		  void (*say)(void *arg, const char *text), void *arg);
void warn_endpoint_slice(const struct json *obj, const struct json *old,
			 void (*say)(void *arg, const char *text), void *arg);

/* Rules that a schema cannot express. old is NULL on create. */
void validate_namespace(const struct json *obj, const struct json *old, struct causes *c);
void validate_pod(const struct json *obj, const struct json *old, struct causes *c);
void validate_pod_resize(const struct json *obj, const struct json *old, struct causes *c);
void validate_pod_ephemeral(const struct json *obj, const struct json *old, struct causes *c);
void validate_service(const struct json *obj, const struct json *old, struct causes *c);
void validate_persistent_volume_claim(const struct json *obj, const struct json *old,
				      struct causes *c);
void validate_persistent_volume(const struct json *obj, const struct json *old, struct causes *c);
void validate_storage_class(const struct json *obj, const struct json *old, struct causes *c);
void validate_secret(const struct json *obj, const struct json *old, struct causes *c);
void validate_config_map(const struct json *obj, const struct json *old, struct causes *c);
void validate_network_policy(const struct json *obj, const struct json *old, struct causes *c);
void validate_ingress(const struct json *obj, const struct json *old, struct causes *c);
void validate_ingress_class(const struct json *obj, const struct json *old, struct causes *c);
void validate_ip_address(const struct json *obj, const struct json *old, struct causes *c);
void validate_service_cidr(const struct json *obj, const struct json *old, struct causes *c);
const char *forbid_create_service_cidr(const struct json *obj);
const char *forbid_update_service_cidr(const struct json *obj, const struct json *old,
				       const struct kind_env *env);
void validate_endpoint_slice(const struct json *obj, const struct json *old, struct causes *c);
void validate_endpoints(const struct json *obj, const struct json *old, struct causes *c);
void validate_event(const struct json *obj, const struct json *old, struct causes *c);
void validate_node(const struct json *obj, const struct json *old, struct causes *c);
void validate_lease(const struct json *obj, const struct json *old, struct causes *c);
void validate_runtime_class(const struct json *obj, const struct json *old, struct causes *c);
void validate_deployment(const struct json *obj, const struct json *old, struct causes *c);
void validate_replica_set(const struct json *obj, const struct json *old, struct causes *c);
void validate_resource_quota(const struct json *obj, const struct json *old, struct causes *c);
void validate_limit_range(const struct json *obj, const struct json *old, struct causes *c);
void validate_priority_class(const struct json *obj, const struct json *old, struct causes *c);
void validate_role(const struct json *obj, const struct json *old, struct causes *c);
void validate_cluster_role(const struct json *obj, const struct json *old, struct causes *c);
void validate_role_binding(const struct json *obj, const struct json *old, struct causes *c);
void validate_cluster_role_binding(const struct json *obj, const struct json *old,
				   struct causes *c);
void validate_sandbox(const struct json *obj, const struct json *old, struct causes *c);
void validate_notes(const struct json *obj, const struct json *old, struct causes *c);
void validate_sandbox_name(const struct json *obj, const struct json *old, struct causes *c);
