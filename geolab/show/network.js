// @ts-check
// A small language model in the page: the backbone of geolab.models around one of five residuals.
//
//     additive   x ← x + F(x)                        mhc       X ← H X + b ⊗ F(aᵀX)
//     delta      x ← x + β (v − kᵀx) k, k ∝ F(x)     mgt       x ← x + β ⊙ (G ⊙ F(x) − α x)
//     attnres    X ← (X, F(Σ_s α_s x_s)),  α_s ∝ exp(wᵀ x_s / rms x_s)
//
// F is attention or SwiGLU behind an RMS norm. A position is computed once, since it reads no later one:
// a sentence that grows by a piece costs a piece. `open` reads a text that studies.experiments.page_weights
// wrote, with 8 bits for each weight of a matrix.
/**
 * @typedef {Float64Array} Vector
 * @typedef {{shape: number[], values: Float32Array}} Tensor
 * @typedef {{residual: string, options: object, width: number, layers: number, heads: number, hidden: number,
 *   context: number, streams: number, pieces: string[], merges: number[][], tensors: [string, number[]][],
 *   numbers: string}} Told
 * @typedef {Told & {weights: Map<string, Tensor>, bytes: number[], ranks: Map<number, number>}} Network
 * @typedef {(name: string) => Tensor} Part  a tensor of one sublayer
 * @typedef {(x: Vector) => Vector} Sublayer
 * @typedef {Record<string, any>} Seen  what a residual did at one piece and one sublayer
 * @typedef {{keys: Vector[][], values: Vector[]}[]} Memory  of each sublayer with attention, by position
 */
