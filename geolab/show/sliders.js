// Runs once for each figure. At a stop, the picture is a stored frame. While a reader drags, it lies
// between two frames, or on a pad between four: p = Σ wₖ aₖ for each coordinate, colour and number,
// as in between.py.
(() => {
  /** @typedef {(weights: number[]) => string} Blend  a text at these weights of the frames around */
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
  let drawn = "", moves = null;  // the frames that the picture shows, and what moves between them

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

  /** @param {number[]} weights @param {number[]} numbers */
  const sum = (weights, numbers) => weights.reduce((all, weight, k) => all + weight * numbers[k], 0);

  /** @param {string[]} parts @param {number} places @returns {Blend} */
  const number = (parts, places) => {
    if (parts[0][0] === "#") {
      const colours = [1, 3, 5].map(k => parts.map(part => parseInt(part.slice(k, k + 2), 16)));
      return weights => "#" + colours.map(
        of => Math.round(sum(weights, of)).toString(16).padStart(2, "0")).join("");
    }
    const numbers = parts.map(part => +part.replace("−", "-").replaceAll(",", ""));
    places = Math.max(places, ...parts.map(digits));
    const joined = parts.join(""), minus = joined.includes("−") ? "−" : "-";
    return weights => {
      const value = Math.round(sum(weights, numbers) * 10 ** places) / 10 ** places + 0;  // no -0
      return (joined.includes(",") ? value.toLocaleString("en", {minimumFractionDigits: places})
        : value.toFixed(places)).replace("-", minus);
    };
  };

  /** What lies between texts, or null if words differ. A number has at least these places.
   * @param {string[]} texts @param {number} places @returns {Blend | null} */
  const blend = (texts, places) => {
    const all = texts.map(text => text.split(NUMBER)), [from] = all;
    if (all.some(to => to.length !== from.length
      || from.some((part, k) => k % 2 === 0 && part !== to[k]))) return null;
    const parts = from.map((part, k) => all.every(to => to[k] === part) ? () => part
      : number(all.map(to => to[k]), places));
    return weights => parts.map(part => part(weights)).join("");
  };

  /** What moves between the picture and other frames, or null if they aren't alike.
   * @param {string[]} others @returns {((weights: number[]) => void)[] | null} */
  const way = others => {
    const roots = others.map(
      innerHTML => Object.assign(document.createElement("div"), {innerHTML}));
    const all = [picture, ...roots].map(root => [...root.querySelectorAll(":not(text *)")]);
    const found = [];
    if (all.some(of => of.length !== all[0].length)) return null;
    for (const [k, x] of all[0].entries()) {
      const alike = all.map(of => of[k]), text = x.tagName === "text";
      if (alike.some(y => y.tagName !== x.tagName || y.attributes.length !== x.attributes.length))
        return null;
      /** @param {string[]} texts @param {number} places @param {(text: string) => void} put */
      const move = (texts, places, put) => {
        if (texts.every(one => one === texts[0])) return true;
        const near = text && (weights => texts[weights.lastIndexOf(Math.max(...weights))]);
        const mixed = !texts.includes(null) && blend(texts, places) || near;
        if (mixed) found.push(weights => put(mixed(weights)));
        return mixed;
      };
      for (const {name} of x.attributes) {
        const texts = alike.map(y => y.getAttribute(name));
        if (!move(texts, 2, to => x.setAttribute(name, to))) return null;
      }
      if (text) move(alike.map(y => y.innerHTML), 0, to => x.innerHTML = to);
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
    const at = sliders.map(place);
    const around = at.reduce((all, p) => [...new Set([Math.floor(p), Math.ceil(p)])].flatMap(
      q => all.map(places => [...places, q])), [[]]);
    const weights = around.map(
      places => places.reduce((weight, q, k) => weight * (1 - Math.abs(at[k] - q)), 1));
    const corners = around.join(" ");
    if (around.length > 1 && drawn !== corners && !unlike.has(corners)) {
      put(around[0]);
      moves = way(around.slice(1).map(frame));
      if (moves) drawn = corners; else unlike.add(corners);
    }
    if (around.length > 1 && drawn === corners) moves.forEach(move => move(weights));
    else put(at.map(Math.round));
    picture.setAttribute("aria-label", sliders.reduce((alt, {values, inputs, of}, k) => {
      const share = at[k] % 1, [a, b] = [values[Math.floor(at[k])], values[Math.ceil(at[k])]];
      const value = share ? blend([a, b], 1 + Math.max(digits(a), digits(b)))([1 - share, share]) : a;
      of.querySelectorAll("output").forEach(output => output.value = value);
      if (inputs.length === 1) inputs[0].setAttribute("aria-valuetext", value);
      const {axis} = of.dataset;
      if (axis) of.parentElement.style.setProperty(`--${axis}`, at[k] / (values.length - 1));
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
    const stop = () => {
      clearInterval(slider.timer);
      slider.timer = 0;
      if (play) play.textContent = "▶";
    };
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
    if (play) play.onclick = () => slider.timer ? stop() : start();
    of.querySelectorAll("[data-step]").forEach(step =>
      step.onclick = () => { stop(); to(+input.value + +step.dataset.step); keep(k); });
    of.querySelectorAll("[data-at]").forEach(mark =>
      mark.onclick = () => { stop(); to(mark.dataset.at); keep(k); });
  });

  // On a pad a point moves two sliders, across and up. Their tracks lie unseen over its square.
  box.querySelectorAll(".geolab-pad").forEach(pad => {
    const square = pad.querySelector(".geolab-square"), inputs = [...pad.querySelectorAll("input")];
    const ARROWS = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1]};
    /** @param {PointerEvent} at */
    const move = at => {
      const {left, bottom, width, height} = square.getBoundingClientRect();
      const shares = [(at.clientX - left) / width, (bottom - at.clientY) / height];
      inputs.forEach((input, k) => input.value = `${shares[k] * +input.max}`);  // none is outside
      show();
    };
    square.onpointerdown = event => {
      if (event.button) return;
      square.setPointerCapture(event.pointerId);
      inputs.forEach(input => input.onpointerdown?.(event));
      move(event);
    };
    square.onpointermove = event => square.hasPointerCapture(event.pointerId) && move(event);
    square.onlostpointercapture = () => {
      inputs.forEach(input => input.onchange());
      inputs[0].focus({preventScroll: true});
    };
    inputs.forEach(input => input.onkeydown = event => {
      const [k, by] = ARROWS[event.key] ?? [];
      input.step = "1";
      if (k === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      inputs[k].focus({preventScroll: true});  // so that its new value is said
      inputs[k].stepUp(by);
      inputs[k].onchange();
    });
  });
  show();
  box.querySelector(".geolab-sliders").hidden = false;
  box.querySelector(".geolab-still").hidden = true;
})();
