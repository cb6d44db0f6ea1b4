// Saves a panel as an image: its canvases, SVG drawings and marked texts at their positions, without the rest of the page.
function saveButtons(rootOf, title) {
  const button = (kind, act) =>
    el("button", { type: "button", "aria-label": `Save ${title} as ${kind}`, on: { click: act } }, kind);
  return el(
    "div",
    { class: "save" },
    button("PNG", () => savePng(rootOf(), title)),
    button("SVG", () => saveSvg(rootOf(), title)),
  );
}

function download(file, name) {
  const link = el("a", { href: URL.createObjectURL(file), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const fileName = (title, ending) =>
  `recombine-${title
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-|-$/g, "")
    .slice(0, 60)}.${ending}`;

// The content of a panel: canvases, outer SVG elements and texts, with their boxes relative to the panel.
function contents(root) {
  const frame = root.getBoundingClientRect();
  const place = (node) => {
    const box = node.getBoundingClientRect();
    return { node, x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height };
  };
  const seen = (item) => item.width > 0 && item.height > 0;
  return {
    width: Math.ceil(frame.width),
    height: Math.ceil(frame.height),
    frame,
    canvases: [...root.querySelectorAll("canvas")]
      .filter((c) => c.width && c.height && !c.closest(".thumbs"))
      .map(place)
      .filter(seen),
    drawings: [...root.querySelectorAll("svg")]
      .filter((s) => !s.parentElement.closest("svg"))
      .map(place)
      .filter(seen),
    texts: [...root.querySelectorAll("h3, [data-text]")]
      .filter((t) => t.textContent.trim() && !t.closest("svg"))
      .map(place)
      .filter(seen),
  };
}

const background = (root) => getComputedStyle(root).backgroundColor;
const pixelated = (canvas) => getComputedStyle(canvas).imageRendering === "pixelated";

function savePng(root, title) {
  const { width, height, frame, canvases, drawings, texts } = contents(root);
  const zoom = 2;
  const canvas = el("canvas", { width: width * zoom, height: height * zoom });
  const context = canvas.getContext("2d");
  context.scale(zoom, zoom);
  context.fillStyle = background(root);
  context.fillRect(0, 0, width, height);
  for (const item of canvases) {
    context.imageSmoothingEnabled = !pixelated(item.node);
    context.drawImage(item.node, item.x, item.y, item.width, item.height);
  }
  for (const { node } of drawings) drawSvg(context, node, frame, zoom);
  context.setTransform(zoom, 0, 0, zoom, 0, 0);
  for (const item of texts) {
    const style = getComputedStyle(item.node);
    context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    context.fillStyle = style.color;
    context.textBaseline = "middle";
    lines(item.node).forEach((line) => context.fillText(line.text, line.x - frame.left, line.y - frame.top));
  }
  canvas.toBlob((file) => download(file, fileName(title, "png")), "image/png");
}

// The lines of a text as wrapped by the browser, with the middle of their left end.
function lines(node) {
  const out = [];
  const range = document.createRange();
  for (const text of textNodes(node)) {
    for (let i = 0; i < text.length; i++) {
      range.setStart(text, i);
      range.setEnd(text, i + 1);
      const box = range.getBoundingClientRect();
      const last = out[out.length - 1];
      if (last && Math.abs(last.y - (box.top + box.height / 2)) < 3) last.text += text.data[i];
      else if (box.width) out.push({ text: text.data[i], x: box.left, y: box.top + box.height / 2 });
    }
  }
  return out;
}

function textNodes(node) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const out = [];
  while (walker.nextNode()) out.push(walker.currentNode);
  return out;
}

// Draws SVG shapes directly on a canvas, because the page's policy does not allow loading them as an image.
function drawSvg(context, root, frame, zoom) {
  for (const node of root.querySelectorAll("path, line, rect, circle, text")) {
    const style = getComputedStyle(node);
    const matrix = node.getScreenCTM();
    if (!matrix || style.visibility === "hidden" || style.display === "none") continue;
    const { a, b, c, d, e, f } = matrix;
    context.setTransform(a * zoom, b * zoom, c * zoom, d * zoom, (e - frame.left) * zoom, (f - frame.top) * zoom);
    context.globalAlpha = opacity(node, root);
    if (node.tagName === "text") {
      drawSvgText(context, node, style);
      continue;
    }
    const shape = shapeOf(node);
    const scale = style.vectorEffect === "non-scaling-stroke" ? Math.sqrt(Math.abs(a * d - b * c)) || 1 : 1;
    const whole = context.globalAlpha;
    if (style.fill !== "none") {
      context.fillStyle = style.fill;
      context.globalAlpha = whole * Number(style.fillOpacity);
      context.fill(shape);
    }
    if (style.stroke !== "none") {
      context.strokeStyle = style.stroke;
      context.globalAlpha = whole * Number(style.strokeOpacity);
      context.lineWidth = parseFloat(style.strokeWidth) / scale;
      context.setLineDash(style.strokeDasharray === "none" ? [] : style.strokeDasharray.split(/[ ,]+/).map(parseFloat));
      context.stroke(shape);
    }
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}

function opacity(node, root) {
  let value = 1;
  for (let here = node; here && here !== root.parentElement; here = here.parentElement)
    value *= Number(getComputedStyle(here).opacity);
  return value;
}

function shapeOf(node) {
  const get = (name) => node[name].baseVal.value;
  if (node.tagName === "path") return new Path2D(node.getAttribute("d"));
  const shape = new Path2D();
  if (node.tagName === "line") {
    shape.moveTo(get("x1"), get("y1"));
    shape.lineTo(get("x2"), get("y2"));
  } else if (node.tagName === "rect") shape.rect(get("x"), get("y"), get("width"), get("height"));
  else shape.arc(get("cx"), get("cy"), get("r"), 0, 2 * Math.PI);
  return shape;
}

function drawSvgText(context, node, style) {
  if (!node.textContent) return;
  const start = node.getStartPositionOfChar(0);
  context.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.fillStyle = style.fill;
  context.textBaseline = "alphabetic";
  context.fillText(node.textContent, start.x, start.y);
}

const KEPT = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-opacity",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "vector-effect",
  "font-family",
  "font-size",
  "font-weight",
  "font-variant",
  "text-anchor",
];

function saveSvg(root, title) {
  const { width, height, frame, canvases, drawings, texts } = contents(root);
  const apart = document.implementation.createDocument(SVG, "svg"); // loads nothing, because the policy forbids it
  const make = (tag, attributes, ...children) => fill(apart.createElementNS(SVG, tag), attributes, children);
  const out = fill(apart.documentElement, { width, height, viewBox: `0 0 ${width} ${height}` }, [
    make("rect", { width, height, fill: background(root) }),
  ]);
  for (const { node, ...box } of canvases) {
    out.append(
      make("image", {
        x: box.x,
        y: box.y,
        width: box.width,
        height: box.height,
        href: node.toDataURL(),
        preserveAspectRatio: "none",
        style: { "image-rendering": pixelated(node) ? "pixelated" : "auto" },
      }),
    );
  }
  for (const { node, ...box } of drawings) {
    const copyOf = node.cloneNode(true);
    const copies = [copyOf, ...copyOf.querySelectorAll("*")];
    [node, ...node.querySelectorAll("*")].forEach((original, i) => {
      const style = getComputedStyle(original);
      for (const name of KEPT) copies[i].style.setProperty(name, style.getPropertyValue(name));
    });
    copyOf.querySelectorAll("style").forEach((style) => style.remove());
    fill(copyOf, { x: box.x, y: box.y, width: box.width, height: box.height, overflow: "visible" }, []);
    out.append(copyOf);
  }
  for (const { node } of texts) {
    const style = getComputedStyle(node);
    for (const line of lines(node)) {
      out.append(
        make(
          "text",
          {
            x: line.x - frame.left,
            y: line.y - frame.top,
            fill: style.color,
            "font-family": style.fontFamily,
            "font-size": style.fontSize,
            "font-weight": style.fontWeight,
            "dominant-baseline": "middle",
          },
          line.text,
        ),
      );
    }
  }
  download(new Blob([new XMLSerializer().serializeToString(out)], { type: "image/svg+xml" }), fileName(title, "svg"));
}
