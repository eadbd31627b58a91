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
      slider.nextElementSibling.value = value;
      slider.setAttribute("aria-valuetext", value);
      alt += `; ${data.names[k]} = ${value}`;
    });
    for (const [from, count] of data.frames[frame])
      drawn += data.lines.slice(from, from + count).join("\n") + "\n";
    picture.innerHTML = drawn;
    picture.setAttribute("aria-label", alt);
  };
  sliders.forEach(slider => slider.oninput = show);
  box.querySelector(".geolab-sliders").hidden = false;
  show();
})();
