// SPDX-License-Identifier: Apache-2.0
import { ApiError, ask } from "../../api/http.ts";

/** A browser does not say why a stream was refused; a plain request of the same path learns it, and throws it. */
export async function why(path: string): Promise<void> {
	try {
		await ask(path);
	} catch (e) {
		// 400 is about the plain request.
		if (e instanceof ApiError && e.code !== 400)
			throw e;
	}
}
