// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import { test } from "node:test";
import { amountText } from "../../api/amounts.ts";
import { agentsOf, duration, until } from "./amounts.ts";
import { addUp, csv, lastDays, sortBy } from "./costs.ts";

const ledger = (name: string, rows: object[]) => ({ metadata: { name, namespace: "default" }, status: { rows } });

test("ledgers add up exactly, by day and by whom", () => {
	const days = lastDays(3, Date.parse("2026-11-18T23:59:59Z"));
	assert.deepEqual(days, ["2026-11-16", "2026-11-17", "2026-11-18"]);
	const c = addUp(
		[
			ledger("2026-11-15", [{ agent: "a", cpuSeconds: "1000" }]),
			ledger("2026-11-16", [{ agent: "a", cpuSeconds: "0.1" }, { cpuSeconds: "0.2", networkBytes: "7" }]),
			ledger("2026-11-18", [{ agent: "a", cpuSeconds: "0.2" }]),
		],
		"agent",
		days,
	);
	assert.equal(amountText(c.total.cpuSeconds), "0.5");
	assert.deepEqual(sortBy(c.rows, "cpuSeconds").map((r) => [r.who, amountText(r.sums.cpuSeconds)]), [["a", "0.3"], ["", "0.2"]]);
	assert.deepEqual(c.days.map((d) => amountText(d.sums.cpuSeconds)), ["0.3", "0", "0.2"]);
});

test("a name is no formula in a spreadsheet", () => {
	const days = ["2026-11-18"];
	const c = addUp([ledger("2026-11-18", [{ user: "=cmd|' /C calc'!A0", cpuSeconds: "1" }, { user: 'a"b,c', cpuSeconds: "2" }])], "user", days);
	const text = csv(sortBy(c.rows, "cpuSeconds"), "user", days[0]!, days[0]!);
	assert.ok(text.includes(`default,"a""b,c",2,`));
	assert.ok(text.includes(`default,'=cmd|' /C calc'!A0,1,`));
});

test("durations, and when counting begins anew", () => {
	assert.equal(duration("1h30m"), 5_400_000);
	assert.equal(duration("1.5h"), 5_400_000);
	assert.equal(duration("250ms"), 250);
	for (const bad of ["", "x", "1", "1d", undefined])
		assert.equal(duration(bad), undefined);
	assert.equal(until({ metadata: { name: "b" }, spec: { period: "24h" }, status: { periodStart: "2026-11-18T00:00:00Z" } }), Date.parse("2026-11-19T00:00:00Z"));
	assert.equal(until({ metadata: { name: "b" } }), undefined);
});

test("children count against their parents' budgets, and all against the team's", () => {
	const agent = (name: string, spec: object) => ({ metadata: { name, namespace: "default" }, spec });
	const all = [agent("lead", { budget: "b" }), agent("child", { parent: "lead" }), agent("other", {}), agent("loop", { parent: "loop" })];
	const b = { metadata: { name: "b", namespace: "default" } };
	assert.deepEqual(agentsOf(b, all, []).map((a) => a.metadata.name), ["lead", "child"]);
	assert.equal(agentsOf(b, all, [{ metadata: { name: "team", namespace: "default" }, spec: { budget: "b" } }]).length, 4);
	assert.equal(agentsOf(b, all, [{ metadata: { name: "team", namespace: "elsewhere" }, spec: { budget: "b" } }]).length, 2);
});
