/**
 * Overview: how the gateway has been doing, in plots over time.
 */

import { about, askJSON, withQuery } from "./api.js";
import { fill, h, select } from "./dom.js";
import { plot, ranks } from "./plots.js";
import { count, seconds } from "./words.js";

const PERIODS = [
  ["900", "last 15 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
  ["604800", "last week"],
];
const AGAIN = 10_000;
let period = "3600";

/** Show the plots; they are drawn anew every few seconds. */
export async function overview(main, rest, signal) {
  if (!(await about()).log) throw new Error("nothing is logged here: the log is switched off");
  const told = h("div", { class: "totals" });
  const place = h("div", { class: "plots" });
  const choice = select(
    PERIODS,
    period,
    (value) => {
      period = value;
      show().catch((error) => fill(place, h("p", { class: "wrong", text: error.message })));
    },
    "Period",
  );
  fill(main, h("div", { class: "bar" }, h("h1", {}, "Overview"), choice), told, place);

  async function show() {
    const since = Date.now() / 1000 - Number(period);
    const figures = await askJSON(withQuery("/inspector/api/overview", { since, buckets: 60 }), { signal });
    if (!signal.aborted) draw(told, place, figures);
  }

  await show();
  const timer = setInterval(
    () => document.hidden || place.matches(":hover") || show().catch(() => {}),
    AGAIN,
  );
  signal.addEventListener("abort", () => clearInterval(timer));
}

function draw(told, place, { buckets = [], formats, errors, models, cpu, open }) {
  const sum = (name) => buckets.reduce((total, one) => total + (one[name] ?? 0), 0);
  const totals = [
    ["streams", sum("streams")],
    ["failed", sum("failed")],
    ["calls read", sum("calls")],
    ["repaired", sum("repaired")],
  ];
  if (open) totals.unshift(["open now", open]);
  if (cpu?.us_per_chunk) totals.push(["CPU per chunk", `${cpu.us_per_chunk.toFixed(0)} µs`]);
  fill(
    told,
    totals.map(([name, value]) =>
      h(
        "p",
        {},
        h("b", {}, typeof value === "string" ? value : count(value)),
        h("span", { class: "quiet" }, name),
      ),
    ),
  );
  const part = (name, which) => (one) => one[name]?.[which];
  fill(
    place,
    plot("Streams", buckets, [
      ["fine", (one) => (one.streams ?? 0) - (one.failed ?? 0), "one"],
      ["failed", (one) => one.failed, "bad"],
    ]),
    plot(
      "Time to first token",
      buckets,
      [
        ["median", part("ttft", "p50"), "one"],
        ["95th percentile", part("ttft", "p95"), "two"],
      ],
      { isLine: true, unit: seconds },
    ),
    plot(
      "Duration",
      buckets,
      [
        ["median", part("duration", "p50"), "one"],
        ["95th percentile", part("duration", "p95"), "two"],
      ],
      { isLine: true, unit: seconds },
    ),
    plot("Calls read", buckets, [["calls", (one) => one.calls, "one"]]),
    plot("Streams with repairs", buckets, [["repaired", (one) => one.repaired, "two"]]),
    ranks("Calls by format", formats, { link: (name) => `#/streams?format=${encodeURIComponent(name)}` }),
    ranks("Errors by kind", errors, { link: (name) => `#/streams?error=${encodeURIComponent(name)}` }),
    ranks("Streams by model", models, { link: (name) => `#/streams?model=${encodeURIComponent(name)}` }),
  );
}
