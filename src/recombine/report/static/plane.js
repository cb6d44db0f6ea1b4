// The plane of two factors: its cells, its drawing, and the selection of a cell.
function strides(group) {
  const out = group.factors.map(() => 1);
  for (let i = out.length - 2; i >= 0; i--) out[i] = out[i + 1] * group.factors[i + 1].size;
  return out;
}

const cellOf = (group, at) => strides(group).reduce((sum, stride, i) => sum + stride * at[i], 0);

// Width, height and the cell of each pixel, with the first row at the bottom.
function slice(group) {
  const [a, b] = state.axes;
  const step = strides(group);
  const width = group.factors[a].size;
  const flat = group.factors.length < 2;
  const height = flat ? 1 : group.factors[b].size;
  const base = state.at.reduce((sum, v, i) => sum + (i === a || (!flat && i === b) ? 0 : v * step[i]), 0);
  const cells = new Int32Array(width * height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++)
      cells[row * width + column] = base + column * step[a] + (flat ? 0 : row * step[b]);
  }
  return { width, height, cells };
}

// Whether a cell is trained on ("id"), held out ("ood") or does not exist ("unavailable").
function stateOf(group, cell) {
  const { held, gone } = group.loaded;
  if (gone && gone.at(cell) > 0.5) return "unavailable";
  return held && held.at(cell) > 0.5 ? "ood" : "id";
}

// Whether the page contains the images of a cell. Large pages contain those of a draw of cells.
const hasImages = (group, cell) => !group.loaded.drawn || group.loaded.drawn.at(cell) > 0.5;
// The cells of this slice that have images, as marks of the plane.
const withImages = (group) => [...slice(group).cells].filter((cell) => hasImages(group, cell)).map((cell) => ({ cell, weight: 0 }));
const NOT_DRAWN = "This page contains the images of a random draw of combinations; this is not one of them.";
const NOT_ALL = "This needs the images of all trained combinations, and this page contains only some.";

// Diagonal lines over the cells of a slice that do not exist, as an SVG path.
function hatchPath({ width, height, cells }, gone) {
  if (!gone) return "";
  let path = "";
  cells.forEach((cell, i) => {
    if (gone.at(cell) < 0.5) return;
    const x = i % width;
    const y = height - 1 - Math.floor(i / width);
    path += `M${x} ${y + 0.5}L${x + 0.5} ${y}M${x} ${y + 1}L${x + 1} ${y}M${x + 0.5} ${y + 1}L${x + 1} ${y + 0.5}`;
  });
  return path;
}

// The border between trained and held-out cells of a slice, as an SVG path with y pointing down.
function outlinePath({ width, height, cells }, held) {
  if (!held) return "";
  const inside = (x, y) => x >= 0 && y >= 0 && x < width && y < height && held.at(cells[y * width + x]) > 0.5;
  let path = "";
  for (let y = 0; y <= height; y++) {
    for (let x = 0; x <= width; x++) {
      if (y < height && inside(x, y) !== inside(x - 1, y)) path += `M${x} ${height - y}V${height - y - 1}`;
      if (x < width && inside(x, y) !== inside(x, y - 1)) path += `M${x} ${height - y}H${x + 1}`;
    }
  }
  return path;
}

// Sets the shape of a box before anything is drawn in it, so that the layout does not shift.
const keepRatio = (box, width, height) => box.style.setProperty("--ratio", String(clamp(width / height, 0.5, 8)));

const INSET = 4; // pixels between the border of the selected cell and its marker

// A map over the plane: a canvas for the colours, SVG for the outline and the selected cell. `pick` enables selection.
function makeMap(label, { pick = false } = {}) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const outlines = [svg("path", { class: "outline-under" }), svg("path", { class: "outline" })];
  const markers = [svg("rect", { class: "marker under" }), svg("rect", { class: "marker" })];
  const hatch = svg("path", { class: "hatch" });
  const marks = svg("g");
  const overlay = svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }, hatch, outlines, marks, markers);
  const root = el(
    "div",
    {
      class: `field-map${pick ? " pickable" : ""}`,
      role: pick ? "application" : "img",
      "aria-label": label,
      tabindex: pick ? 0 : null,
    },
    canvas,
    overlay,
  );
  if (pick) addPicking(root);

  // Cells without a value have the colour `nothing`.
  function draw(values, map, low, high, nothing = NOTHING) {
    const plane = slice(theGroup());
    const colour = (i) => (Number.isNaN(values[i]) ? nothing : shade(map, (values[i] - low) / (high - low)));
    paint(canvas, plane.width, plane.height, colour);
    frame(plane);
  }

  function frame(plane = slice(theGroup())) {
    const { width, height } = plane;
    keepRatio(root, width, height);
    overlay.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const border = outlinePath(plane, theGroup().loaded.held);
    for (const outline of outlines) outline.setAttribute("d", border);
    hatch.setAttribute("d", hatchPath(plane, theGroup().loaded.gone));
    const x = state.at[state.axes[0]];
    const y = theGroup().factors.length < 2 ? 0 : state.at[state.axes[1]];
    const inset = Math.min(0.25, (INSET * width) / (root.clientWidth || 20 * width)); // so that the outline stays visible
    const box = { x: x + inset, y: height - 1 - y + inset, width: 1 - 2 * inset, height: 1 - 2 * inset };
    for (const marker of markers) fill(marker, box, []);
  }

  // Circles on the given cells, larger for larger weights, and dashed if the cell lies in another slice.
  function mark(parts) {
    const group = theGroup();
    const { height, cells } = slice(group);
    const here = new Set(cells);
    const most = Math.max(...parts.map(({ weight }) => weight)) || 1;
    marks.replaceChildren(
      ...parts.flatMap(({ cell, weight }) => {
        const at = positions(group, cell);
        const x = at[state.axes[0]];
        const y = group.factors.length < 2 ? 0 : at[state.axes[1]];
        const r = 0.14 + 0.3 * Math.sqrt(weight / most);
        const seen = here.has(cell) ? "" : " elsewhere";
        const circle = { cx: x + 0.5, cy: height - y - 0.5, r };
        return [
          svg("circle", { class: "memory-under", ...circle }),
          svg("circle", { class: `memory${seen}`, ...circle, "data-cell": cell }),
        ];
      }),
    );
  }
  return { root, canvas, draw, frame, mark };
}

