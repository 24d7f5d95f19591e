"use strict";
// The picture of how-it-works.md: three policies on the same made-up losses, with one outlier that the reader moves.
// tests/test_how_it_works.py compares every probability with the library.
(() => {
  const figure = document.getElementById("outlier");
  if (!figure) return;
  const means = figure.dataset.means.split(" ").map(Number);
  const n = means.length;
  const rounds = Number(figure.dataset.rounds);

  // ---- The losses: the same for every visitor ----

  const sum = (values) => values.reduce((total, each) => total + each, 0);

  function* uniforms(seed) {
    for (let state = seed; ; ) {
      state = (48271 * state) % 2147483647; // exact in doubles
      yield state / 2147483647;
    }
  }

  const random = uniforms(Number(figure.dataset.seed));
  const table = Array.from({ length: rounds }, () => ({
    losses: means.map((mean) => -mean * Math.log(random.next().value)),
    draw: random.next().value,
  }));

  // ---- The policies: each has probabilities, and learns from the loss of the arm that was drawn ----

  class EXP3 {
    constructor(scaled) {
      this.scaled = scaled; // brings a loss between 0 and 1
      this.gamma = Math.min(1, Math.sqrt((n * Math.log(n)) / ((Math.E - 1) * rounds)));
      this.gains = means.map(() => 0);
      this.probabilities = means.map(() => 1 / n);
    }

    learn(arm, loss) {
      this.gains[arm] += ((this.gamma / n) * (1 - this.scaled(loss))) / this.probabilities[arm];
      const most = Math.max(...this.gains);
      const weights = this.gains.map((gain) => Math.exp(gain - most));
      const total = sum(weights);
      this.probabilities = weights.map((weight) => ((1 - this.gamma) * weight) / total + this.gamma / n);
    }
  }

  const RATE = 3; // of UMAB-S

  class CentredUMABS {
    constructor() {
      this.sums = means.map(() => 0); // of the estimates
      this.paid = 0; // what the steps have cost, which sets the learning rate
      this.mean = 0;
      this.nLosses = 0;
      this.iterate = means.map(() => 1 / n);
      this.probabilities = [...this.iterate];
    }

    learn(arm, loss) {
      const centred = this.nLosses ? loss - this.mean : 0;
      this.nLosses += 1;
      this.mean = this.nLosses > 1 ? this.mean + centred / this.nLosses : loss;
      const probability = this.probabilities[arm];
      const inverse = this.paid / (RATE * n); // 1/η
      let estimate = centred / probability; // importance weighting
      if (inverse > 0 && estimate * this.iterate[arm] < -2 * inverse) {
        const clipped = (-2 * inverse) / this.iterate[arm];
        this.paid += ((RATE * n) / 8) * (1 - probability) * (clipped - estimate) * probability;
        estimate = clipped;
      }
      this.paid += stability(this.iterate, arm, estimate, inverse);
      this.sums[arm] += estimate;
      if (this.paid > 0) this.iterate = logBarrier(this.sums, (RATE * n) / this.paid);
      const floor = 1 / (n * n + 2 * Math.sqrt((n - 1) * (this.nLosses + 1)));
      this.probabilities = raised(this.iterate, floor); // extra exploration
    }
  }

  // Return μ with Σ 1/(x_k + μ) = 1, where the smallest x is 0. Newton's method climbs from 1.
  function shift(x) {
    let mu = 1;
    for (let step = 1; step > 1e-15 * mu; mu += step) {
      const total = sum(x.map((each) => 1 / (each + mu)));
      step = (total * (total - 1)) / sum(x.map((each) => 1 / (each + mu) ** 2));
    }
    return mu;
  }

  // Return the p that minimizes ⟨L, p⟩ + (1/η) Σ ln(1/p_k).
  function logBarrier(sums, rate) {
    const lowest = Math.min(...sums);
    const x = sums.map((each) => rate * (each - lowest));
    const mu = shift(x);
    return x.map((each) => 1 / (each + mu));
  }

  // Return what a step costs at most: sup_q v(p_k − q_k) − Breg(q‖p)/η, for 1/η = `inverse`.
  function stability(p, arm, estimate, inverse) {
    if (estimate === 0) return 0;
    if (inverse === 0) return Math.abs(estimate) * (estimate > 0 ? p[arm] : 1 - p[arm]);
    const force = p.map((_, k) => (k === arm ? estimate / inverse : 0));
    const target = p.map((each, k) => 1 / each + force[k]);
    const lowest = Math.min(...target);
    const mu = shift(target.map((each) => each - lowest)) - lowest;
    return inverse * sum(p.map((each, k) => logGap(each * (force[k] + mu))));
  }

  // Return d − ln(1 + d), for a small d by its series.
  function logGap(d) {
    return Math.abs(d) < 1e-3 ? d * d * (1 / 2 - d * (1 / 3 - d * (1 / 4 - d / 5))) : d - Math.log1p(d);
  }

  // Return p with no arm below the floor, at the cost of the others, in proportion to what they have above it.
  function raised(p, floor) {
    const above = sum(p.map((each) => Math.max(0, each - floor)));
    const taken = sum(p.map((each) => Math.max(0, floor - each)));
    return taken ? p.map((each) => floor + Math.max(0, each - floor) * (1 - taken / above)) : p;
  }

  // ---- Play ----

  function rescaling() {
    let largest = 0;
    return (loss) => loss / (largest = Math.max(largest, loss));
  }

  // Return the probabilities of all rounds, and what was lost compared with always drawing the first arm.
  function play(policy, size, round) {
    const probabilities = [];
    let lost = 0;
    table.forEach(({ losses, draw }, t) => {
      probabilities.push(policy.probabilities);
      let arm = 0;
      for (let below = policy.probabilities[0]; draw >= below && arm < n - 1; below += policy.probabilities[arm]) arm += 1;
      const hit = t === round - 1;
      lost += hit ? 0 : losses[arm] - losses[0];
      policy.learn(arm, hit ? size : losses[arm]);
    });
    return { probabilities, lost };
  }

  function playAll(size, round, guess) {
    return {
      umab: play(new CentredUMABS(), size, round),
      clipped: play(new EXP3((loss) => Math.min(loss, guess) / guess), size, round),
      rescaled: play(new EXP3(rescaling()), size, round),
    };
  }

  // ---- Draw ----

  const [LEFT, TOP, WIDTH, HEIGHT] = figure.dataset.frame.split(" ").map(Number);
  const [LOWEST, HIGHEST] = figure.dataset.losses.split(" ").map(Number); // of the picture of the losses
  const across = (round) => LEFT + (WIDTH * (round - 1)) / (rounds - 1);
  const up = (share) => TOP + HEIGHT * (1 - share);
  const inLogs = (loss) => Math.log(Math.max(loss, LOWEST) / LOWEST) / Math.log(HIGHEST / LOWEST);
  const controls = Object.fromEntries(["size", "round", "guess"].map((name) => [name, figure.querySelector(`[name=${name}]`)]));
  const rounded = (value) => String(Number(value.toPrecision(2)));

  // Return the outline of the arms up to `last`, stacked.
  function area(probabilities, last) {
    const every = Number(figure.dataset.every);
    const shown = [];
    for (let t = 0; t < rounds - 1; t += every) shown.push(t);
    const points = [...shown, rounds - 1].map((t) => {
      const share = sum(probabilities[t].slice(0, last + 1));
      return `${across(t + 1).toFixed(1)} ${up(share).toFixed(1)}`;
    });
    return `M${points.join("L")}V${up(0)}H${LEFT}Z`;
  }

  function values() {
    return {
      size: 10 ** (controls.size.value / 100),
      round: Number(controls.round.value),
      guess: 10 ** (controls.guess.value / 100),
    };
  }

  function show() {
    const { size, round, guess } = values();
    for (const [name, { probabilities, lost }] of Object.entries(playAll(size, round, guess))) {
      const panel = figure.querySelector(`[data-policy=${name}]`);
      panel.querySelectorAll("path").forEach((path, k) => path.setAttribute("d", area(probabilities, n - 2 - k)));
      panel.querySelector("output").textContent = lost.toFixed(0);
    }
    for (const line of figure.querySelectorAll(".at")) {
      line.setAttribute("x1", across(round));
      line.setAttribute("x2", across(round));
    }
    const dot = figure.querySelector(".dot");
    dot.setAttribute("cx", across(round));
    dot.setAttribute("cy", up(inLogs(size)));
    const range = figure.querySelector(".guess");
    range.setAttribute("y1", up(inLogs(guess)));
    range.setAttribute("y2", up(inLogs(guess)));
    for (const [name, value] of Object.entries({ size, round, guess })) {
      const said = name === "round" ? String(value) : rounded(value);
      controls[name].setAttribute("aria-valuetext", said);
      controls[name].previousElementSibling.textContent = said;
    }
  }

  function dragged(event) {
    const svg = figure.querySelector(".losses");
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    controls.round.value = 1 + ((rounds - 1) * (at.x - LEFT)) / WIDTH; // a range keeps its value within its bounds
    const share = 1 - (at.y - TOP) / HEIGHT;
    controls.size.value = 100 * Math.log10(LOWEST * (HIGHEST / LOWEST) ** share);
    show();
  }

  const dot = figure.querySelector(".dot");
  dot.addEventListener("pointerdown", (event) => {
    dot.setPointerCapture(event.pointerId);
    event.preventDefault();
  });
  dot.addEventListener("pointermove", (event) => {
    if (dot.hasPointerCapture(event.pointerId)) dragged(event);
  });
  figure.addEventListener("input", show);
  figure.querySelector("fieldset").hidden = false;
  window.howItWorks = { playAll }; // for the curious, and for the tests
  show();
})();
