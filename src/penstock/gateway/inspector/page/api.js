/**
 * What the page asks the gateway, and the key it asks with.
 *
 * The key is asked for once, when the gateway wants one, and stays in this tab's session storage.
 * Streams are read with `fetch`, since `EventSource` can send no header.
 */

import { dialog, h } from "./dom.js";
import { wait } from "./slices.js";

const KEY = "penstock.key";

/** What a key is made of: a header can carry no more than that. */
const PLAIN = /^[!-~]+$/u;

/** How often one asks for what may not be there yet. */
const TRIES = 5;

/** The longest frame of a stream that is kept: past it the rest is shown as it comes. */
const MAX_FRAME = 32 * 1024 * 1024;

/** From how many bytes on an answer is read by a worker. */
const LONG = 2_000_000;

/** An answer that is a refusal: `status` and the gateway's own words. */
export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
    this.isOff = /switched off/u.test(words);
  }
}

/** Give what the gateway says of itself; throw `Refused` where it keeps no log. */
export async function aboutLog() {
  const known = await about();
  if (!known.log) throw new Refused(404, "nothing is logged here: the log is switched off");
  return known;
}

/** Ask for `path`; give the response, or throw `Refused`. A key is asked for where one is needed. */
export async function ask(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const headers = { accept };
    if (key) headers.authorization = `Bearer ${key}`;
    if (body !== undefined) headers["content-type"] = "application/json";
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const response = await fetch(path, { method, headers, body: sent, signal, cache: "no-store" });
    if (response.ok) return response;
    const words = await refusal(response);
    if (response.status !== 401 || !(await askForKey(words, key, signal)))
      throw new Refused(response.status, words);
  }
}

/** Ask for JSON. */
export async function askJSON(path, given) {
  return (await ask(path, given)).json();
}

/** Ask for JSON that may have many megabytes: beyond a few a worker reads it. */
export async function askLong(path, given) {
  const data = await (await ask(path, given)).arrayBuffer();
  return data.byteLength < LONG ? JSON.parse(new TextDecoder().decode(data)) : inParts(data);
}

/** Ask for what may not be there yet: a stream is in the log a moment after its end. */
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
    worker.addEventListener("error", () => end(reject, new Error("the answer could not be read")));
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

/** Ask for text. */
export async function askText(path, given) {
  return (await ask(path, { accept: "text/plain", ...given })).text();
}

/** Give `path` with those of `given` that are not empty behind it. */
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

/** Ask the user for the key, once for all who wait for it; tell whether there is a new one. */
async function askForKey(words, tried, signal) {
  if (!asking && sessionStorage.getItem(KEY) !== tried) return true;
  asking ??= keyDialog(words).finally(() => (asking = null));
  return (await asking) && !signal?.aborted;
}

/** Keep `key` in this tab, or forget the one that is kept. */
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
      h("p.hint", "Kept in this tab until it is closed, and sent to this gateway only."),
      h("div.actions", h("button.primary", "Go on")),
    );
    const box = dialog("This gateway asks for a key", form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (!PLAIN.test(key)) {
        wrong.textContent = "A key has letters of English, digits and signs, and no spaces.";
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

/** Give the frames of an SSE response as they come: `event`, `data` and the `raw` lines. */
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

/** Give what the gateway says of itself, asked for once. */
export function about() {
  known ??= askJSON("/inspector/api/about").catch((error) => {
    known = null;
    throw error;
  });
  return known;
}
