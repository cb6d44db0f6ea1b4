// Arrays: quantized codes, compressed and encoded as text (see report/arrays.py). They are decoded on demand.
const unpacked = new Map();
const parsed = new Promise((done) => {
  addEventListener("DOMContentLoaded", done);
}); // the encoded texts follow this script in the page

async function bytesOf(name) {
  if (!unpacked.has(name)) unpacked.set(name, inflate(name));
  return unpacked.get(name);
}

async function inflate(name) {
  await parsed;
  const node = byId(name);
  if (!node) throw new Error("its data is not in this file");
  if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack it");
  const text = atob(node.textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

class Numbers {
  constructor(about, bytes) {
    this.about = about;
    this.shape = about.shape;
    const size = about.shape.reduce((a, b) => a * b, 1);
    if (bytes.length !== size * (about.bits / 8)) throw new Error("its data is damaged");
    this.codes = about.bits === 8 ? bytes : new Uint16Array(bytes.buffer, bytes.byteOffset, size);
    this.none = 2 ** about.bits - 1;
    if (!Array.isArray(about.low)) this.table = this.readings(about.low, about.high);
  }

  // The number that each code stands for.
  readings(low, high) {
    const table = new Float64Array(this.none + 1).fill(NaN);
    for (let code = 0; code < this.none; code++) {
      const bent = low + ((high - low) * code) / (this.none - 1);
      const curve = this.about.curve;
      table[code] = curve === "log" ? 10 ** bent : curve === "root" ? bent * Math.abs(bent) : bent;
    }
    return table;
  }

  at(index) {
    return this.table[this.codes[index]];
  }

  // The numbers of entry `row` of the first axis.
  row(row) {
    const size = this.codes.length / this.shape[0];
    const table = this.table || this.readings(this.about.low[row], this.about.high[row]);
    return Float64Array.from(this.codes.subarray(row * size, (row + 1) * size), (code) => table[code]);
  }

  get range() {
    let low = Infinity;
    let high = -Infinity;
    for (const code of this.codes) {
      const value = this.table[code];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return [low, high];
  }
}

// Loads the array of a description. Throws an error with the reason if it cannot be read.
async function load(about) {
  return new Numbers(about, await bytesOf(about.blob));
}

// Loads an array of integers.
async function loadIntegers(about) {
  const bytes = await bytesOf(about.blob);
  if (bytes.length !== 4 * about.shape.reduce((a, b) => a * b, 1)) throw new Error("its data is damaged");
  return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}
