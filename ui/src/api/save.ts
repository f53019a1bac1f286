// SPDX-License-Identifier: Apache-2.0

const KEPT_MS = 60_000; // a browser may ask where to put it first

/** Gives the reader a file to keep. */
export function saveBlob(blob: Blob, name: string): void {
	const a = document.createElement("a");
	a.href = URL.createObjectURL(blob);
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(a.href), KEPT_MS);
}
