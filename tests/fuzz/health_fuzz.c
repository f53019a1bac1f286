/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "node/pod/health_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Reads the bytes as the answer to a health check. What we would ask with the same bytes as the
 * name of a service is well-formed, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *service = xstrndup((const char *)data, len);
	autobuf request = { 0 };
	uint64_t status = 0;

	err_free(health_response((const char *)data, len, &status));
	(void)health_name(status);
	(void)grpc_code_name(service);
	health_request(&request, service);
	if (health_response(buf_head(&request), request.len, &status))
		abort();
	return 0;
}
