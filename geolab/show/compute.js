// @ts-check
// The panels of geolab.show.compute: what they show is computed by core.js from what a reader types.
(() => {
  const core = globalThis.geolabCore;
  const {apply, combine, eigenvalues, norm, outer, product, rowSums, singularValues, sinkhorn, transpose} = core;

  // as the functions of the same names in panels.py
  const panels = {
    delta: ({k, beta, x}) => {
      k = core.unit(k);
      const A = core.delta(k, beta), after = core.deltaUpdate(x, k, 0, beta);
      return [["A = I − β k kᵀ, where k has length 1", "matrix", A],
        ["Eigenvalues of A", "plane", eigenvalues(A)], ["A x", "numbers", after],
        ["Length of x, and of A x", "numbers", [Math.hypot(...x), Math.hypot(...after)]]];
    },
    gain: ({H, a, b, f, L}) => {
      const M = combine(1, H, f, outer(b, a)), all = product(Array(L).fill(M));
      return [["One layer, M = H + f b aᵀ", "matrix", M],
        [`All layers, M to the power L = ${L}`, "matrix", all],
        ["Eigenvalues of M", "plane", eigenvalues(M)],
        ["Gain, the largest sum of sizes in a row", "numbers",
          [Math.max(...rowSums(all.map(row => row.map(Math.abs))))]]];
    },
    sinkhorn: ({z, s}) => {
      const P = sinkhorn(z, s);
      return [[`P at s = ${s}`, "matrix", P], ["Row sums", "numbers", rowSums(P)],
        ["Column sums", "numbers", rowSums(transpose(P))],
        ["Second singular value", "numbers", [singularValues(P)[1]]]];
    },
    consensus: ({z, w, L}) => {
      const odd = sinkhorn(z), even = sinkhorn(w), n = z.length;
      const all = product(Array.from({length: L}, (_, k) => k % 2 ? even : odd));
      return [["H of layers 1, 3, …", "matrix", odd], ["H of layers 2, 4, …", "matrix", even],
        [`Product of all layers, L = ${L}`, "matrix", all],
        ["Second singular value of the product", "numbers", [singularValues(all)[1]]],
        ["Largest distance of an entry from 1/n", "numbers",
          [Math.max(...all.flat().map(x => Math.abs(x - 1 / n)))]]];
    },
    cayley: ({z}) => {
      const M = core.skew(z, {1: 2, 3: 3, 6: 4}[z.length]);
      const Q = core.cayley(transpose(M)), values = eigenvalues(Q);  // of −M
      return [["Q = (I − M)⁻¹ (I + M)", "matrix", Q], ["Eigenvalues of Q", "plane", values],
        ["Their angles in degrees", "numbers", values.map(([a, b]) => Math.atan2(b, a) * 180 / Math.PI)],
        ["Distance from −1 to the nearest one", "numbers",
          [Math.min(...values.map(([a, b]) => Math.hypot(a + 1, b)))]]];
    },
    gate: ({turn, mirror, gamma}) => {
      const at = degrees => [Math.cos(degrees * Math.PI / 180), Math.sin(degrees * Math.PI / 180)];
      const [c, s] = at(turn), G = core.blend([[c, -s], [s, c]], core.householder(at(mirror)), gamma);
      return [["G = γ Q + (1 − γ) H", "matrix", G], ["Eigenvalues of G", "plane", eigenvalues(G)],
        ["Singular values", "numbers", singularValues(G)],
        ["Determinant", "numbers", [G[0][0] * G[1][1] - G[0][1] * G[1][0]]]];
    },
    commutator: ({A, B}) => {
      const one = product([B, A]), other = product([A, B]), apart = combine(1, one, -1, other);
      return [["A B", "matrix", one], ["B A", "matrix", other], ["A B − B A", "matrix", apart],
        ["Length of A B − B A over that of A B", "numbers", [norm(apart) / (norm(one) || 1)]]];
    },
  };

  // ---------------------------------------------------------------- text, as compute.py writes it

  const shown = x => {
    const size = Math.abs(x);
    if (size < 1e-12) return "0.000";
    const text = size >= 5e-4 && size < 1e5 ? x.toFixed(3) : x.toExponential(2).replace("e+", "e");
    return text.replaceAll("-", "−");
  };
  const complex = ([a, b]) => Math.abs(b) < 5e-4 ? shown(a)
    : `${shown(a)} ${b < 0 ? "−" : "+"} ${shown(Math.abs(b))}i`;
  const plane = (label, values) => {
    const one = 90 / Math.max(1.2, ...values.map(value => Math.hypot(...value)));
    const points = values.map(([a, b]) => `<circle cx="${(one * a).toFixed(1)}" cy="${
      (-one * b).toFixed(1)}" r="5" fill="#0072b2"></circle>`).join("");
    return `<svg viewBox="-100 -100 200 200" role="img" aria-label="${label} beside the unit circle">` +
      '<path d="M-100 0H100M0 -100V100" stroke="#999"></path>' +
      `<circle r="${one.toFixed(1)}" fill="none" stroke="#555"></circle>${points}</svg>`;
  };
  const listed = (kind, values) => values.map(kind === "plane" ? complex : shown).join(", ");
  const result = ([label, kind, values]) => `<div class="geolab-result"><div>${label}</div>` +
    (kind === "matrix"
      ? `<table aria-label="${label}"><tbody>${values.map(row =>
        `<tr>${row.map(x => `<td>${shown(x)}</td>`).join("")}</tr>`).join("")}</tbody></table>`
      : `${kind === "plane" ? plane(label, values) : ""}` +
        `<div class="geolab-numbers">${listed(kind, values)}</div>`) + "</div>";

  // ---------------------------------------------------------------- what is typed

  const number = text => {
    const parts = text.split("/").map(part => /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(part) ? +part : NaN);
    return parts.length > 2 ? NaN : parts[0] / (parts[1] ?? 1);
  };
  /** A number, vector or matrix, or null if the text is none of the kind. */
  const read = (field, size) => {
    const {kind, low, high, sizes, nonzero} = field.dataset;
    const plain = field.value.trim().replaceAll("−", "-").replaceAll(", ", " ").replaceAll(",", ".");
    const rows = plain.split(";").map(row => row.trim().split(/\s+/).map(number));
    const fits = count => sizes.split(" ").includes(String(count)) && (size ?? count) === count;
    if (!rows.flat().every(x => x >= +low && x <= +high)) return null;
    if (kind === "matrix")
      return fits(rows.length) && rows.every(row => row.length === rows.length) ? rows : null;
    if (rows.length > 1) return null;
    if (kind === "vector")
      return fits(rows[0].length) && (!nonzero || rows[0].some(Boolean)) ? rows[0] : null;
    return rows[0].length > 1 || kind === "count" && rows[0][0] % 1 ? null : rows[0][0];
  };

  const start = box => {
    const fields = [...box.querySelectorAll("input[name]")], said = box.querySelector(".geolab-said");
    const known = new Map(fields.map(field => [field, field.value]));  // the last good texts
    let timer = 0;
    const update = () => {
      const state = {}, sizes = {};
      let good = true;
      for (const field of fields) {
        const {like, wants} = field.dataset, name = field.closest("label").textContent.trim();
        const value = read(field, sizes[like]);
        const message = value !== null ? "" :
          `${name} wants ${wants}. The results are still those of ${known.get(field)}.`;
        const told = field.closest(".geolab-field").querySelector(".geolab-wants");
        if (told.textContent !== message) told.textContent = message;
        field.setAttribute("aria-invalid", String(value === null));
        good &&= value !== null;
        state[field.name.split(".")[1]] = value;
        sizes[name] = value?.length;
      }
      if (!good) return false;
      const results = panels[box.dataset.panel](state);
      const text = results.filter(([, kind]) => kind !== "matrix")
        .map(([label, kind, values]) => `${label}: ${listed(kind, values)}.`).join(" ");
      box.querySelector(".geolab-results").innerHTML = results.map(result).join("");
      for (const field of fields) {
        known.set(field, field.value);
        const drag = field.closest(".geolab-field").querySelector("[type=range]");
        if (drag) drag.value = String(read(field));
      }
      clearTimeout(timer);  // a drag is announced where it ends
      timer = setTimeout(() => said.textContent = text, 400);
      return true;
    };
    // the address keeps what was typed, so that it can be sent
    const keep = () => {
      if (!("address" in box.dataset)) return;
      const address = new URL(location.href);
      for (const field of fields)
        if (known.get(field) === field.defaultValue) address.searchParams.delete(field.name);
        else address.searchParams.set(field.name, known.get(field));
      if (!address.hash) address.hash = box.id;
      history.replaceState(history.state, "", address);
    };
    for (const field of fields) {
      const drag = field.closest(".geolab-field").querySelector("[type=range]");
      field.oninput = update;
      field.onchange = keep;
      if (drag) {
        drag.oninput = () => { field.value = drag.value; update(); };
        drag.onchange = keep;
      }
      // an arrow key steps the number at the caret
      field.onkeydown = event => {
        const by = {ArrowUp: 1, ArrowDown: -1}[event.key];
        if (!by) return;
        event.preventDefault();
        const text = field.value, caret = field.selectionStart ?? 0;
        const from = text.slice(0, caret).search(/[^\s;]*$/), end = caret + text.slice(caret).search(/[\s;]|$/);
        const step = by * (drag ? +drag.step : 0.1), old = number(text.slice(from, end).replace("−", "-").replace(/,$/, "").replace(",", "."));
        if (Number.isNaN(old)) return;
        const next = String(+(old + step).toFixed(6));
        field.value = text.slice(0, from) + next + text.slice(end);
        field.setSelectionRange(from + next.length, from + next.length);
        if (update()) keep();
      };
    }
    const sent = "address" in box.dataset ? new URLSearchParams(location.search) : new URLSearchParams();
    if (!update()) throw new Error(`${box.id} starts with numbers that its fields refuse`);
    for (const field of fields) field.value = sent.get(field.name) ?? field.value;
    update();
    box.querySelector(".geolab-fields").hidden = false;
    box.querySelector(".geolab-untyped").hidden = true;
  };

  document.querySelectorAll(".geolab-compute:not([data-started])").forEach(box => {
    box.setAttribute("data-started", "");
    start(box);
  });
})();
