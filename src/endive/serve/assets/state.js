// Configurations as nested objects with dotted keys, and the state of the page in its address.

export function get(tree, key) {
  return key.split(".").reduce((node, part) => (node && typeof node === "object" ? node[part] : undefined), tree);
}

export function put(tree, key, value) {
  const made = structuredClone(tree);
  const parts = key.split(".");
  const last = parts.pop();
  let node = made;
  for (const part of parts) {
    if (!node[part] || typeof node[part] !== "object" || Array.isArray(node[part])) node[part] = {};
    node = node[part];
  }
  node[last] = value;
  return made;
}

// Removes a key and the tables that become empty; an empty class remains.
export function without(tree, key) {
  const made = structuredClone(tree);
  const parts = key.split(".");
  const nodes = [made];
  for (const part of parts.slice(0, -1)) {
    const next = nodes.at(-1)[part];
    if (!next || typeof next !== "object") return made;
    nodes.push(next);
  }
  delete nodes.at(-1)[parts.at(-1)];
  for (let depth = nodes.length - 1; depth > 0; depth--) {
    const isClass = depth === 2 && parts[0] === "workload";
    if (Object.keys(nodes[depth]).length || isClass) break;
    delete nodes[depth - 1][parts[depth - 1]];
  }
  return made;
}

export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export function readAddress() {
  try {
    const bytes = Uint8Array.from(atob(location.hash.slice(1).replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(bytes));
    return state && typeof state.tree === "object" ? state : null;
  } catch {
    return null;
  }
}

export function writeAddress(state) {
  const bytes = new TextEncoder().encode(JSON.stringify(state));
  const text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  history.replaceState(null, "", `#${text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`);
}

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("aria-") || name === "role" || name === "for" || name.startsWith("data-")) made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
