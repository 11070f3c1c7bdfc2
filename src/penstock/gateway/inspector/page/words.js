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

/** The tokens in and out; empty if no upstream reported them. */
export const tokenWords = (input, output) => (input || output ? `${count(input)} tokens in, ${count(output)} out` : "");

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
  stop: "answered",
  length: "token limit reached",
  tool_use: "calls tools",
  error: "error",
  aborted: "client left",
  done: "answered",
  failed: "failed",
  interrupted: "gateway stopped",
};

/** The kinds of errors in plain words. */
export const FAILURES = {
  provider: "upstream error",
  transport: "connection failed",
  truncated: "stream cut off",
  malformed: "stream unreadable",
  refusal: "model refused",
  filter: "content filter",
  aborted: "client left",
};

/** How a request ended, or that it is running. */
export function ending(row) {
  if (row.state === "started") return "running";
  if (row.state === "failed") return FAILURES[row.error_kind] ?? (row.error_kind || "failed");
  if (row.state !== "done") return ENDS[row.state] ?? row.state;
  return ENDS[row.finish] ?? ENDS.done;
}

/** The style of a row: good, busy, odd, bad or gone. */
export function mood(row) {
  if (row.state === "started") return "busy";
  if (row.state === "failed" || row.state === "interrupted") return "bad";
  if (row.state !== "done") return "gone";
  return row.finish === "length" || row.incomplete || row.unread ? "odd" : "good";
}

/** The calls of a row: those that clients run, and those that are not complete. */
export function callWords(row) {
  const whole = (row.calls ?? 0) - (row.incomplete ?? 0);
  const parts = [whole > 0 && many(whole, "call"), row.incomplete > 0 && many(row.incomplete, "incomplete call")];
  return parts.filter(Boolean).join(" · ");
}

/** How many unread calls of a stream the gateway reports at most. */
export const MAX_UNREAD = 20;

/** How many texts of a row look like calls, besides its incomplete calls. */
export function unreadCount({ unread, incomplete = 0 }) {
  if (unread >= MAX_UNREAD) return `${MAX_UNREAD}+ unread calls`;
  return unread > incomplete ? many(unread - incomplete, "unread call") : "";
}

/** Why the first text of a row that looks like a call is not one. */
export function unreadWords({ unread, unread_reason: reason = "" }) {
  const least = unread >= MAX_UNREAD ? "at least " : "";
  const more = unread > 1 ? ` (and ${least}${count(unread - 1)} more)` : "";
  return `${(reason || "looks like a call").replace(", but ", ": ")}${more}`;
}

/** The kinds of spans, in the order of the legend, and what each means. */
export const KINDS = {
  text: "sent to the client as it is",
  thinking: "the model's reasoning",
  marker: "markup of the format, not sent to the client",
  name: "name of a tool",
  arguments: "arguments of a call",
  repaired: "arguments of a call that was repaired",
  dropped: "white space that is part of nothing",
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
