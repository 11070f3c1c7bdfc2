/**
 * Requests to the gateway, and the API key that they need.
 *
 * The user is asked for the key once, when the gateway requires one. It stays in the session storage
 * of this tab. Streams are read with `fetch`, because `EventSource` cannot send headers.
 */

import { dialog, h } from "./dom.js";
import { wait } from "./slices.js";

const KEY = "penstock.key";

/** The characters of a key: those that a header can hold. */
const PLAIN = /^[!-~]+$/u;

/** How often a request is retried for something that may not exist yet. */
const TRIES = 8;

/** The longest frame of a stream; a longer one is split. */
const MAX_FRAME = 32 * 1024 * 1024;

/** From how many bytes on a response is parsed by a worker. */
const LONG = 2_000_000;

/** An error response: its `status` and the gateway's message; `isOff` where the log is disabled. */
export class Refused extends Error {
  constructor(status, words, isOff = false) {
    super(words);
    this.status = status;
    this.isOff = isOff;
  }
}

/** Return the description of the gateway; throw `Refused` if its log is disabled. */
export async function aboutLog() {
  const known = await about();
  if (!known.log) throw new Refused(404, "This gateway does not log requests.", true);
  return known;
}

/** Request `path`; return the response or throw `Refused`. Asks the user for a key if needed. */
export async function ask(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { accept };
    if (key) headers.authorization = `Bearer ${key}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const response = await fetch(path, { method, headers, body: sent, signal, cache: "no-store" }).catch((error) => {
      throw signal?.aborted ? error : new Error("The gateway does not respond.");
    });
    if (response.ok) return response;
    const words = await refusal(response);
    if (response.status !== 401 || !(await askForKey(words, key, signal)))
      throw new Refused(response.status, words);
  }
}

/** Request JSON. */
export async function askJSON(path, given) {
  return (await ask(path, given)).json();
}

/** Request JSON that may have many megabytes: a long one is parsed by a worker. */
export async function askLong(path, given) {
  const data = await (await ask(path, given)).arrayBuffer();
  return data.byteLength < LONG ? JSON.parse(new TextDecoder().decode(data)) : inParts(data);
}

/** Request something that may not exist yet: a stream is in the log a moment after its end. */
export async function askSoon(path, given) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await askLong(path, given);
    } catch (error) {
      if (error.status !== 404 || error.isOff || tries === TRIES) throw error;
      await wait(tries * 200);
    }
  }
}

function inParts(data) {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./parts.js", import.meta.url), { type: "module" });
    const end = (act, given) => {
      worker.terminate();
      act(given);
    };
    let value;
    worker.addEventListener("error", () => end(reject, new Error("the response could not be parsed")));
    worker.addEventListener("message", ({ data: part }) => {
      if (part.error) end(reject, new Error(part.error));
      else if (part.done) end(resolve, value);
      else if (part.path) join(value, part);
      else value = part.value;
    });
    worker.postMessage(data, [data]);
  });
}

function join(value, { path, part }) {
  const [name, holder] = [path.at(-1), path.slice(0, -1).reduce((inner, key) => inner[key], value)];
  if (typeof part === "string") holder[name] += part;
  else holder[name].push(...part);
}

/** Request text. */
export async function askText(path, given) {
  return (await ask(path, { accept: "text/plain", ...given })).text();
}

/** Return `path` with those of `given` that are not empty as its query. */
export function withQuery(path, given) {
  const pairs = Object.entries(given).filter(([, value]) => value !== "" && value != null);
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

async function refusal(response) {
  const text = (await response.text()).slice(0, 4000);
  try {
    const said = JSON.parse(text);
    return said.error?.message ?? said.message ?? text;
  } catch {
    return text || `${response.status} ${response.statusText}`;
  }
}

let asking = null;

/** Ask the user for the key, once for all requests that wait; return whether there is a new one. */
async function askForKey(words, tried, signal) {
  if (!asking && sessionStorage.getItem(KEY) !== tried) return true;
  asking ??= keyDialog(words).finally(() => (asking = null));
  return (await asking) && !signal?.aborted;
}

/** Store `key` in this tab, or remove the stored one. */
export function keepKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else if (key === "") sessionStorage.removeItem(KEY);
  document.getElementById("forget").hidden = !sessionStorage.getItem(KEY);
}

function keyDialog(words) {
  keepKey("");
  return new Promise((resolve) => {
    const input = h("input", {
      type: "password",
      name: "key",
      autocomplete: "off",
      required: true,
      "aria-label": "API key",
    });
    const wrong = h("p.wrong", { role: "alert" });
    const form = h(
      "form.stack",
      h("p", { text: words }),
      input,
      wrong,
      h("p.hint", "Stored in this tab until you close it, and sent to this gateway only."),
      h("div.actions", h("button.primary", "Continue")),
    );
    const box = dialog("API key required", form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (!PLAIN.test(key)) {
        wrong.textContent = "A key consists of ASCII letters, digits and punctuation, with no spaces.";
        return;
      }
      keepKey(key);
      resolve(true);
      box.close();
    });
    box.addEventListener("close", () => resolve(false));
    input.focus();
  });
}

/** Yield the frames of an SSE response as they arrive: `event`, `data` and the `raw` lines. */
export async function* frames(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      rest = (rest + (value ?? "")).replaceAll("\r\n", "\n");
      let end = rest.indexOf("\n\n");
      while (end !== -1 || (rest && (done || rest.length > MAX_FRAME))) {
        const raw = end === -1 ? rest : rest.slice(0, end);
        rest = end === -1 ? "" : rest.slice(end + 2);
        yield frame(raw);
        end = rest.indexOf("\n\n");
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function frame(raw) {
  let [event, data] = ["message", ""];
  for (const line of raw.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data += (data && "\n") + line.slice(5).trimStart();
  }
  return { event, data, raw };
}

let known = null;

/** Return the description of the gateway, which is requested once. */
export function about() {
  known ??= askJSON("/inspector/api/about").catch((error) => {
    known = null;
    throw error;
  });
  return known;
}
