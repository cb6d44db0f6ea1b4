// Helpers. Text from the data is inserted only as text nodes, never as markup.

// The panels of the page in order. Every script in `panels` adds one, with its section in the navigation.
const PANELS = [];
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (key === "style") for (const [name, v] of Object.entries(value)) node.style.setProperty(name, v);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) node.append(child instanceof Node ? child : String(child));
  }
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

function number(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value !== "number" || Number.isSafeInteger(value)) return String(value);
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5)) return value.toExponential(digits - 1);
  return String(Number(value.toPrecision(digits)));
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function later(act, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => act(...given), milliseconds);
  };
}

// A panel with a title. `save` adds buttons that save it as an image.
function card(title, { save = true, note = "" } = {}) {
  const body = el("div", { class: "body" });
  const root = el(
    "section",
    { class: "card", "aria-label": title },
    el("header", {}, el("h3", {}, title), save ? saveButtons(() => root, title) : null),
    note ? el("p", { class: "note" }, note) : null,
    body,
  );
  return { root, body };
}

function choice(label, options, value, change) {
  const select = el(
    "select",
    { "aria-label": label, on: { change: () => change(Number(select.value)) } },
    options.map((name, i) => el("option", { value: i, selected: i === value }, name)),
  );
  return { root: el("label", {}, label, select) };
}

// Replaces the content of a box. The control that had the focus gets it back.
function refill(box, ...children) {
  const label = box.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  box.replaceChildren(...children);
  if (label === null) return;
  const same = [...box.querySelectorAll("[aria-label]")].find((node) => node.getAttribute("aria-label") === label);
  same?.focus({ preventScroll: true });
}

const gap = (text) => el("div", { class: "gap" }, text);

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select and copy";
  }
  setTimeout(() => {
    button.textContent = before;
  }, 1500);
}
