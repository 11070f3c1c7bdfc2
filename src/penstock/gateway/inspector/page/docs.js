/**
 * The endpoints of the gateway, from its OpenAPI document: parameters, schemas, and a form that sends
 * a request.
 */

import { ask, askJSON, keepKey } from "./api.js";
import { button, coded, copy, field, fill, group, h } from "./dom.js";
import { longText } from "./message.js";

/** How deep schemas are open at first; references within them open on a click. */
const OPEN = 1;

const main = document.getElementById("view");
const kept = localStorage.getItem("penstock.theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
keepKey();
document.getElementById("forget").addEventListener("click", () => {
  keepKey("");
  location.reload();
});
askJSON("/openapi.json").then(show, (error) => fill(main, h("p.wrong", { role: "alert", text: error.message })));

function show({ info, paths, components, tags }) {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => ({ path, method: method.toUpperCase(), ...one })),
  );
  const find = h("input", { type: "search", placeholder: "Filter endpoints", "aria-label": "Filter endpoints" });
  const place = h("div.stack");
  const draw = () => {
    const wanted = find.value.trim().toLowerCase();
    const fits = (one) => `${one.method} ${one.path} ${one.summary}`.toLowerCase().includes(wanted);
    fill(
      place,
      tags.map(({ name, description }) => {
        const mine = operations.filter((one) => one.tags.includes(name) && fits(one));
        return mine.length ? h("section.stack", h("div", h("h2", name), h("p.quiet", description)), mine.map((one) => endpoint(one, components))) : null;
      }),
    );
  };
  find.addEventListener("input", draw);
  fill(
    main,
    h("div.bar", h("h1", `API of ${info.title} ${info.version}`), find, h("a", { href: "/openapi.json" }, "openapi.json")),
    h("p", info.description),
    place,
  );
  draw();
}

/** One operation; its details are made when it is opened. */
function endpoint(one, components) {
  const inside = h("div.stack");
  const box = h(
    "details.part.endpoint",
    { id: `${one.method} ${one.path}`.replaceAll(/\W+/gu, "-") },
    h(
      "summary",
      h("span", { class: `pill method ${one.method.toLowerCase()}` }, one.method),
      h("code", { text: one.path }),
      h("span.quiet", coded(one.summary)),
    ),
    inside,
  );
  box.addEventListener("toggle", () => box.open && !inside.firstChild && fill(inside, details(one, components)));
  return box;
}

function details(one, components) {
  const { parameters = [], requestBody, responses, security } = one;
  const body = requestBody?.content["application/json"];
  return [
    security ? null : h("p.quiet", "Needs no key."),
    parameters.length ? [h("h3", "Parameters"), h("dl.schema", parameters.map((each) => property(each.name, { ...each.schema, description: each.description }, each.required, components, 0)))] : null,
    body ? [h("h3", "Request body"), h("div.schema", schema(body.schema, components, 0))] : null,
    Object.entries(responses["200"].content ?? {}).map(([kind, { schema: given }]) => [
      h("h3", kind === "text/event-stream" ? "Response with stream = true: data of each event" : "Response"),
      h("div.schema", schema(given, components, 0)),
    ]),
    trial(one, body?.example),
  ];
}

// --- schemas ---

/** Follow a reference; return the schema and its name. */
function resolved(given, components) {
  const name = given.$ref?.split("/").at(-1);
  return name ? [components.schemas[name] ?? {}, name] : [given, ""];
}

function typeOf(given) {
  if (given.$ref) return given.$ref.split("/").at(-1);
  if (given.enum) return given.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (given.type === "array") return `array of ${typeOf(given.items ?? {})}`;
  if (given.anyOf) return given.anyOf.map(typeOf).join(" | ");
  return [given.type ?? "any"].flat().join(" | ");
}

/** The parts of a schema that have fields of their own. */
function within(given) {
  if (given.$ref || given.properties) return [given];
  if (given.type === "array") return within(given.items ?? {});
  return [...(given.anyOf ?? []), ...(given.allOf ?? [])].flatMap(within);
}

