// SPDX-License-Identifier: Apache-2.0
import { askJson } from "./http.ts";

interface Review {
	status?: { userInfo?: { username?: string; uid?: string } };
}

export interface User {
	name: string;
	/** Tells apart users of the same name, of whom one came after the other. */
	id: string;
}

/** Whom a token belongs to; without one, that of this session. */
export async function whoIs(token?: string): Promise<User> {
	const review = await askJson<Review>("/apis/authentication.k8s.io/v1/selfsubjectreviews", {
		method: "POST",
		body: { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" },
		...(token === undefined ? {} : { token }),
	});
	const { username = "", uid = "" } = review.status?.userInfo ?? {};
	return { name: username, id: username && `${username} ${uid}` };
}
