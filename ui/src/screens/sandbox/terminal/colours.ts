// SPDX-License-Identifier: Apache-2.0
// Colours of a terminal: those of the page, and the sixteen that programs name.
import type { ITheme } from "@xterm/xterm";

const LIGHT: ITheme = {
	black: "#1b2027",
	red: "#b3261e",
	green: "#14713a",
	yellow: "#8a5300",
	blue: "#0b62c4",
	magenta: "#6a3fb5",
	cyan: "#00697a",
	white: "#8a93a1",
	brightBlack: "#565f6d",
	brightRed: "#c9362d",
	brightGreen: "#1a7f43",
	brightYellow: "#9a6200",
	brightBlue: "#2474d1",
	brightMagenta: "#8052cc",
	brightCyan: "#00798c",
	brightWhite: "#aab2bd",
};

const DARK: ITheme = {
	black: "#323844",
	red: "#ff8f87",
	green: "#5fd08f",
	yellow: "#f2bd62",
	blue: "#6db1ff",
	magenta: "#c3a5ff",
	cyan: "#62d5e4",
	white: "#d5dae3",
	brightBlack: "#7d8798",
	brightRed: "#ffb0aa",
	brightGreen: "#8ce3b0",
	brightYellow: "#ffd693",
	brightBlue: "#9accff",
	brightMagenta: "#d9c6ff",
	brightCyan: "#95e6f0",
	brightWhite: "#ffffff",
};

/** A colour of the page as it is here and now: what it is called, resolved for the theme. */
function resolved(at: HTMLElement, name: string): string {
	const probe = document.createElement("span");
	probe.style.color = `var(${name})`;
	at.append(probe);
	const colour = getComputedStyle(probe).color;
	probe.remove();
	return colour;
}

function brightness(rgb: string): number {
	const [r = 255, g = 255, b = 255] = (/rgba?\(([^)]*)\)/.exec(rgb)?.[1] ?? "").split(/[,\s]+/).map(Number);
	return r * 0.3 + g * 0.59 + b * 0.11;
}

export function colours(at: HTMLElement): ITheme {
	const background = resolved(at, "--sheet");
	const foreground = resolved(at, "--ink");
	const accent = resolved(at, "--accent");
	return {
		...(brightness(background) > 128 ? LIGHT : DARK),
		background,
		foreground,
		cursor: accent,
		cursorAccent: background,
		selectionBackground: accent.replace(/^rgb\((.*)\)$/, "rgba($1, 0.35)"),
	};
}
