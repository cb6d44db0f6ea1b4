// Colour maps (from matplotlib, safe for the colour-blind), and drawing of arrays with the first row at the bottom or top.
const MAPS = {};
const NOTHING = 0x60808080;

function colourMap(name) {
  if (!MAPS[name]) {
    const hex = DATA.maps[name];
    MAPS[name] = Uint32Array.from({ length: hex.length / 6 }, (_, i) => {
      const value = parseInt(hex.slice(6 * i, 6 * i + 6), 16);
      return (255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16);
    });
  }
  return MAPS[name];
}

// Colours of classes and of series, as in the project's figures (plotting/style.py).
const classColour = (i) => DATA.colours.classes[i % DATA.colours.classes.length];
const colourOf = (i) => DATA.colours.series[i % DATA.colours.series.length];

// Converts a colour #rrggbb to a pixel of a canvas.
function asPixel(colour) {
  const value = parseInt(colour.slice(1), 16);
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

const classMap = (count) => Uint32Array.from({ length: count }, (_, i) => asPixel(classColour(i)));

// The colour at a position from 0 to 1 of a colour map.
function shade(map, share) {
  return Number.isNaN(share) ? NOTHING : map[Math.round(clamp(share, 0, 1) * (map.length - 1))];
}

function paint(canvas, width, height, colourAt, upsideDown = true) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  const picture = context.createImageData(width, height);
  const pixels = new Uint32Array(picture.data.buffer);
  for (let row = 0; row < height; row++) {
    const start = (upsideDown ? height - 1 - row : row) * width;
    for (let column = 0; column < width; column++) pixels[start + column] = colourAt(row * width + column);
  }
  context.putImageData(picture, 0, 0);
}

// A colour bar with the values of its ends.
function colourBar(mapName, low, high) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const map = colourMap(mapName);
  paint(canvas, map.length, 1, (i) => map[i]);
  return el(
    "div",
    { class: "bar" },
    el("span", { "data-text": true }, low),
    canvas,
    el("span", { "data-text": true }, high),
  );
}

function limits(arrays) {
  let low = Infinity;
  let high = -Infinity;
  for (const values of arrays) {
    for (const value of values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low > high ? [0, 1] : low === high ? [low - 0.05, high + 0.05] : [low, high];
}
