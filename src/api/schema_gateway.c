/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema_builtin_priv.h"
#include "api/schema_gateway_priv.h"

/*
 * gateway.networking.k8s.io/v1: the Gateway alone, in whose status clients look for the address of
 * the router. Whatever its listeners say about TLS and routes is kept, and means nothing here.
 */
#define GATEWAY "io.k8s.networking.gateway.v1."

static const int64_t zero = 0, one = 1, max_port = 65535, max_listeners = 64, max_addresses = 16;
static const int64_t max_name = 253, max_reason = 1024, max_message = 32768;

static const struct type name = { TYPE_STRING, .min = &one, .max = &max_name };
static const struct type port = { TYPE_INT32, .min = &one, .max = &max_port };
static const struct type count = { TYPE_INT32, .min = &zero };

static const struct field listener_fields[] = {
	{ "name", &name, FIELD_REQUIRED, NULL, "What the listener is called" },
	{ "hostname", &name, 0, NULL, "Host that requests must name; any if unset" },
	{ "port", &port, FIELD_REQUIRED, NULL, "Port that it listens on" },
	{ "protocol", &name, FIELD_REQUIRED, NULL, "What is spoken there: HTTP" },
	{ "tls", &type_any, 0, NULL, "Not used here" },
	{ "allowedRoutes", &type_any, 0, NULL, "Not used here" },
	{ 0 },
};
static const struct type listener = { TYPE_OBJECT, GATEWAY "Listener", listener_fields };
static const struct type listeners = {
	TYPE_LIST,
	.elem = &listener,
	.list = LIST_MAP,
	.merge_keys = { "name" },
	.max = &max_listeners,
};

static const struct field address_fields[] = {
	{ "type", &name, 0, "\"IPAddress\"", "IPAddress, Hostname, or a type of one's own" },
	{ "value", &name, 0, NULL, "The address" },
	{ 0 },
};
static const struct type address = { TYPE_OBJECT, GATEWAY "GatewayAddress", address_fields };
static const struct type addresses = { TYPE_LIST, .elem = &address, .max = &max_addresses };

static const struct field spec_fields[] = {
	{ "gatewayClassName", &name, FIELD_REQUIRED, NULL, "Who takes care of the Gateway" },
	{ "listeners", &listeners, FIELD_REQUIRED, NULL, "Where it is reached" },
	{ "addresses", &addresses, 0, NULL, "Addresses that are wanted" },
	{ "infrastructure", &type_any, 0, NULL, "Not used here" },
	{ "allowedListeners", &type_any, 0, NULL, "Not used here" },
	{ "tls", &type_any, 0, NULL, "Not used here" },
	{ "defaultScope", &type_string, 0, NULL, "Not used here" },
	{ 0 },
};
static const struct type spec = { TYPE_OBJECT, GATEWAY "GatewaySpec", spec_fields };

static const struct type text = { TYPE_STRING, .max = &max_message };
static const struct type reason = { TYPE_STRING, .min = &one, .max = &max_reason };
static const struct field condition_fields[] = {
	{ "type", &name, FIELD_REQUIRED, NULL, "What the condition is about" },
	{ "status", &name, FIELD_REQUIRED, NULL, "True, False or Unknown" },
	{ "observedGeneration", &type_int64, 0, NULL, "Generation it was computed for" },
	{ "lastTransitionTime", &type_time, FIELD_REQUIRED, NULL, "When status last changed" },
	{ "reason", &reason, FIELD_REQUIRED, NULL, "One word for programs" },
	{ "message", &text, FIELD_REQUIRED, NULL, "A sentence for people" },
	{ 0 },
};
static const struct type condition = { TYPE_OBJECT, GATEWAY "Condition", condition_fields };
static const struct type conditions = { TYPE_LIST, .elem = &condition, .list = LIST_MAP,
					.merge_keys = { "type" } };

static const struct field status_fields[] = {
	{ "addresses", &addresses, 0, NULL, "Addresses under which the router is reached" },
	{ "conditions", &conditions, 0, NULL, "Accepted, Programmed" },
	{ "listeners", &type_any, 0, NULL, "State of each listener" },
	{ "attachedListenerSets", &count, 0, NULL, "Not used here" },
	{ 0 },
};
static const struct type status = { TYPE_OBJECT, GATEWAY "GatewayStatus", status_fields };

static const struct field gateway_fields[] = {
	{ "apiVersion", &type_string, 0, NULL, "Group and version of the kind" },
	{ "kind", &type_string, 0, NULL, "Name of the kind" },
	{ "metadata", &type_meta_object_meta, 0, NULL,
	  "Name, namespace, labels, annotations, owners" },
	{ "spec", &spec, FIELD_REQUIRED, NULL, "What is wanted" },
	{ "status", &status, 0, NULL, "What is" },
	{ 0 },
};
const struct type type_gateway = { TYPE_OBJECT, GATEWAY "Gateway", gateway_fields,
				   .structural = true };
