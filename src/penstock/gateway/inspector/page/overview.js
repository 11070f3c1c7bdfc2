/**
 * Overview: statistics of the gateway, plotted over time.
 */

import { aboutLog, askJSON, withQuery } from "./api.js";
import { fill, h, select } from "./dom.js";
import { plot, ranks } from "./plots.js";
import { count, PERIODS, seconds } from "./words.js";

const AGAIN = 10_000;
/** The colours of the most frequent kinds. */
const LOOKS = ["one", "two", "three", "bad"];
let period = "3600";

/** Show the plots, and update them every few seconds. */
export async function overview(main, rest, signal) {
  await aboutLog();
  const told = h("div.totals");
  const place = h("div.plots");
  const choice = select(
    PERIODS,
    period,
    (value) => {
      period = value;
      show().catch((error) => fill(place, h("p.wrong", { text: error.message })));
    },
    "Period",
  );
  fill(main, h("div.bar", h("h1", "Overview"), choice), told, place);

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

/** The most frequent kinds over time: `[kind, function that reads its count in a bucket, colour]`. */
function kindsOf(totals, name) {
  const common = Object.keys(totals ?? {}).sort((a, b) => totals[b] - totals[a]);
  return common.slice(0, LOOKS.length).map((kind, at) => [kind, (one) => one[name]?.[kind], LOOKS[at]]);
}

function draw(told, place, { buckets = [], formats, errors, models, cpu, open }) {
  const sum = (name) => buckets.reduce((total, one) => total + (one[name] ?? 0), 0);
  const totals = [
    ["streams", sum("streams")],
    ["failed", sum("failed")],
    ["calls", sum("calls")],
    ["repaired", sum("repaired")],
  ];
  if (open) totals.unshift(["open now", open]);
  if (cpu?.us_per_chunk) totals.push(["CPU per chunk", `${cpu.us_per_chunk.toFixed(0)} µs`]);
  fill(
    told,
    totals.map(([name, value]) =>
      h("p", h("b", typeof value === "string" ? value : count(value)), h("span.quiet", name)),
    ),
  );
  const part = (name, which) => (one) => one[name]?.[which];
  fill(
    place,
    plot("Streams", buckets, [
      ["successful", (one) => (one.streams ?? 0) - (one.failed ?? 0), "one"],
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
    plot("Calls by format, over time", buckets, kindsOf(formats, "formats")),
    plot("Streams with repairs", buckets, [["repaired", (one) => one.repaired, "two"]]),
    plot("Errors", buckets, kindsOf(errors, "errors")),
    cpu &&
      plot("CPU per chunk", buckets, [["gateway process", (one) => one.cpu, "one"]], {
        isLine: true,
        unit: (us) => `${us.toFixed(0)} µs`,
      }),
    ranks("Calls by format", formats, "format"),
    ranks("Errors by kind", errors, "error"),
    ranks("Streams by model", models, "model"),
  );
}
