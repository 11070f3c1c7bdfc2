/**
 * A worker that parses JSON of many megabytes and sends the value in parts.
 *
 * To parse it, or to receive all of it at once, would block the page. So long lists and texts are
 * removed from the value, which is sent first, and follow in parts, each in a task of its own.
 */

/** How many items of a list are sent at a time. */
const PART = 1000;

/** How many characters of a text are sent at a time. */
const PIECE = 1_000_000;

self.addEventListener("message", ({ data }) => {
  try {
    const long = [];
    const value = emptied(JSON.parse(new TextDecoder().decode(data)), [], long);
    self.postMessage({ value });
    for (const [path, one] of long) {
      const size = typeof one === "string" ? PIECE : PART;
      for (let at = 0; at < one.length; at += size)
        self.postMessage({ path, part: one.slice(at, at + size) });
    }
    self.postMessage({ done: true });
  } catch (error) {
    self.postMessage({ error: error.message });
  }
});

/** Return `value` with its long lists and texts empty; they are put into `long` with their paths. */
function emptied(value, path, long) {
  if (Array.isArray(value) && value.length > PART) {
    long.push([path, value]);
    return [];
  }
  if (typeof value === "string" && value.length > PIECE) {
    long.push([path, value]);
    return "";
  }
  if (value && typeof value === "object" && !Array.isArray(value) && path.length < 2) {
    for (const key of Object.keys(value)) value[key] = emptied(value[key], [...path, key], long);
  }
  return value;
}