function schema(given, components, depth) {
  const [found, name] = resolved(given, components);
  const fields = Object.entries(found.properties ?? {});
  const parts = fields.length ? [] : within(found);
  return [
    name && h("p", h("b", { text: name })),
    found.description && h("p.quiet", { text: found.description }),
    fields.length
      ? h("dl", fields.map(([key, value]) => property(key, value, found.required?.includes(key), components, depth)))
      : null,
    parts.map((one) => folded(one, components, depth)),
    fields.length || parts.length ? null : h("code", { text: typeOf(found) }),
  ];
}

function property(name, given, isRequired, components, depth) {
  const usual = given.default !== undefined && given.default !== null && given.default !== "" ? ` · default ${JSON.stringify(given.default)}` : "";
  return h(
    "div",
    h("dt", h("code", { text: name }), isRequired ? h("span.needed", " required") : null),
    h(
      "dd",
      h("code.quiet", { text: `${typeOf(given)}${usual}` }),
      given.description ? [" ", h("span", coded(given.description))] : null,
      within(given).map((one) => folded(one, components, depth + 1)),
    ),
  );
}

/** A schema within another, folded; it is made when it is opened, so that one may contain itself. */
function folded(given, components, depth) {
  const inside = h("div.schema");
  const box = h("details.fold", h("summary", h("code", { text: given.$ref ? typeOf(given) : "fields" })), inside);
  const open = () => box.open && !inside.firstChild && fill(inside, schema(given, components, depth));
  box.addEventListener("toggle", open);
  if (depth < OPEN && !given.$ref) {
    box.open = true;
    open();
  }
  return box;
}

// --- requests ---

/** A form that sends the request. */
function trial({ path, method, parameters = [] }, example) {
  const inputs = parameters
    .map((one) => [one, h("input", { type: "text", "aria-label": one.name })]);
  const text = (given) => (given ? JSON.stringify(given, null, 2) : "");
  const body = method === "POST" ? h("textarea.code", { rows: 8, "aria-label": "Request body", value: text(example) }) : null;
  if (example?.model)
    firstModel().then((model) => {
      if (model && body.value === text(example)) body.value = text({ ...example, model });
    });
  const result = group("Response", "trial");
  const address = () => {
    let found = path;
    const query = new URLSearchParams();
    for (const [{ name, in: where }, { value }] of inputs) {
      if (where === "path") found = found.replace(`{${name}}`, encodeURIComponent(value));
      else if (value) query.set(name, value);
    }
    return query.size ? `${found}?${query}` : found;
  };
  const send = h("button.primary", "Send");
  const curl = button("Copy as curl", () => {
    const parts = [`curl${method === "GET" ? "" : ` -X ${method}`} '${location.origin}${address()}'`];
    if (body?.value) parts.push("-H 'content-type: application/json'", `-d '${body.value.replaceAll("'", String.raw`'\''`)}'`);
    copy(parts.join(" \\\n  "), "command");
  });
  const form = h(
    "form.stack",
    inputs.length ? h("div.inputs", inputs.map(([one, input]) => field(one.name, input))) : null,
    body && field("Request body", body),
    h("div.actions", curl, send),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    fill(result, h("p.quiet", "Waiting …"));
    try {
      const given = body?.value.trim() ? JSON.parse(body.value) : undefined;
      const response = await ask(address(), { method, body: given, accept: "*/*" });
      const said = await response.text();
      fill(result, h("p.quiet", `${response.status} ${response.headers.get("content-type") ?? ""}`), longText(pretty(said), "Response"));
    } catch (error) {
      fill(result, h("p.wrong", { text: error.message }));
    } finally {
      send.disabled = false;
    }
  });
  return h("details.fold", { open: Boolean(example) }, h("summary", "Try it"), form, result);
}

/** Return a model of this gateway; an empty string without a key for it: reading needs none. */
async function firstModel() {
  const key = sessionStorage.getItem("penstock.key");
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const response = await fetch("/v1/models", { headers });
  return response.ok ? ((await response.json()).data?.[0]?.id ?? "") : "";
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
