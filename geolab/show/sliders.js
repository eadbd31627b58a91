// Runs once for each figure. At a stop, the picture is a stored frame. While a reader drags, it lies
// between two: p(t) = (1 − t) a + t b for each coordinate, colour and number, as in between.py.
(() => {
  /** @typedef {(share: number) => string} Blend  a text at a share of the way between two */
  /** @typedef {{values: string[], inputs: HTMLInputElement[], of: Element, timer: number}} Slider */
  const NUMBER = /(#[0-9a-f]{6}\b|(?<![\w.])[-−]?\d+(?:,\d{3})*(?:\.\d+)?|\d+(?:\.\d+)?)/;
  const NAME = /(\bid="|url\(#|href="#)([^")]+)/g;
  const box = document.currentScript.parentElement, picture = box.firstElementChild;
  const data = JSON.parse(box.querySelector('[type="application/json"]').textContent);
  const own = `e${document.querySelectorAll(".geolab-explore").length}n`;  // this figure's names
  /** @type {Slider[]} */
  const sliders = [...box.querySelectorAll(".geolab-slider")].map((of, k) => (
    {values: data.values[k], inputs: [...of.querySelectorAll("input")], of, timer: 0}));
  const unlike = new Set();      // neighbours between which nothing moves
  let drawn = "", moves = null;  // the frame in the picture, or the two and what moves between them

  /** A frame by the indices of its values. Names count up, so that alike frames agree in them.
   * @param {number[]} places @returns {string} */
  const frame = places => {
    const at = places.reduce((sum, place, k) => sum * sliders[k].values.length + place, 0);
    const known = new Map(), lines = data.frames[at].flatMap(
      ([from, count]) => data.lines.slice(from, from + count));
    return lines.join("\n").replace(NAME, (_, before, name) => {
      if (!known.has(name)) known.set(name, own + known.size);
      return before + known.get(name);
    }) + "\n";
  };

  /** How many digits stand after the point. @param {string} number */
  const digits = number => (number.split(".")[1] ?? "").length;

  /** @param {string} p @param {string} q @param {number} places @returns {Blend} */
  const number = (p, q, places) => {
    if (p[0] === "#") return t => "#" + [1, 3, 5].map(k => Math.round(
      (1 - t) * parseInt(p.slice(k, k + 2), 16) + t * parseInt(q.slice(k, k + 2), 16))
      .toString(16).padStart(2, "0")).join("");
    const [a, b] = [p, q].map(part => +part.replace("−", "-").replaceAll(",", ""));
    places = Math.max(places, digits(p), digits(q));
    const minus = (p + q).includes("−") ? "−" : "-", grouped = (p + q).includes(",");
    return t => {
      const value = Math.round(((1 - t) * a + t * b) * 10 ** places) / 10 ** places + 0;  // no -0
      return (grouped ? value.toLocaleString("en", {minimumFractionDigits: places})
        : value.toFixed(places)).replace("-", minus);
    };
  };

  /** The way from text a to text b, or null if words differ. A number has at least these places.
   * @param {string} a @param {string} b @param {number} places @returns {Blend | null} */
  const blend = (a, b, places) => {
    const [from, to] = [a.split(NUMBER), b.split(NUMBER)];
    if (from.length !== to.length || from.some((part, k) => k % 2 === 0 && part !== to[k]))
      return null;
    const parts = from.map((part, k) => part === to[k] ? () => part : number(part, to[k], places));
    return t => parts.map(part => part(t)).join("");
  };

  /** What moves from the picture to frame b, or null if the two aren't alike.
   * @param {string} b @returns {((share: number) => void)[] | null} */
  const way = b => {
    const other = document.createElement("div"), found = [];
    other.innerHTML = b;
    const [from, to] = [picture, other].map(root => [...root.querySelectorAll(":not(text *)")]);
    if (from.length !== to.length) return null;
    for (const [k, x] of from.entries()) {
      const y = to[k], text = x.tagName === "text";
      if (x.tagName !== y.tagName || x.attributes.length !== y.attributes.length) return null;
      const near = (u, v) => text ? t => t < 0.5 ? u : v : null;
      for (const {name, value: u} of x.attributes) {
        const v = y.getAttribute(name), mixed = u === v || v !== null && (blend(u, v, 2) ?? near(u, v));
        if (!mixed) return null;
        if (u !== v) found.push(t => x.setAttribute(name, mixed(t)));
      }
      if (text && x.innerHTML !== y.innerHTML) {
        const mixed = blend(x.innerHTML, y.innerHTML, 0) ?? near(x.innerHTML, y.innerHTML);
        found.push(t => x.innerHTML = mixed(t));
      }
    }
    return found;
  };

  /** @param {number[]} places */
  const put = places => {
    if (drawn !== `${places}`) picture.innerHTML = frame(places);
    drawn = `${places}`;
  };
  const place = ({inputs}) => inputs.length > 1 ? inputs.findIndex(one => one.checked)
    : +inputs[0].value;
  // The address keeps where a slider rests, so that it can be sent: ?draw_mean.share=0.5
  const keep = k => {
    if (!/^(file|https?):$/.test(location.protocol)) return;
    const address = new URL(location.href), {inputs, values} = sliders[k];
    const first = inputs.length > 1 ? inputs.findIndex(one => one.defaultChecked)
      : +inputs[0].defaultValue;
    const now = place(sliders[k]);
    if (now === first) address.searchParams.delete(data.keys[k]);
    else address.searchParams.set(data.keys[k], values[now]);
    if (!address.hash) address.hash = box.closest("section[id]")?.id ?? "";
    history.replaceState(history.state, "", address);
  };
  const show = () => {
    const at = sliders.map(place), low = at.map(Math.floor), high = at.map(Math.ceil);
    const share = Math.max(...at.map((p, k) => p - low[k]));
    const pair = `${low} ${high}`;
    if (share && drawn !== pair && !unlike.has(pair)) {
      put(low);
      moves = way(frame(high));
      if (moves) drawn = pair; else unlike.add(pair);
    }
    if (drawn === pair) moves.forEach(move => move(share));
    else put(at.map(Math.round));
    picture.setAttribute("aria-label", sliders.reduce((alt, {values, inputs, of}, k) => {
      const [a, b] = [values[low[k]], values[high[k]]];
      const value = a === b ? a
        : blend(a, b, 1 + Math.max(digits(a), digits(b)))(share);
      of.querySelectorAll("output").forEach(output => output.value = value);
      if (inputs.length === 1) inputs[0].setAttribute("aria-valuetext", value);
      return `${alt}; ${data.names[k]} = ${value}`;
    }, data.alt));
  };

  sliders.forEach((slider, k) => {
    const {inputs, of} = slider, [input] = inputs, play = of.querySelector("[data-play]");
    const sent = slider.values.indexOf(new URLSearchParams(location.search).get(data.keys[k]) ?? "");
    if (inputs.length > 1) {
      if (sent >= 0) inputs[sent].checked = true;
      return inputs.forEach(one => {
        one.name = own + k;
        one.oninput = show;
        one.onchange = () => keep(k);
      });
    }
    if (sent >= 0) input.value = `${sent}`;
    const stop = () => { clearInterval(slider.timer); slider.timer = 0; play.textContent = "▶"; };
    const to = stopped => { input.step = "1"; input.value = stopped; show(); };
    const start = () => {
      if (+input.value === +input.max) to(0);
      play.textContent = "❚❚";
      slider.timer = setInterval(
        () => +input.value < +input.max ? to(+input.value + 1) : stop(), 350);
    };
    input.oninput = () => { stop(); show(); };
    if ("smooth" in input.dataset) input.onpointerdown = () => input.step = "any";
    input.onkeydown = () => input.step = "1";
    // at rest, the picture is a drawn one
    input.onchange = () => { to(Math.round(+input.value)); keep(k); };
    play.onclick = () => slider.timer ? stop() : start();
    of.querySelectorAll("[data-step]").forEach(step =>
      step.onclick = () => { stop(); to(+input.value + +step.dataset.step); keep(k); });
    of.querySelectorAll("[data-at]").forEach(mark =>
      mark.onclick = () => { stop(); to(mark.dataset.at); keep(k); });
  });
  show();
  box.querySelector(".geolab-sliders").hidden = false;
  box.querySelector(".geolab-still").hidden = true;
})();
