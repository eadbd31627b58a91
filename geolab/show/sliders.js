// Runs once for each figure: puts the lines of the chosen frame together, and shows them.
(() => {
  const box = document.currentScript.parentElement, picture = box.firstElementChild;
  const data = JSON.parse(box.querySelector('[type="application/json"]').textContent);
  const sliders = [...box.querySelectorAll("input")];
  const show = () => {
    let frame = 0, alt = data.alt, drawn = "";
    sliders.forEach((slider, k) => {
      const value = data.values[k][slider.value];
      frame = frame * (+slider.max + 1) + +slider.value;
      slider.closest(".geolab-slider").querySelector("output").value = value;
      slider.setAttribute("aria-valuetext", value);
      alt += `; ${data.names[k]} = ${value}`;
    });
    for (const [from, count] of data.frames[frame])
      drawn += data.lines.slice(from, from + count).join("\n") + "\n";
    picture.innerHTML = drawn;
    picture.setAttribute("aria-label", alt);
  };
  sliders.forEach(slider => {
    let timer = 0;
    const of = slider.closest(".geolab-slider"), play = of.querySelector("[data-play]");
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "▶"; };
    const to = place => { slider.value = place; show(); };
    const start = () => {
      if (slider.value === slider.max) to(0);
      play.textContent = "❚❚";
      timer = setInterval(() => +slider.value < +slider.max ? to(+slider.value + 1) : stop(), 350);
    };
    slider.oninput = () => { stop(); show(); };
    play.onclick = () => timer ? stop() : start();
    of.querySelectorAll("[data-step]").forEach(step =>
      step.onclick = () => { stop(); to(+slider.value + +step.dataset.step); });
    of.querySelectorAll("[data-at]").forEach(mark =>
      mark.onclick = () => { stop(); to(mark.dataset.at); });
  });
  box.querySelector(".geolab-sliders").hidden = false;
  show();
})();
