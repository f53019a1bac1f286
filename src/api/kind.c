/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"

#include "base/macros.h"
#include "base/str.h"

/* The order is that of discovery: a short name that two kinds share means the first. */
static const struct kind *const kinds[] = {
	&kind_namespace,
	&kind_pod,
	&kind_service,
	&kind_persistent_volume_claim,
	&kind_secret,
	&kind_config_map,
	&kind_service_account,
	&kind_event,
	&kind_node,
	&kind_endpoint_slice,
	&kind_network_policy,
	&kind_lease,
	&kind_events_event,
	&kind_sandbox,
	&kind_sandbox_v1alpha1,
	&kind_sandbox_template,
	&kind_sandbox_claim,
	&kind_sandbox_warm_pool,
};

const struct kind *const *kinds_all(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(kinds);
	return kinds;
}

const struct kind *kind_find(const char *group, const char *version, const char *plural)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eq(kinds[i]->plural, plural) && str_eq(kinds[i]->version, version) &&
		    str_eq(kinds[i]->group, group))
			return kinds[i];
	return NULL;
}

const struct kind *kind_by_name(const char *group, const char *version, const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (str_eq(kinds[i]->kind, kind) && str_eq(kinds[i]->version, version) &&
		    str_eq(kinds[i]->group, group))
			return kinds[i];
	return NULL;
}

const struct kind *kind_storage(const struct kind *k)
{
	return k->storage ? k->storage : k;
}

const char *kind_api_version(const struct kind *k)
{
	return k->api_version;
}
