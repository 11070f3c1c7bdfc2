/**
 * Numbers, times and states as text.
 */

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

/** Periods: seconds, and their labels. */
export const PERIODS = [
  ["900", "last 15 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
  ["604800", "last week"],
];

/** When the arguments of a call are sent. */
export const ARGUMENTS = [
  ["live", "live: while they arrive"],
  ["whole", "whole: when complete"],
];

/** An integer with thousands separators. */
export const count = (value) => NUMBER.format(value ?? 0);

/** A count with its noun, singular or plural. */
export const many = (number, one, more = `${one}s`) => `${count(number)} ${number === 1 ? one : more}`;

/** Seconds for people: 420 ms, 3.2 s, 2 min 5 s. */
export function seconds(value) {
  if (value == null) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${value.toFixed(value < 10 ? 2 : 1)} s`;
  return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
}

/** Bytes for people. */
export function bytes(value) {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1000).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

/** The time of day, with the date unless it is today. */
export function moment(created) {
  const date = new Date(created * 1000);
  const clock = CLOCK.format(date);
  return date.toDateString() === new Date().toDateString() ? clock : `${DAY.format(date)} ${clock}`;
}

const ENDS = {
  stop: "stopped",
  length: "token limit",
  tool_use: "calls tools",
  error: "error",
  aborted: "aborted",
  started: "running",
  done: "done",
  failed: "failed",
};

/** How a request ended, or that it is running. */
export function ending(row) {
  if (row.state === "started") return "running";
  if (row.state === "failed") return row.error_kind || "failed";
  return ENDS[row.finish] ?? ENDS[row.state] ?? row.state;
}

/** The style of a row: good, busy, bad or gone. */
export function mood(row) {
  if (row.state === "started") return "busy";
  return { done: "good", failed: "bad", aborted: "gone" }[row.state] ?? "gone";
}

/** The kinds of spans, in the order of the legend, and what each means. */
export const KINDS = {
  text: "text: sent to the client as it is",
  thinking: "thinking: the model's reasoning",
  marker: "marker: markup of the format, not sent to the client",
  name: "name of a tool",
  arguments: "arguments of a call",
  repaired: "repaired: arguments of a call that was repaired",
  dropped: "dropped: white space that is part of nothing",
};

/** A summary of an event; its text may have megabytes, so it is cut. */
export function gist(event) {
  switch (event.type) {
    case "start":
      return event.model ?? "";
    case "text_delta":
    case "thinking_delta":
      return (event.text ?? "").slice(0, 200);
    case "toolcall_start":
      return event.name ?? "";
    case "toolcall_delta":
      return (event.arguments ?? "").slice(0, 200);
    case "toolcall_end":
      return callGist(event.call ?? {});
    case "done":
      return event.reason ?? "";
    case "error":
      return event.error?.message ?? event.reason ?? "";
    default:
      return "";
  }
}

function callGist(call) {
  const mended = call.repairs?.length ? ` · ${call.repairs.join(", ")}` : "";
  return `${call.name ?? "?"}${call.complete === false ? " · not complete" : ""}${mended}`;
}
