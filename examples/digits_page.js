// A page on which you draw a digit: the 32 × 32 dots that the pen has touched, counted in blocks
// of 4 × 4, as the training data was made. `scores_of` is the network: 64 numbers to 10 scores.
const SIZE = 32, PEN = 2.2;
const canvas = document.querySelector("canvas"), paper = canvas.getContext("2d");
const bars = [...document.querySelectorAll("meter")], answer = document.querySelector("output");
let dots = new Uint8Array(SIZE * SIZE), last = null;

function touch(x, y) {
  const reach = Math.ceil(PEN);
  for (let i = Math.floor(y) - reach; i <= y + reach; i++)
    for (let j = Math.floor(x) - reach; j <= x + reach; j++)
      if (i >= 0 && i < SIZE && j >= 0 && j < SIZE && Math.hypot(i + 0.5 - y, j + 0.5 - x) < PEN)
        dots[i * SIZE + j] = 1;
}

function line(from, to) {
  const steps = 1 + Math.ceil(4 * Math.hypot(to[0] - from[0], to[1] - from[1]));
  for (let k = 0; k <= steps; k++)
    touch(...from.map((start, axis) => start + ((to[axis] - start) * k) / steps));
}

function show() {
  const image = paper.createImageData(SIZE, SIZE), blocks = new Float32Array(64);
  dots.forEach((dot, at) => {
    image.data[4 * at + 3] = 255 * dot;
    blocks[8 * Math.floor(at / SIZE / 4) + Math.floor((at % SIZE) / 4)] += dot / 16;
  });
  paper.putImageData(image, 0, 0);
  const [scores] = scores_of(blocks), most = Math.max(...scores);
  const shares = Array.from(scores, (score) => Math.exp(score - most));
  const all = shares.reduce((sum, share) => sum + share);
  bars.forEach((bar, digit) => (bar.value = shares[digit] / all));
  answer.value = dots.includes(1) ? scores.indexOf(most) : "";
}

function place(event) {
  const box = canvas.getBoundingClientRect();
  return [((event.clientX - box.left) / box.width) * SIZE,
          ((event.clientY - box.top) / box.height) * SIZE];
}

canvas.onpointerdown = (event) => { last = place(event); line(last, last); show(); };
canvas.onpointermove = (event) => {
  if (last === null) return;
  const now = place(event);
  line(last, now);
  last = now;
  show();
};
window.onpointerup = () => { last = null; };
document.querySelector("button").onclick = () => { dots = new Uint8Array(SIZE * SIZE); show(); };
show();
