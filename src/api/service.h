/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct causes;
struct json;
struct object;

/*
 * Rules about Services for those who read or write the tree. spec is the Service's own; NULL has
 * none of what is asked for.
 */
#define LABEL_SERVICE_NAME "kubernetes.io/service-name"

/* The ServiceCIDR that shows the blocks of this server, and why there is no other. */
#define SERVICE_CIDR_NAME  "kubernetes"
#define SERVICE_CIDR_FIXED "the blocks of Services are a setting of this server (--service-cidr)"

enum {
	SERVICE_FAMILIES_MAX = 2,
	NODE_PORT_FIRST = 30000,
	NODE_PORT_LAST = 32767,
};

bool service_is_external(const struct json *spec); /* a name of somebody else's: no addresses */
bool service_is_headless(const struct json *spec); /* its addresses are those of its Pods */
bool service_has_node_ports(const struct json *spec);
bool service_is_reachable_from_outside(const struct json *spec);
/* Load balancers that keep to local endpoints ask a port of the node how these are. */
bool service_has_health_port(const struct json *spec);
bool service_selects(const struct json *selector, const struct json *labels); /* empty: nothing */
/* The number that one of the Service's ports has in a Pod; 0: the Pod has no port of that name. */
int64_t service_target_port(const struct json *port, const struct json *pod_spec);
/*
 * Whether an endpoint of an EndpointSlice in the namespace ns is what it says: an address of this
 * Pod, in that namespace. Anybody who may write slices may write any address into one, and whoever
 * leads connections there would do it with rights of his own. pod NULL: there is none.
 */
bool service_endpoint_is_real(const struct json *endpoint, const char *ns,
			      const struct object *pod);
/* The name of the Pod that an endpoint says it is; NULL: it says none. */
const char *service_endpoint_pod(const struct json *endpoint);
/* The number that a slice has for a port of the Service; 0: none. name: "" for one without. */
int64_t service_slice_port(const struct json *slice, const char *name, const char *protocol);

/* What clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy must satisfy before addresses are
 * allocated, and afterwards. was is the spec before, or NULL. */
void service_check_addresses(const struct json *spec, const struct json *was, struct causes *c);
