// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";

/** A connection that dies with bytes in it: they wait for ever, as a browser counts them. */
class Dying {
	static readonly OPEN = 1;
	readyState = 1;
	bufferedAmount = 0;
	protocol = "v5.channel.k8s.io";
	onopen?: () => void;
	onclose?: (c: { reason: string }) => void;

	constructor() {
		setTimeout(() => this.onopen?.());
		setTimeout(() => {
			this.readyState = 3;
			this.onclose?.({ reason: "" });
		}, 30);
	}

	send(data: Uint8Array): void {
		this.bufferedAmount += data.length;
	}

	close(): void {}
}

test("a command whose connection dies under its input has an end", async () => {
	Object.assign(globalThis, { WebSocket: Dying, location: { protocol: "https:", host: "here" } });
	const { run } = await import("./channels.ts");
	const r = await run({ ns: "default", pod: "box", command: ["cat"] }, new Uint8Array(8 * 1024 * 1024));
	assert.equal(r.code, undefined);
});