// Hovering previews the item under the pointer. Clicking, tapping or dragging selects it. Leaving restores the selection.
// `here(event)` returns the item under the pointer, `now()` the item that is shown, and `go(item)` shows an item. Returns
// a function that selects the item that is shown, for keys pressed while hovering.
function followPointer(root, here, now, go) {
  let kept = null;
  root.addEventListener("pointerdown", (event) => {
    root.focus({ preventScroll: true });
    root.setPointerCapture(event.pointerId);
    go(here(event));
    kept = now();
  });
  root.addEventListener("pointermove", (event) => {
    kept ??= now();
    go(here(event));
    if (event.buttons) kept = now();
  });
  root.addEventListener("pointerleave", () => {
    if (kept) go(kept);
    kept = null;
  });
  return () => {
    kept = kept && now();
  };
}

// Selects a cell by pointer or arrow keys. Only positions on the two axes shown are selected and restored. The sliders set
// the others.
function addPicking(root) {
  const here = (event) => {
    const group = theGroup();
    const { width, height } = slice(group);
    const box = root.getBoundingClientRect();
    const x = clamp(Math.floor(((event.clientX - box.left) / box.width) * width), 0, width - 1);
    const y = clamp(height - 1 - Math.floor(((event.clientY - box.top) / box.height) * height), 0, height - 1);
    return [x, y];
  };
  const now = () => state.axes.map((axis) => state.at[axis] ?? 0);
  const go = ([x, y]) => {
    const at = moved(theGroup(), x, y);
    if (at.some((v, i) => v !== state.at[i])) {
      state.at = at;
      changed("cell");
    }
  };
  const keep = followPointer(root, here, now, go);
  root.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 5 : 1;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (!moves[event.key]) return;
    event.preventDefault();
    const [x, y] = now();
    go([x + moves[event.key][0], y + moves[event.key][1]]);
    keep();
  });
}

// The selected cell with other positions on the two axes. Cyclic factors wrap around; others stop at their ends.
function moved(group, x, y) {
  const at = state.at.slice();
  state.axes.forEach((axis, i) => {
    if (axis >= group.factors.length) return;
    const { size, kind } = group.factors[axis];
    const value = i ? y : x;
    at[axis] = kind === "cyclic" ? ((value % size) + size) % size : clamp(value, 0, size - 1);
  });
  return at;
}

const valueOf = (factor, position) => factor.labels[position];
const axesText = (group) => {
  const [across, up] = state.axes.map((axis) => group.factors[axis]?.name);
  return up === undefined ? `across: ${across}` : `across: ${across}, up: ${up}`;
};
const placeText = (group, at) =>
  group.factors.map((factor, i) => `${factor.name} = ${valueOf(factor, at[i])}`).join(", ");
const positions = (group, cell) => strides(group).map((stride, i) => Math.floor(cell / stride) % group.factors[i].size);

// Ticks and labels along the sides of a map: every value if there is room, otherwise five.
const MOST_TICKS = 10;
const MOST_LETTERS = 40; // along the lower side
function axes() {
  const along = el("div", { class: "axis-x" });
  const up = el("div", { class: "axis-y" });
  function draw(group) {
    const side = (node, factor, place) => {
      const places = Array.from({ length: factor.size }, (_, i) => i);
      const letters = places.reduce((sum, t) => sum + String(valueOf(factor, t)).length + 2, 0);
      const fit = factor.size <= MOST_TICKS && (place === "bottom" || letters <= MOST_LETTERS);
      const ticks = fit ? places : [...new Set([0, 1, 2, 3, 4].map((i) => Math.round((i * (factor.size - 1)) / 4)))];
      node.replaceChildren(
        ...ticks.map((t) =>
          el(
            "span",
            { "data-text": true, style: { [place]: `${((t + 0.5) / factor.size) * 100}%` } },
            valueOf(factor, t),
          ),
        ),
        el("span", { class: "axis-name", "data-text": true, title: factor.name }, factor.name),
      );
    };
    side(along, group.factors[state.axes[0]], "left");
    if (group.factors.length > 1) side(up, group.factors[state.axes[1]], "bottom");
    else up.replaceChildren();
  }
  return { along, up, draw };
}
