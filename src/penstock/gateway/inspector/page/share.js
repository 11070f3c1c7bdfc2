/**
 * The state of the playground in the fragment of an address: JSON, deflated.
 *
 * Links are not trusted: their size is limited, and each value is checked before use.
 */

const MAX_INFLATED = 4_000_000;

/** Return `state` as the query of a fragment. */
export async function pack(state) {
  const plain = new TextEncoder().encode(JSON.stringify(state));
  const stream = new Blob([plain]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return `z=${base64url(new Uint8Array(await new Response(stream).arrayBuffer()))}`;
}

/** Read what `pack` wrote; return null for anything else. */
export async function unpack(text) {
  if (!text.startsWith("z=")) return null;
  try {
    const data = atob(text.slice(2).replaceAll("-", "+").replaceAll("_", "/"));
    const state = JSON.parse(await inflated(Uint8Array.from(data, (one) => one.charCodeAt(0))));
    return state && typeof state === "object" ? state : null;
  } catch {
    return null;
  }
}

async function inflated(bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const pieces = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Blob(pieces).text();
    size += value.length;
    if (size > MAX_INFLATED) throw new Error("the link holds too much data");
    pieces.push(value);
  }
}

function base64url(bytes) {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
