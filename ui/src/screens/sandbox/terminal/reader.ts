// SPDX-License-Identifier: Apache-2.0
// Whether terminals speak to a screen reader, which costs time at each output; kept in this browser.
import { effect, signal } from "@preact/signals";

const STORE = "cay.terminal.reader";

function read(): boolean {
	try {
		return localStorage.getItem(STORE) === "on";
	} catch {
		return false;
	}
}

export const readerMode = signal(read());

effect(() => {
	try {
		localStorage.setItem(STORE, readerMode.value ? "on" : "off");
	} catch {
		// it lasts as long as the page
	}
});
