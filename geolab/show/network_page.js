// @ts-check
// The panel of geolab.show.network: files of weights, and what two of network.js's networks do to one sentence.
//
// Weights come as a text in a script, because a page that is opened from the disk may load scripts alone.
(() => {
  const {decode, encode, open, reader, softmax} = globalThis.geolabNetwork;
  const HERE = /** @type {HTMLScriptElement | null} */ (document.currentScript)?.src ?? "";
  const LINE = "\n", WAIT = 150, NEXT = 5;
  /** @typedef {Record<string, any>} Seen */
  /** @typedef {ReturnType<typeof open>} Network */

  // ---------------------------------------------------------------- files

  /** In hexadecimal, of a text in ASCII (FIPS 180-4). Browsers have their own for pages of https alone.
   * @type {(text: string) => string} */
  const sha256 = text => {
    const K = [], H = [], size = text.length, blocks = (size + 8 >> 6) + 1, data = new Uint8Array(64 * blocks);
    for (let n = 2; K.length < 64; n++) {
      let prime = true;
      for (let d = 2; d * d <= n; d++) prime &&= n % d > 0;
      if (!prime) continue;
      if (H.length < 8) H.push(n ** (1 / 2) % 1 * 2 ** 32 | 0);
      K.push(Math.cbrt(n) % 1 * 2 ** 32 | 0);
    }
    for (let i = 0; i < size; i++) data[i] = text.charCodeAt(i);
    data[size] = 128;
    const view = new DataView(data.buffer), w = new Int32Array(64);
    view.setUint32(data.length - 8, Math.floor(size / 2 ** 29));
    view.setUint32(data.length - 4, size << 3);
    const turn = (/** @type {number} */ x, /** @type {number} */ k) => x >>> k | x << 32 - k;
    for (let block = 0; block < data.length; block += 64) {
      for (let t = 0; t < 64; t++) {
        if (t < 16) { w[t] = view.getInt32(block + 4 * t); continue; }
        const a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + w[t - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >>> 3) + (turn(b, 17) ^ turn(b, 19) ^ b >>> 10);
      }
      let [a, b, c, d, e, f, g, h] = H;
      for (let t = 0; t < 64; t++) {
        const one = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + (e & f ^ ~e & g) + K[t] + w[t] | 0;
        const two = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + (a & b ^ a & c ^ b & c) | 0;
        [h, g, f, e, d, c, b, a] = [g, f, e, d + one | 0, c, b, a, one + two | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((x, i) => { H[i] = H[i] + x | 0; });
    }
    return H.map(x => (x >>> 0).toString(16).padStart(8, "0")).join("");
  };

  const asked = /** @type {Map<string, Promise<Network>>} */ (new Map());  // by hash
  const arrived = /** @type {Map<string, string>} */ (new Map());
  /** What a file of weights calls. @type {(name: string, provenance: object, text: string) => void} */
  globalThis.geolabNetwork.take = (name, _, text) => { arrived.set(name, text); };
  /** @type {(address: string) => Promise<unknown>} */
  const run = address => new Promise((done, fail) => {
    const script = Object.assign(document.createElement("script"), {src: address, onload: done,
      onerror: () => fail(new Error(`The file ${address} can't be read.`))});
    document.head.append(script);
  });
  /** The network of a name, from a file that is fetched where none has been taken yet. It throws an Error
   * with a sentence for a file that can't be read, that is of another network, or that was changed.
   * @type {(name: string, folder: string, hash: string) => Promise<Network>} */
  const fetched = async (name, folder, hash) => {
    const address = new URL(`network_${name}.js`, folder || HERE || location.href).href;
    if (!arrived.has(name)) await run(address);
    const text = arrived.get(name);
    arrived.delete(name);  // so that a second try reads the file again
    if (text === undefined) throw new Error(`The file ${address} has no network “${name}”.`);
    const found = sha256(text);
    if (found !== hash)
      throw new Error(`The weights of “${name}” have the SHA-256 ${found.slice(0, 8)}…, and this page was made for ${hash.slice(0, 8)}….`);
    const net = open(text);
    if (net.residual !== name) throw new Error(`The file of “${name}” has a network with the residual “${net.residual}”.`);
    return net;
  };
  /** The same, once for all who ask; a failure may be asked again. @type {typeof fetched} */
  const network = (name, folder, hash) => {
    const found = asked.get(hash) ?? fetched(name, folder, hash);
    found.catch(() => asked.delete(hash));
    asked.set(hash, found);
    return found;
  };

  // ---------------------------------------------------------------- what is to be seen

  const average = (/** @type {ArrayLike<number>} */ x) => Array.from(x).reduce((a, b) => a + b, 0) / x.length;
  const shown = (/** @type {number} */ x) => x.toFixed(2).replace(/^-(?=0\.00)/, "").replace("-", "−");
  const short = (/** @type {number} */ x) => shown(x).replace(/^(−?)0/, "$1");  // eight of them fit a phone
  const listed = (/** @type {ArrayLike<number>} */ x) => Array.from(x, shown).join(", ");
  const range = (/** @type {ArrayLike<number>} */ x) =>
    `${shown(average(x))} (from ${shown(Math.min(...Array.from(x)))} to ${shown(Math.max(...Array.from(x)))})`;
  const escaped = (/** @type {string} */ text) => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
  const visible = (/** @type {string} */ text) => escaped(text.replaceAll(LINE, "↵").replace(/^ /, "␣"));
  const percent = (/** @type {number} */ p) => `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;

  /** For each residual: what a cell of the table shows, that in words, and all that it did there.
   * @type {Record<string, {cell: (seen: Seen) => number, says: string, tells: (seen: Seen) => string}>} */
  const RESIDUALS = {
    additive: {
      cell: seen => seen.cosine,
      says: "A cell has the cosine of what is added and the state: below 0 it points against what is there.",
      tells: seen => `What is added is ${shown(seen.size)} times as long as the state, and its cosine with the state is ${shown(seen.cosine)}. Nothing is erased.`,
    },
    delta: {
      cell: seen => seen.erased,
      says: "A cell has β |k·x| over the length of the state x: the share that is erased.",
      tells: seen => `β = ${shown(seen.beta)}, k·x = ${shown(seen.along)} and v = ${shown(seen.value)}: along k the state moves from ${shown(seen.along)} to ${shown(seen.along + seen.beta * (seen.value - seen.along))}.`,
    },
    mhc: {
      cell: seen => 1 - average(seen.mix.map((/** @type {number[]} */ row, /** @type {number} */ i) => row[i])),
      says: "A cell has 1 minus the mean diagonal of H: the share of a stream that comes from the others.",
      tells: seen => `The read a is ${listed(seen.read)}, the write b is ${listed(seen.write)}, and the rows of H are ${seen.mix.map(listed).join("; ")}.`,
    },
    mgt: {
      cell: seen => average(seen.gate),
      says: "A cell has the mean of the gate G over the features.",
      tells: seen => `The gate G is ${range(seen.gate)} in the mean, the rate β is ${range(seen.beta)}, and α = ${shown(seen.alpha)}: a feature keeps 1 − α β of what it was.`,
    },
    attnres: {
      cell: seen => seen.weights[0],
      says: "A cell has the weight of the embedding among all that the sublayer reads.",
      tells: seen => `It reads the embedding and the outputs of the sublayers before it with the weights ${listed(seen.weights)}.`,
    },
  };
  const sublayer = (/** @type {number} */ i) => `${i % 2 ? "MLP" : "attention"} ${Math.floor(i / 2) + 1}`;

  // ---------------------------------------------------------------- the panel

  const start = (/** @type {HTMLElement} */ box) => {
    const find = (/** @type {string} */ what, within = box) => /** @type {any} */ (within.querySelector(what));
    const about = JSON.parse(box.dataset.networks ?? "{}"), said = find(".geolab-said"), wants = find(".geolab-wants");
    const text = find("textarea"), begin = find(".geolab-run"), fields = find(".geolab-fields");
    /** @type {Record<string, {name: string, silent: Set<number>, key: string, read: any, pieces: number[], found: any[], net?: Network}>} */
    const sides = {};
    /** @type {[number, number] | null} */
    let place = null;
    let timer = 0, awake = false, turn = 0;
    const side = (/** @type {string} */ which) => find(`[data-side="${which}"]`);
    const select = (/** @type {string} */ which) => find("select", side(which));

    // what was typed is in the address, so that it can be sent
    const keep = () => {
      if (!("address" in box.dataset)) return;
      const address = new URL(location.href);
      const now = {text: text.value, left: sides.left.name, right: sides.right.name,
        "left-off": [...sides.left.silent].join(" "), "right-off": [...sides.right.silent].join(" ")};
      const first = {text: text.defaultValue, left: box.dataset.left, right: box.dataset.right, "left-off": "", "right-off": ""};
      for (const [key, value] of Object.entries(now))
        if (value === /** @type {any} */ (first)[key]) address.searchParams.delete(`network.${key}`);
        else address.searchParams.set(`network.${key}`, value);
      if (!address.hash) address.hash = box.id;
      history.replaceState(history.state, "", address);
    };

    /** What a network does to the pieces; a sentence that grows is read on. */
    const compute = (/** @type {typeof sides[string]} */ one, /** @type {number[]} */ pieces) => {
      const key = `${one.name} ${[...one.silent]}`;
      if (one.key !== key || one.pieces.some((piece, i) => piece !== pieces[i]))
        Object.assign(one, {key, pieces: [], found: [], read: reader(/** @type {Network} */ (one.net), one.silent)});
      for (const piece of pieces.slice(one.pieces.length)) {
        one.found.push(one.read(piece));
        one.pieces.push(piece);
      }
    };
    /** Where delta erases most, or the last piece's last sublayer. @type {() => [number, number]} */
    const strongest = () => {
      const delta = Object.values(sides).find(one => one.name === "delta") ?? sides.left;
      let [best, top] = [[delta.found.length - 1, delta.found[0].seen.length - 1], -1];
      if (delta.name === "delta") delta.found.forEach(({seen}, row) => seen.forEach((/** @type {Seen} */ one, /** @type {number} */ column) => {
        if (row && one.erased > top) [best, top] = [[row, column], one.erased];
      }));
      return /** @type {[number, number]} */ (best);
    };
    const likely = (/** @type {typeof sides[string]} */ one) => {
      const chances = softmax(Array.from(one.found[one.found.length - 1].logits));
      return chances.map((p, i) => /** @type {[number, number]} */ ([p, i])).sort((a, b) => b[0] - a[0]).slice(0, NEXT);
    };

    const draw = () => {
      const least = Math.min(...Object.values(sides).map(one => one.found.length));
      const [row, column] = place && place[0] < least ? place : strongest();
      for (const [which, one] of Object.entries(sides)) {
        const net = /** @type {Network} */ (one.net), of = RESIDUALS[one.name];
        const held = document.activeElement?.getAttribute("data-at"), inside = side(which).contains(document.activeElement);
        const heads = one.found[0].seen.map((/** @type {Seen} */ _, /** @type {number} */ i) =>
          `<th scope="col"><button type="button" data-at="off ${i}" data-off="${i}" aria-pressed="${one.silent.has(i)}" aria-label="silence ${sublayer(i)}" title="silence ${sublayer(i)}">${i % 2 ? "M" : "A"}${Math.floor(i / 2) + 1}</button></th>`);
        const rows = one.found.map(({seen}, r) => `<tr><th scope="row">${visible(decode(net, [one.pieces[r]]))}</th>${
          seen.map((/** @type {Seen} */ did, /** @type {number} */ c) => {
            const value = of.cell(did), here = r === row && c === column;
            return `<td data-at="${r} ${c}"${value < 0 ? ' class="geolab-against"' : ""} tabindex="${here ? 0 : -1}"${here ? ' aria-current="true"' : ""} style="--share:${Math.min(1, Math.abs(value)).toFixed(2)}">${short(value)}</td>`;
          }).join("")}</tr>`);
        const next = likely(one).map(([p, piece]) =>
          `<li><button type="button" data-at="next ${piece}" data-next="${escaped(decode(net, [piece]))}" style="--share:${p.toFixed(2)}">${visible(decode(net, [piece]))}</button> ${percent(p)}</li>`);
        const did = one.found[row].seen[column];
        const off = one.silent.size ? ` Silent: ${[...one.silent].sort((a, b) => a - b).map(sublayer).join(", ")}.` : "";
        find(".geolab-out", side(which)).innerHTML =
          `<p>${of.says}</p><div class="geolab-table"><table role="grid" aria-label="${about[one.name].label}: pieces by sublayers"><thead><tr><td></td>${heads.join("")}</tr></thead><tbody>${rows.join("")}</tbody></table></div>` +
          `<p class="geolab-told">At “${visible(decode(net, [one.pieces[row]]))}”, ${sublayer(column)}: ${one.silent.has(column) ? "silenced. " : ""}${of.tells(did)}</p>` +
          `<p>What may come next.${off}</p><ol>${next.join("")}</ol>`;
        const table = find(".geolab-table", side(which));
        table.scrollTop = find("td[aria-current]", table).offsetTop - table.clientHeight / 2;
        if (inside && held) find(`[data-at="${held}"]`, side(which))?.focus();
      }
      return Object.entries(sides).map(([, one]) => `${about[one.name].label}: ${likely(one).slice(0, 3).map(
        ([p, piece]) => `${decode(/** @type {Network} */ (one.net), [piece]).trim() || "end of line"} ${percent(p)}`).join(", ")}.`).join(" ");
    };

    const tell = (/** @type {string} */ message) => { if (wants.textContent !== message) wants.textContent = message; };
    const update = async () => {
      const mine = ++turn;
      keep();
      try {
        for (const one of Object.values(sides)) {
          if (one.net?.residual === one.name) continue;
          said.textContent = `Loading ${about[one.name].label}.`;
          one.net = await network(one.name, box.dataset.files ?? "", about[one.name].sha256);
          if (mine !== turn) return;
        }
      } catch (problem) {
        if (mine === turn) tell(/** @type {Error} */ (problem).message);
        return;
      }
      let cut = "";
      for (const one of Object.values(sides)) {
        const net = /** @type {Network} */ (one.net), pieces = encode(net, LINE + text.value);
        if (pieces.length > net.context) cut = `The networks read the first ${net.context - 1} pieces of your text, which has ${pieces.length - 1}.`;
        compute(one, pieces.slice(0, net.context));
      }
      tell(cut);
      const heard = draw();
      find(".geolab-still").hidden = begin.hidden = true;
      clearTimeout(timer);
      timer = setTimeout(() => said.textContent = heard, 500);
    };
    const wake = () => { if (!awake) { awake = true; update(); } };

    const sent = "address" in box.dataset ? new URLSearchParams(location.search) : new URLSearchParams();
    for (const which of ["left", "right"]) {
      const name = sent.get(`network.${which}`) ?? "", known = name in about ? name : box.dataset[which] ?? "";
      const off = (sent.get(`network.${which}-off`) ?? "").split(" ").filter(i => /^\d+$/.test(i)).map(Number);
      sides[which] = {name: known, silent: new Set(off), key: "", read: null, pieces: [], found: []};
      select(which).value = known;
      select(which).onchange = () => {
        Object.assign(sides[which], {name: select(which).value, silent: new Set()});
        awake = true;
        update();
      };
      side(which).onclick = (/** @type {MouseEvent} */ event) => {
        const at = /** @type {HTMLElement | null} */ (/** @type {HTMLElement} */ (event.target).closest("[data-at]"));
        if (!at || !awake) return;
        const {off, next} = at.dataset, one = sides[which];
        if (off !== undefined) one.silent.delete(+off) || one.silent.add(+off);
        else if (next !== undefined) text.value += next;
        else place = /** @type {[number, number]} */ ((at.dataset.at ?? "").split(" ").map(Number));
        update();
      };
      side(which).onkeydown = (/** @type {KeyboardEvent} */ event) => {
        const at = /** @type {HTMLElement} */ (event.target).closest("td[data-at]"), by = /** @type {Record<string, number[]>} */ ({
          ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]})[event.key];
        if (!at || !by) return;
        event.preventDefault();
        const [row, column] = (at.getAttribute("data-at") ?? "").split(" ").map(Number);
        const to = /** @type {[number, number]} */ ([row + by[0], column + by[1]]);
        if (!find(`td[data-at="${to.join(" ")}"]`, side(which))) return;
        place = to;
        draw();
        find(`td[data-at="${to.join(" ")}"]`, side(which)).focus();
        said.textContent = find(".geolab-told", side(which)).textContent;
      };
    }
    text.value = sent.get("network.text") ?? text.defaultValue;
    text.oninput = () => {
      place = null;
      clearTimeout(timer);
      timer = setTimeout(update, WAIT);
    };
    fields.addEventListener("focusin", wake);
    begin.onclick = wake;
    fields.hidden = false;
    find(".geolab-untyped").hidden = true;
  };

  document.querySelectorAll(".geolab-network:not([data-started])").forEach(box => {
    box.setAttribute("data-started", "");
    start(/** @type {HTMLElement} */ (box));
  });
})();