globalThis.geolabNetwork = (() => {
  const EPS = 2 ** -23;  // PyTorch's own guard of a norm in float32

  /** @type {(u: ArrayLike<number>, v: ArrayLike<number>) => number} */
  const dot = (u, v) => {
    let total = 0;
    for (let i = 0; i < u.length; i++) total += u[i] * v[i];
    return total;
  };
  /** @type {(x: Vector) => number} */
  const length = x => Math.sqrt(dot(x, x));
  /** a x + y. @type {(a: number, x: Vector, y: Vector) => Vector} */
  const plus = (a, x, y) => y.map((entry, i) => entry + a * x[i]);
  /** W x. @type {(W: Tensor, x: ArrayLike<number>) => Vector} */
  const apply = ({shape: [rows, columns], values}, x) => {
    const y = new Float64Array(rows);
    for (let i = 0, k = 0; i < rows; i++) {
      let total = 0;
      for (let j = 0; j < columns; j++) total += values[k++] * x[j];
      y[i] = total;
    }
    return y;
  };
  /** x / rms x. @type {(x: Vector, eps: number) => Vector} */
  const unitRms = (x, eps) => {
    const scale = 1 / Math.sqrt(dot(x, x) / x.length + eps);
    return x.map(entry => scale * entry);
  };
  /** @type {(weight: Tensor, x: Vector) => Vector} */
  const norm = (weight, x) => unitRms(x, 1e-5).map((entry, i) => entry * weight.values[i]);
  /** @type {(x: number) => number} */
  const sigmoid = x => 1 / (1 + Math.exp(-x));
  /** @type {(z: number[]) => number[]} */
  const softmax = z => {
    const top = Math.max(...z), powers = z.map(x => Math.exp(x - top));
    const total = powers.reduce((a, b) => a + b, 0);
    return powers.map(power => power / total);
  };
  /** Σ wᵢ xᵢ. @type {(weights: ArrayLike<number>, vectors: Vector[]) => Vector} */
  const mean = (weights, vectors) =>
    vectors.reduce((sum, x, i) => plus(weights[i], x, sum), new Float64Array(vectors[0].length));

  // ---------------------------------------------------------------- sublayers

  /** @type {(part: Part, h: Vector, heads: number, memory: Memory[number]) => Vector} */
  const attention = (part, h, heads, {keys, values}) => {
    const D = h.length, E = D / heads, t = keys.length, qkv = apply(part("mix.qkv.weight"), h);
    /** @type {(from: number, weight: Tensor) => Vector} */
    const rotated = (from, weight) => {
      const x = new Float64Array(E);
      for (let i = 0; i < E / 2; i++) {
        const angle = t * 1e4 ** (-2 * i / E), cos = Math.cos(angle), sin = Math.sin(angle);
        const a = qkv[from + i], b = qkv[from + E / 2 + i];
        x[i] = a * cos - b * sin;
        x[E / 2 + i] = a * sin + b * cos;
      }
      return norm(weight, x);
    };
    keys.push(Array.from({length: heads}, (_, head) => rotated(D + head * E, part("mix.k_norm.weight"))));
    values.push(qkv.slice(2 * D));
    const read = new Float64Array(D);
    for (let head = 0; head < heads; head++) {
      const q = rotated(head * E, part("mix.q_norm.weight"));
      softmax(keys.map(key => dot(q, key[head]) / Math.sqrt(E))).forEach((weight, s) => {
        for (let i = head * E; i < (head + 1) * E; i++) read[i] += weight * values[s][i];
      });
    }
    return apply(part("mix.out.weight"), read);
  };
  /** @type {(part: Part, h: Vector) => Vector} */
  const mlp = (part, h) => {
    const gate = apply(part("mix.gate.weight"), h);
    const up = apply(part("mix.up.weight"), h).map((x, i) => x * gate[i] * sigmoid(gate[i]));
    return apply(part("mix.out.weight"), up);
  };

  // ---------------------------------------------------------------- residuals

  /** The size of what changes over that of the state, and what was computed on the way.
   * @type {Record<string, {shapes: (net: Told, index: number) => Record<string, number[]>,
   *   step: (x: any, F: Sublayer, part: Part, net: Network, index: number) => [any, Seen]}>} */
  const RESIDUALS = {
    additive: {
      shapes: () => ({}),
      step: (x, F) => {
        const update = F(x), size = length(update);
        return [plus(1, update, x), {size: size / length(x), cosine: size && dot(update, x) / size / length(x)}];
      },
    },
    delta: {
      shapes: ({width}) => ({"beta_head.weight": [1, width], "beta_head.bias": [1],
        "value_head.weight": [1, width], "value_head.bias": [1]}),
      step: (x, F, part) => {
        /** @type {(name: string, from: Vector) => number} */
        const number = (name, from) =>
          sigmoid(apply(part(`residual.${name}.weight`), from)[0] + part(`residual.${name}.bias`).values[0]);
        const h = F(x), scale = 1 / Math.sqrt(dot(h, h) + 1e-10), k = h.map(entry => scale * entry);
        const beta = 2 * number("beta_head", unitRms(x, EPS)), value = 4 * number("value_head", x);
        const along = dot(k, x);
        return [plus(beta * (value - along), k, x), {beta, value, along, erased: Math.abs(beta * along) / length(x)}];
      },
    },
    mhc: {
      shapes: ({streams: n, width}) => ({"maps.generate.weight": [2 * n + n * n, n * width], "maps.scale": [3],
        "maps.bias": [2 * n + n * n]}),
      step: (X, F, part) => {
        const n = X.length, whole = new Float64Array(n * X[0].length);
        X.forEach((/** @type {Vector} */ x, /** @type {number} */ i) => whole.set(x, i * x.length));
        const scale = part("residual.maps.scale").values, bias = part("residual.maps.bias").values;
        const z = Array.from(apply(part("residual.maps.generate.weight"), unitRms(whole, 1e-20)),
          (x, i) => scale[Math.min(2, Math.floor(i / n))] * x + bias[i]);
        const read = z.slice(0, n).map(sigmoid), write = z.slice(n, 2 * n).map(x => 2 * sigmoid(x));
        const mix = globalThis.geolabCore.sinkhorn(read.map((_, i) => z.slice((2 + i) * n, (3 + i) * n)), 20);
        const update = F(mean(read, X));
        return [mix.map((row, i) => plus(write[i], update, mean(row, X))), {read, write, mix}];
      },
    },
    mgt: {
      shapes: ({width}) => ({"logits.weight": [2 * width, width], "gate_norm.weight": [width],
        "gate_norm.bias": [width], beta_bias: [width], alpha: [1]}),
      step: (x, F, part) => {
        const D = x.length, logits = apply(part("residual.logits.weight"), x), z = logits.slice(0, D);
        const middle = z.reduce((a, b) => a + b, 0) / D, spread = unitRms(z.map(entry => entry - middle), 1e-5);
        const [weight, shift, bias] = ["gate_norm.weight", "gate_norm.bias", "beta_bias"].map(
          name => part(`residual.${name}`).values);
        const gate = spread.map((entry, i) => sigmoid(entry * weight[i] + shift[i]));
        const beta = logits.slice(D).map((entry, i) => 1 + Math.tanh(entry + bias[i]));
        const alpha = part("residual.alpha").values[0], update = F(x);
        return [x.map((/** @type {number} */ entry, /** @type {number} */ i) =>
          entry + beta[i] * (gate[i] * update[i] - alpha * entry)), {gate, beta, alpha}];
      },
    },
    attnres: {
      shapes: ({width, layers}, index) => ({...index && {query: [width]},
        ...index === 2 * layers - 1 && {"exit.weight": [width]}}),
      step: (X, F, part, net, index) => {
        const weights = index ? over(part("residual.query"), X) : [1];
        return [[...X, F(mean(weights, X))], {weights}];
      },
    },
  };
  /** The weights of sources for a query. @type {(query: Tensor, X: Vector[]) => number[]} */
  const over = (query, X) => softmax(X.map(x => dot(query.values, unitRms(x, EPS))));

  // ---------------------------------------------------------------- a network

  /** Name -> shape of all tensors. @type {(net: Told) => Map<string, number[]>} */
  const shapes = net => {
    const {width, layers, heads, hidden} = net, found = new Map();
    for (let i = 0; i < 2 * layers; i++) {
      const mix = i % 2 ? {up: [hidden, width], gate: [hidden, width], out: [width, hidden]} :
        {qkv: [3 * width, width], out: [width, width], q_norm: [width / heads], k_norm: [width / heads]};
      found.set(`trunk.layers.${i}.norm.weight`, [width]);
      for (const [name, shape] of Object.entries(mix)) found.set(`trunk.layers.${i}.mix.${name}.weight`, shape);
      for (const [name, shape] of Object.entries(RESIDUALS[net.residual].shapes(net, i)))
        found.set(`trunk.layers.${i}.residual.${name}`, shape);
    }
    return found.set("trunk.norm.weight", [width]).set("embedding.weight", [net.pieces.length, width]);
  };
  /** The network of a text. Throws an Error with a sentence for one that this file doesn't compute.
   * @type {(text: string) => Network} */
  const open = text => {
    const told = /** @type {Told} */ (JSON.parse(text));
    if (!Object.hasOwn(RESIDUALS, told.residual)) throw new Error(`This page doesn't compute the residual “${told.residual}”.`);
    const wanted = shapes(told), weights = new Map();
    for (const [name, shape] of told.tensors)
      if (String(wanted.get(name)) !== String(shape))
        throw new Error(`The weights ${name} have the shape ${shape}, and the network wants ${wanted.get(name) ?? "none"}.`);
    const names = new Set(told.tensors.map(([name]) => name));
    if (names.size !== wanted.size || told.tensors.length !== wanted.size)
      throw new Error(`The file has ${names.size} weights, and the network wants ${wanted.size}.`);
    const code = atob(told.numbers), raw = new Uint8Array(code.length);
    for (let i = 0; i < code.length; i++) raw[i] = code.charCodeAt(i);
    const count = told.tensors.reduce((sum, [, shape]) => sum + shape[0], 0);
    const all = told.tensors.reduce((sum, [, [n, m]]) => sum + 4 * n + (m ? n * m : 0), 0);
    if (raw.length !== all) throw new Error(`The file has ${raw.length} bytes of weights, and the network wants ${all}.`);
    const floats = new Float32Array(raw.buffer, 0, count), whole = new Int8Array(raw.buffer, 4 * count);
    let float = 0, at = 0;
    for (const [name, shape] of told.tensors) {
      const [n, m] = shape, values = m ? new Float32Array(n * m) : floats.slice(float, float + n);
      if (m) for (let i = 0, k = 0; i < n; i++)
        for (let j = 0; j < m; j++, k++) values[k] = floats[float + i] * whole[at + k];
      weights.set(name, {shape, values});
      float += n;
      at += m ? n * m : 0;
    }
    const bytes = /** @type {number[]} */ ([]), ranks = new Map(), V = told.pieces.length;
    told.pieces.forEach((piece, i) => { if (piece.length === 1) bytes[piece.charCodeAt(0)] = i; });
    told.merges.forEach(([left, right], rank) => ranks.set(left * V + right, rank));
    return {...told, weights, bytes, ranks};
  };

  /** The pieces of a text: the pair that was learned first is joined first. @type {(net: Network, text: string) => number[]} */
  const encode = (net, text) => (text.match(/ ?[A-Za-z]+| ?[^A-Za-z \n]+|[ \n]/g) ?? []).flatMap(word => {
    const found = Array.from(new TextEncoder().encode(word), byte => net.bytes[byte]);
    for (;;) {
      let best = Infinity, place = 0;
      for (let i = 0; i + 1 < found.length; i++) {
        const rank = net.ranks.get(found[i] * net.pieces.length + found[i + 1]) ?? Infinity;
        if (rank < best) [best, place] = [rank, i];
      }
      if (best === Infinity) return found;
      found.splice(place, 2, net.merges[best][2]);
    }
  });
  /** @type {(net: Network, pieces: number[]) => string} */
  const decode = (net, pieces) => new TextDecoder().decode(Uint8Array.from(
    pieces.map(piece => net.pieces[piece]).join(""), character => character.charCodeAt(0)));

  /** A reader of pieces, one after the other: piece -> logits of the next one, and what each residual did.
   * @type {(net: Network, silent?: Set<number>) => (piece: number) => {logits: Vector, seen: Seen[]}} */
  const reader = (net, silent = new Set()) => {
    const {width: D, layers, residual} = net, count = 2 * layers;
    const tensor = (/** @type {string} */ name) => /** @type {Tensor} */ (net.weights.get(name));
    const memory = Array.from({length: count}, () => ({keys: [], values: []}));
    return piece => {
      const embedding = tensor("embedding.weight"), seen = /** @type {Seen[]} */ ([]);
      const x = Float64Array.from(embedding.values.subarray(piece * D, (piece + 1) * D));
      /** @type {any} */
      let state = residual === "mhc" ? Array(net.streams).fill(x) : residual === "attnres" ? [x] : x;
      for (let i = 0; i < count; i++) {
        const part = (/** @type {string} */ name) => tensor(`trunk.layers.${i}.${name}`);
        /** @type {Sublayer} */
        const F = u => {
          if (silent.has(i)) return new Float64Array(D);
          const h = norm(part("norm.weight"), u);
          return i % 2 ? mlp(part, h) : attention(part, h, net.heads, memory[i]);
        };
        const [next, did] = RESIDUALS[residual].step(state, F, part, net, i);
        state = next;
        seen.push(did);
      }
      if (residual === "mhc") state = mean(Array(net.streams).fill(1 / net.streams), state);
      if (residual === "attnres")
        state = mean(over(tensor(`trunk.layers.${count - 1}.residual.exit.weight`), state), state);
      return {logits: apply(embedding, norm(tensor("trunk.norm.weight"), state)), seen};
    };
  };

  return {decode, encode, open, reader, softmax};
})();
