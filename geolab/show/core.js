// @ts-check
// Small matrices on a page: the operators of the book without a kernel, as geolab.operators has them.
//
//     delta         A = I − β k kᵀ                          Sinkhorn      exp(z), columns and rows to 1 in turn
//     Householder   H = I − 2 k kᵀ                          permutations  Σ_σ softmax(z)_σ P_σ
//     Cayley        Q = (I + M)⁻¹ (I − M), M skew           circulant     Σ_k softmax(z)_k S^k
//     blend         G = γ Q + (1 − γ) H                     Kronecker     ⊗_k (softmax(z_k)₁ I + softmax(z_k)₂ S)
//
// and eigenvalues by QR steps, singular values by rotations of columns. All are meant for n ≤ 4 (inside of
// `orthostochastic`, for 8), where simple methods are exact to rounding.
/**
 * @typedef {number[]} Vector
 * @typedef {number[][]} Matrix  rows
 * @typedef {[number, number]} Complex  real and imaginary part
 */
globalThis.geolabCore = (() => {
  /** @type {(n: number, m: number, entry: (i: number, j: number) => number) => Matrix} */
  const make = (n, m, entry) =>
    Array.from({length: n}, (_, i) => Array.from({length: m}, (_, j) => entry(i, j)));
  /** @type {(n: number) => Matrix} */
  const identity = n => make(n, n, (i, j) => +(i === j));
  /** @type {(a: Matrix) => Matrix} */
  const transpose = a => make(a[0].length, a.length, (i, j) => a[j][i]);
  /** a A + b B. @type {(a: number, A: Matrix, b: number, B: Matrix) => Matrix} */
  const combine = (a, A, b, B) => make(A.length, A[0].length, (i, j) => a * A[i][j] + b * B[i][j]);
  /** @type {(v: Vector) => number} */
  const sum = v => v.reduce((a, b) => a + b, 0);
  /** @type {(u: Vector, v: Vector) => number} */
  const dot = (u, v) => sum(u.map((x, i) => x * v[i]));
  /** @type {(A: Matrix, B: Matrix) => Matrix} */
  const multiply = (A, B) =>
    make(A.length, B[0].length, (i, j) => sum(A[i].map((x, k) => x * B[k][j])));
  /** @type {(A: Matrix, x: Vector) => Vector} */
  const apply = (A, x) => A.map(row => dot(row, x));
  /** u vᵀ. @type {(u: Vector, v: Vector) => Matrix} */
  const outer = (u, v) => make(u.length, v.length, (i, j) => u[i] * v[j]);
  /** The product of layers, the first one on the right. @type {(layers: Matrix[]) => Matrix} */
  const product = layers => layers.reduce((done, layer) => multiply(layer, done));
  /** The length of all entries, also where their squares are no numbers. @type {(A: Matrix) => number} */
  const norm = A => Math.hypot(...A.flat());
  /** @type {(A: Matrix) => number} */
  const largest = A => Math.max(...A.flat().map(Math.abs));
  /** Every row's sum. @type {(A: Matrix) => Vector} */
  const rowSums = A => A.map(sum);

  /** A⁻¹ B by elimination with pivots. @type {(A: Matrix, B: Matrix) => Matrix} */
  const solve = (A, B) => {
    const n = A.length, rows = A.map((row, i) => [...row, ...B[i]]);
    for (let k = 0; k < n; k++) {
      let best = k;
      for (let i = k + 1; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[best][k])) best = i;
      if (!rows[best][k]) throw new RangeError("the matrix has no inverse");
      [rows[k], rows[best]] = [rows[best], rows[k]];
      for (let i = 0; i < n; i++) {
        const share = i > k ? rows[i][k] / rows[k][k] : 0;
        if (share) for (let j = k; j < rows[i].length; j++) rows[i][j] -= share * rows[k][j];
      }
    }
    for (let k = n - 1; k >= 0; k--)
      for (let j = n; j < rows[k].length; j++) {
        for (let i = k + 1; i < n; i++) rows[k][j] -= rows[k][i] * rows[i][j];
        rows[k][j] /= rows[k][k];
      }
    return rows.map(row => row.slice(n));
  };

  // ---------------------------------------------------------------- one direction

  /** k = h / ‖h‖. @type {(h: Vector) => Vector} */
  const unit = h => {
    const length = Math.hypot(...h);
    if (!length) throw new RangeError("a direction needs an entry other than 0");
    return h.map(x => x / length);
  };
  /** I − β k kᵀ. @type {(k: Vector, beta: number) => Matrix} */
  const delta = (k, beta) => combine(1, identity(k.length), -beta, outer(k, k));
  /** @type {(k: Vector) => Matrix} */
  const householder = k => delta(k, 2);
  /** x + β (v − kᵀx) k. @type {(x: Vector, k: Vector, v: number, beta: number) => Vector} */
  const deltaUpdate = (x, k, v, beta) => {
    const change = beta * (v - dot(k, x));
    return x.map((entry, i) => entry + change * k[i]);
  };

  // ---------------------------------------------------------------- rotations

  /** The skew matrix with these numbers above its diagonal, row by row.
   * @type {(z: Vector, n: number) => Matrix} */
  const skew = (z, n) => {
    const M = make(n, n, () => 0);
    let next = 0;
    for (let i = 0; i < n; i++)
      for (let j = i + 1; j < n; j++) M[j][i] = -(M[i][j] = z[next++]);
    return M;
  };
  /** (I + M)⁻¹ (I − M). @type {(M: Matrix) => Matrix} */
  const cayley = M =>
    solve(combine(1, identity(M.length), 1, M), combine(1, identity(M.length), -1, M));
  /** Of M = β/2 (u vᵀ − v uᵀ). @type {(u: Vector, v: Vector, beta: number) => Matrix} */
  const cayleyRank2 = (u, v, beta) => cayley(combine(beta / 2, outer(u, v), -beta / 2, outer(v, u)));
  /** γ Q + (1 − γ) H. @type {(Q: Matrix, H: Matrix, gate: number) => Matrix} */
  const blend = (Q, H, gate) => combine(gate, Q, 1 - gate, H);

  // ---------------------------------------------------------------- ways to the polytope

  /** z − log Σ exp(z). @type {(z: Vector) => Vector} */
  const logSoftmax = z => {
    const top = Math.max(...z), total = Math.log(sum(z.map(x => Math.exp(x - top))));
    return z.map(x => x - top - total);
  };
  /** @type {(z: Vector) => Vector} */
  const softmax = z => logSoftmax(z).map(Math.exp);
  /** In logarithms: columns to 1, then rows, this often. @type {(z: Matrix, iterations?: number) => Matrix} */
  const sinkhorn = (z, iterations = 20) => {
    for (let step = 0; step < iterations; step++)
      z = transpose(transpose(z).map(logSoftmax)).map(logSoftmax);
    return z.map(row => row.map(Math.exp));
  };
  /** In lexicographic order. @type {(items: number[]) => number[][]} */
  const permutations = items => items.length < 2 ? [items] : items.flatMap((first, k) =>
    permutations(items.filter((_, i) => i !== k)).map(rest => [first, ...rest]));
  /** z has n! numbers. @type {(z: Vector, n: number) => Matrix} */
  const permutationMixture = (z, n) => {
    const H = make(n, n, () => 0), shares = softmax(z);
    permutations([...Array(n).keys()]).forEach((order, k) =>
      order.forEach((j, i) => H[i][j] += shares[k]));
    return H;
  };
  /** @type {(z: Vector) => Matrix} */
  const circulantMixture = z => {
    const n = z.length, shares = softmax(z);
    return make(n, n, (i, j) => shares[(i - j + n) % n]);
  };
  /** z has a row (stay, swap) per factor. @type {(z: Matrix) => Matrix} */
  const kroneckerMixture = z => z.map(softmax).reduce((H, [stay, swap]) =>
    make(2 * H.length, 2 * H.length,
      (i, j) => H[i >> 1][j >> 1] * ((i ^ j) & 1 ? swap : stay)), [[1]]);
  /** ‖block ij of the Cayley transform‖² / s. @type {(z: Vector, n: number, s?: number) => Matrix} */
  const orthostochastic = (z, n, s = 2) => {
    const Q = cayley(skew(z, n * s));
    return make(n, n, (i, j) =>
      sum(make(s, s, (a, b) => Q[i * s + a][j * s + b] ** 2).flat()) / s);
  };

  // ---------------------------------------------------------------- spectra

  /** Largest first. Columns are turned in pairs until all are at right angles; their lengths are left.
   * @type {(A: Matrix) => Vector} */
  const singularValues = A => {
    const scale = largest(A);
    if (!scale) return A[0].map(() => 0);
    const columns = transpose(A).map(column => column.map(x => x / scale));
    for (let sweep = 0, turned = true; turned && sweep < 40; sweep++) {
      turned = false;
      for (let p = 0; p < columns.length; p++)
        for (let q = p + 1; q < columns.length; q++) {
          const u = columns[p], v = columns[q], a = dot(u, u), b = dot(v, v), c = dot(u, v);
          if (Math.abs(c) <= 1e-15 * Math.sqrt(a * b)) continue;
          turned = true;
          const angle = Math.atan2(2 * c, a - b) / 2, cos = Math.cos(angle), sin = Math.sin(angle);
          columns[p] = u.map((x, i) => cos * x + sin * v[i]);
          columns[q] = u.map((x, i) => cos * v[i] - sin * x);
        }
    }
    return columns.map(column => scale * Math.hypot(...column)).sort((a, b) => b - a);
  };

  /** @type {(a: Complex, b: Complex) => Complex} */
  const times = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c];
  /** @type {(a: Complex, b: Complex) => Complex} */
  const plus = ([a, b], [c, d]) => [a + c, b + d];
  /** @type {(a: Complex, b: Complex) => Complex} */
  const minus = ([a, b], [c, d]) => [a - c, b - d];
  /** @type {(a: Complex) => Complex} */
  const root = ([a, b]) => {
    const r = Math.sqrt(Math.hypot(a, b)), angle = Math.atan2(b, a) / 2;
    return [r * Math.cos(angle), r * Math.sin(angle)];
  };
  /** The eigenvalues of [[a, b], [c, d]]. @type {(a: Complex, b: Complex, c: Complex, d: Complex) => Complex[]} */
  const pair = (a, b, c, d) => {
    const half = times([0.5, 0], minus(a, d)), middle = times([0.5, 0], plus(a, d));
    const r = root(plus(times(half, half), times(b, c)));
    return [plus(middle, r), minus(middle, r)];
  };
  /** [c, s] of the rotation that takes (a, b) to (r, 0). @type {(a: Complex, b: Complex) => [Complex, Complex]} */
  const turning = ([a, b], [c, d]) => {
    const r = Math.hypot(a, b, c, d) || 1;
    return [Math.hypot(a, b, c, d) ? [a / r, b / r] : [1, 0], [c / r, d / r]];
  };
  /** @type {(a: Complex) => Complex} */
  const conjugate = ([a, b]) => [a, -b];

  /** One step H ← R Q + μ I, where H − μ I = Q R, on the leading rows of H.
   * @type {(H: Complex[][], count: number, shift: Complex) => void} */
  const step = (H, count, shift) => {
    for (let i = 0; i < count; i++) H[i][i] = minus(H[i][i], shift);
    // all pairs of rows: after the first step those below the next diagonal have nothing to turn
    const turns = [];
    for (let k = 0; k < count; k++)
      for (let i = k + 1; i < count; i++) {
        if (!H[i][k][0] && !H[i][k][1]) continue;
        const [c, s] = turning(H[k][k], H[i][k]);
        for (let j = 0; j < count; j++) {
          const above = H[k][j], below = H[i][j];
          H[k][j] = plus(times(conjugate(c), above), times(conjugate(s), below));
          H[i][j] = minus(times(c, below), times(s, above));
        }
        H[i][k] = [0, 0];
        turns.push({k, i, c, s});
      }
    for (const {k, i, c, s} of turns)
      for (let j = 0; j < count; j++) {
        const left = H[j][k], right = H[j][i];
        H[j][k] = plus(times(c, left), times(s, right));
        H[j][i] = minus(times(conjugate(c), right), times(conjugate(s), left));
      }
    for (let i = 0; i < count; i++) H[i][i] = plus(H[i][i], shift);
  };

  /** By QR steps with shifts, the last row first; by real part, then imaginary part, largest first.
   * @type {(A: Matrix) => Complex[]} */
  const eigenvalues = A => {
    const scale = largest(A) || 1, found = /** @type {Complex[]} */ ([]);
    const H = A.map(row => row.map(x => /** @type {Complex} */ ([x / scale, 0])));
    let count = A.length;
    for (let tries = 0; count > 2; tries++) {
      const last = H[count - 1], corner = last[count - 1];
      const rest = Math.hypot(...last.slice(0, count - 1).flat());
      if (rest < 1e-16 * count) {
        found.push(corner);
        count--;
        tries = 0;
        continue;
      }
      if (tries > 300) throw new RangeError("the eigenvalues don't settle");
      const near = pair(H[count - 2][count - 2], H[count - 2][count - 1], last[count - 2], corner);
      const apart = near.map(value => Math.hypot(...minus(value, corner)));
      // a shift of its own now and then breaks a circle, such as that of a permutation
      step(H, count, tries % 11 === 10 ? [rest, rest / 2] : near[+(apart[1] < apart[0])]);
    }
    found.push(...(count === 2 ? pair(H[0][0], H[0][1], H[1][0], H[1][1]) : [H[0][0]]));
    // rounding leaves an imaginary part that a real eigenvalue hasn't
    return found.map(([a, b]) =>
      /** @type {Complex} */ ([scale * a, Math.abs(b) < 1e-14 ? 0 : scale * b]))
      // two that are conjugate have the same real part but for rounding
      .sort((a, b) => Math.round((b[0] - a[0]) / scale * 1e9) || b[1] - a[1]);
  };

  return {apply, blend, cayley, cayleyRank2, circulantMixture, combine, delta, deltaUpdate, eigenvalues,
    householder, identity, kroneckerMixture, multiply, norm, orthostochastic, outer, permutationMixture,
    product, rowSums, singularValues, sinkhorn, skew, solve, transpose, unit};
})();
