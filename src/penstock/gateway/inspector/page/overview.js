/**
 * Overview: statistics of the gateway, plotted over time.
 */

import { aboutLog, askJSON, withQuery } from "./api.js";
import { fill, h, select } from "./dom.js";
import { plot, ranks } from "./plots.js";
import { count, FAILURES, PERIODS, seconds } from "./words.js";

const AGAIN = 10_000;
const DAY = 86_400;
/** The period that begins with the first request of the last day. */
const FIT = "fit";
/** The colours of the most frequent kinds: none of them is that of a failure or a repair. */
const LOOKS = ["a", "b", "c", "d"];
const BAD = ["bad", "bad-2", "bad-3", "bad-4"];
let period = FIT;

/** Show the plots, and update them every few seconds. */
export async function overview(main, rest, signal) {
  await aboutLog();
  const told = h("div.totals");
  const place = h("div.plots");
  const choice = select(
    [[FIT, "last day, fitted"], ...PERIODS],
    period,
    (value) => {
      period = value;
      show().catch((error) => fill(place, h("p.wrong", { text: error.message })));
    },
    "Period",
  );
  fill(main, h("div.bar", h("h1", "Overview"), choice), told, place);

  async function show() {
    const isFitted = period === FIT;
    const since = Date.now() / 1000 - (isFitted ? DAY : Number(period));
    const query = { since, buckets: 60, fit: isFitted ? "1" : "" };
    const figures = await askJSON(withQuery("/inspector/api/overview", query), { signal });
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
function kindsOf(totals, name, words = {}, looks = LOOKS) {
  const common = Object.keys(totals ?? {}).sort((a, b) => totals[b] - totals[a]);
  return common
    .slice(0, looks.length)
    .map((kind, at) => [words[kind] ?? kind, (one) => one[name]?.[kind], looks[at]]);
}

const percent = (part) => `${(part * 100).toFixed(part < 0.1 ? 1 : 0)} %`;
const speed = (tokens) => `${tokens.toFixed(tokens < 10 ? 1 : 0)}/s`;

function draw(told, place, { buckets = [], formats, errors, models, failures = {}, open }) {
  const sum = (name) => buckets.reduce((total, one) => total + (one[name] ?? 0), 0);
  const [streams, failed, generated] = [sum("streams"), sum("failed"), sum("seconds")];
  const totals = [
    open ? ["open now", count(open), "#/streams?state=started"] : null,
    ["streams", count(streams), "#/streams"],
    ["failed", `${count(failed)}${streams ? ` (${percent(failed / streams)})` : ""}`, "#/streams?state=failed", failed && "bad"],
    ["calls", count(sum("calls") - sum("incomplete"))],
    ["unread calls", count(sum("unread")), "#/streams?unread=1", sum("unread") && "odd"],
    ["repaired", count(sum("repaired")), "#/streams?repairs=1"],
    ["tokens in", count(sum("input_tokens"))],
    ["tokens out", count(sum("output_tokens"))],
    generated > 0 ? ["tokens per second", (sum("output_tokens") / generated).toFixed(1)] : null,
  ].filter(Boolean);
  fill(
    told,
    totals.map(([name, value, link, look]) =>
      h(
        "p",
        { class: look || "" },
        h("b", value),
        link ? h("a", { href: link }, name) : h("span.quiet", name),
      ),
    ),
  );
  const part = (name, which) => (one) => one[name]?.[which];
  const rates = Object.fromEntries(
    Object.entries(failures).map(([name, number]) => [name, number / Math.max(1, models?.[name] ?? number)]),
  );
  fill(
    place,
    plot("Streams", buckets, [
      ["successful", (one) => (one.streams ?? 0) - (one.failed ?? 0), "ok"],
      ["failed", (one) => one.failed, "bad"],
    ]),
    plot(
      "Time to first token",
      buckets,
      [
        ["median", part("ttft", "p50"), "a"],
        ["95th percentile", part("ttft", "p95"), "b"],
      ],
      { isLine: true, unit: seconds },
    ),
    plot(
      "Duration",
      buckets,
      [
        ["median", part("duration", "p50"), "a"],
        ["95th percentile", part("duration", "p95"), "b"],
      ],
      { isLine: true, unit: seconds },
    ),
    plot(
      "Tokens per second, while generating",
      buckets,
      [["output", (one) => (one.seconds > 0 && one.output_tokens ? one.output_tokens / one.seconds : null), "a"]],
      { isLine: true, unit: speed },
    ),
    plot("Calls by format, over time", buckets, kindsOf(formats, "formats")),
    plot("Repaired responses and unread calls", buckets, [
      ["repaired", (one) => one.repaired, "mild"],
      ["unread", (one) => one.unread, "odd"],
    ]),
    plot("Errors, over time", buckets, kindsOf(errors, "errors", FAILURES, BAD)),
    ranks("Error rate by model", rates, (model) => ({ model, state: "failed" }), { unit: percent, look: "bad" }),
    ranks("Errors by kind", errors, (error) => ({ error }), { look: "bad", names: FAILURES }),
    ranks("Calls by format", formats, (format) => ({ format })),
    ranks("Streams by model", models, (model) => ({ model })),
  );
}
