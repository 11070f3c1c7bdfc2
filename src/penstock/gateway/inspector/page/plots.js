/**
 * Plots over time, drawn as SVG: bars that stack, lines, and lists with bars.
 *
 * Each has a text alternative with its totals, and its values as tooltips.
 */

import { h, svg } from "./dom.js";
import { count } from "./words.js";

const [WIDTH, TALL] = [600, 120];
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit" });

/** A plot of `buckets`. `series` are `[name, read, look]`; `isLine` draws lines, else stacked bars. */
export function plot(title, buckets, series, { isLine = false, unit = count } = {}) {
  const values = buckets.map((bucket) => series.map(([, read]) => read(bucket)));
  const most = Math.max(
    ...values.map((one) =>
      isLine ? Math.max(...one.map((x) => x ?? 0)) : one.reduce((sum, x) => sum + (x ?? 0), 0),
    ),
    0,
  );
  const sums = series.map(([name], at) => {
    const all = values.map((one) => one[at]).filter((one) => one != null);
    return isLine
      ? `${name} up to ${unit(Math.max(0, ...all))}`
      : `${name} ${unit(all.reduce((sum, one) => sum + one, 0))}`;
  });
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${TALL}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${title}: ${sums.join(", ")}`,
    },
    [0.5, 1].map((part) =>
      svg("line", {
        class: "grid",
        x1: 0,
        x2: WIDTH,
        y1: TALL - part * (TALL - 4),
        y2: TALL - part * (TALL - 4),
      }),
    ),
    most > 0 && (isLine ? lines(values, series, most) : bars(values, series, most)),
    hover(buckets, values, series, unit),
  );
  return h(
    "figure.figure-box",
    h("figcaption", h("b", title), h("span.quiet.most", most > 0 ? `up to ${unit(most)}` : "no data")),
    drawing,
    h(
      "div.axis",
      { "aria-hidden": "true" },
      [0, 0.5, 1].map((part) => h("span", at(buckets, part))),
    ),
    h(
      "ul.series",
      sums.map((words, place) => h("li", h("span", { class: `swatch ${series[place][2]}` }), words)),
    ),
  );
}

function at(buckets, part) {
  const found = buckets[Math.round((buckets.length - 1) * part)];
  if (!found) return "";
  const isLong = buckets.at(-1).t - buckets[0].t > 86_400;
  return (isLong ? DAY : CLOCK).format(new Date(found.t * 1000));
}

function bars(values, series, most) {
  const step = WIDTH / values.length;
  const paths = series.map(() => "");
  values.forEach((one, place) => {
    let y = TALL;
    one.forEach((value, which) => {
      const tall = ((value ?? 0) / most) * (TALL - 4);
      if (tall <= 0) return;
      paths[which] +=
        `M${(place * step + step * 0.12).toFixed(1)} ${y.toFixed(1)}v-${tall.toFixed(1)}h${(step * 0.76).toFixed(1)}v${tall.toFixed(1)}z`;
      y -= tall;
    });
  });
  return paths.map((d, which) => svg("path", { class: `bar ${series[which][2]}`, d }));
}

function lines(values, series, most) {
  const step = WIDTH / values.length;
  return series.map(([, , look], which) => {
    let [path, dots, isDown] = ["", "", false];
    values.forEach((one, place) => {
      const known = one[which] != null;
      if (known) {
        const point = `${((place + 0.5) * step).toFixed(1)} ${(TALL - 4 - (one[which] / most) * (TALL - 8)).toFixed(1)}`;
        path += `${isDown ? "L" : "M"}${point}`;
        dots += `M${point}h0.01`;
      }
      isDown = known;
    });
    return [
      svg("path", { class: `line ${look}`, d: path }),
      svg("path", { class: `line dots ${look}`, d: dots }),
    ];
  });
}

/** Invisible bars, one for each bucket, with its values as a tooltip. */
function hover(buckets, values, series, unit) {
  const step = WIDTH / buckets.length;
  return buckets.map((bucket, place) => {
    const told = series.map(
      ([name], which) => `${name}: ${values[place][which] == null ? "–" : unit(values[place][which])}`,
    );
    return svg(
      "rect.touch",
      { x: place * step, width: step, y: 0, height: TALL },
      svg("title", `${new Date(bucket.t * 1000).toLocaleString()}\n${told.join("\n")}`),
    );
  });
}

/** Names with counts, the largest first, each with a bar and a link to its streams by `filter`. */
export function ranks(title, figures, filter, shown = 12) {
  const pairs = Object.entries(figures ?? {})
    .filter(([, value]) => Number.isFinite(value))
    .sort((a, b) => b[1] - a[1]);
  const most = Math.max(1e-12, ...pairs.map(([, value]) => value));
  const bar = (value) =>
    svg(
      "svg",
      { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "rank", "aria-hidden": "true" },
      svg("rect.bar.one", { width: (value / most) * 100, height: 8, rx: 1 }),
    );
  const line = ([name, value]) =>
    h(
      "li",
      h("a", { href: `#/streams?${new URLSearchParams({ [filter]: name })}`, text: name }),
      bar(value),
      h("span.figure", count(value)),
    );
  return h(
    "figure.figure-box",
    h("figcaption", h("b", title), h("span.quiet.most", "whole period")),
    pairs.length ? h("ol.ranks", pairs.slice(0, shown).map(line)) : h("p.quiet", "no data"),
    pairs.length > shown && h("p.quiet", `and ${pairs.length - shown} more`),
  );
}
