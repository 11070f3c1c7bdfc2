/**
 * A request as a conversation: roles, folded tools and long texts, a search, and the JSON on demand.
 */

import { button, copy, fill, group, h } from "./dom.js";
import { jsonText, longText, part } from "./message.js";
import { later } from "./slices.js";
import { count, many } from "./words.js";

/** From how many characters on a text is folded. */
const LONG = 1200;
const ROLES = { system: "System", user: "User", assistant: "Model", tool: "Tool result" };

/** Show the messages of `conversation`; `raw` is the JSON that was sent, shown on demand. */
export function requestView(conversation, raw, label) {
  const place = h("div.thread");
  const view = group(label, "");
  const { system = "", messages = [], tools = [], first = 0 } = conversation ?? {};
  let isRaw = !messages.length && !system;
  const find = h("input", {
    type: "search",
    placeholder: "Find in messages",
    "aria-label": "Find in messages",
    on: { input: later(150, () => draw()) },
  });
  const toggle = button("", () => {
    isRaw = !isRaw;
    draw();
  });
  const parts = [
    tools.length ? [() => toolList(tools), JSON.stringify(tools)] : null,
    system ? [() => bubble("system", folded(system, "System prompt")), system] : null,
    ...messages.map((one) => [() => message(one), plain(one)]),
  ].filter(Boolean);

  function draw() {
    toggle.textContent = isRaw ? "Messages" : "Raw JSON";
    find.hidden = isRaw;
    if (isRaw) {
      fill(place, raw == null ? h("p.quiet", "The body was not stored.") : rawText(raw, label));
      return;
    }
    const wanted = find.value.trim().toLowerCase();
    const shown = wanted ? parts.filter(([, text]) => text.toLowerCase().includes(wanted)) : parts;
    fill(
      place,
      first > 0 && !wanted ? h("p.quiet", `${many(first, "earlier message")} not shown.`) : null,
      wanted ? h("p.quiet", { role: "status" }, `${count(shown.length)} of ${many(parts.length, "part")}`) : null,
      shown.map(([make]) => make()),
    );
    if (wanted) for (const one of place.querySelectorAll("details")) one.open = true;
  }

  draw();
  fill(view, place);
  const copied = typeof raw === "string" ? raw : JSON.stringify(raw, null, 2);
  return h(
    "div.events",
    h("div.bar.tight", find, toggle, raw != null && button("Copy JSON", () => copy(copied, "request"))),
    view,
  );
}

const rawText = (raw, label) => (typeof raw === "string" ? longText(raw, label) : jsonText(raw, label));

/** The words of a message, to search in. */
const plain = ({ role, ...rest }) => `${role} ${JSON.stringify(rest)}`.replaceAll("\\n", " ");

/** Show one message of any role; `isBrief` folds reasoning, and shows each call on one line. */
export function message(one, isBrief = false) {
  const { role = "user", content = "", text, name, is_error: isError } = one;
  if (role === "tool")
    return bubble("tool", value(content, "Result"), `Result of ${name || one.id || "a call"}`, isError && "failed");
  if (role === "system") return bubble(role, folded(text ?? "", "System message"));
  const blocks = Array.isArray(content) ? content : [{ type: "text", text: String(content) }];
  return bubble(
    role,
    blocks.map((each) => block(each, isBrief)),
  );
}

function block(one, isBrief) {
  if (one.type === "text") return folded(one.text ?? "", "Text");
  if (one.type === "image") return h("p.quiet", { text: `image ${one.media_type ?? ""} ${(one.url ?? "").slice(0, 200)}` });
  return part(one, isBrief);
}

function value(content, label) {
  if (typeof content === "string") return folded(content, label);
  if (Array.isArray(content) && content.every((one) => one?.type === "text"))
    return content.map((one) => block(one));
  return jsonText(content, label);
}

function folded(text, label) {
  if (text.length <= LONG) return h("div.prose", { text });
  return h(
    "details.fold",
    h("summary", h("span.prose", { text: text.slice(0, 240).trimEnd() }), h("span.quiet", ` … ${count(text.length)} characters`)),
    longText(text, label),
  );
}

function toolList(tools) {
  const one = ({ name, description = "", parameters }) =>
    h(
      "details.fold",
      h("summary", h("b.k-name", { text: name }), " ", h("span.quiet", { text: description.slice(0, 120) })),
      description.length > 120 && h("div.prose", { text: description }),
      jsonText(parameters ?? {}, "Parameters"),
    );
  return h(
    "details.bubble.tools",
    h("summary", h("h3", many(tools.length, "tool"))),
    tools.map(one),
  );
}

function bubble(role, inside, name = ROLES[role] ?? role, note = "") {
  const body = h("div.said", inside);
  return h(
    "article",
    { class: `bubble ${role}`, "aria-label": name },
    h(
      "header",
      h("h3", { text: name }),
      note && h("span.pill", note),
      button("Copy", () => copy(body.innerText, "message"), { class: "plain copy" }),
    ),
    body,
  );
}
