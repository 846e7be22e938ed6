// A large heap of buffers: node's buffers of more than half a pool's length are blocks of malloc. They are made in many
// sizes, replaced at random, read, and gathered into longer ones.
"use strict";
const crypto = require("crypto");

const [work] = process.argv.slice(2);
if (process.argv.length !== 3 || !/^[1-9][0-9]*$/.test(work)) {
  console.error(`large_buffers.js: arguments are '${process.argv.slice(2).join(" ")}'; allowed: one number, 1 or more`);
  process.exit(2);
}
const COUNT = 150_000;
const [LEAST, MOST] = [64, 4096]; // bytes

let state = 12345;
const draw = (below) => {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return Math.floor((state / 2 ** 32) * below);
};
const make = (value) => Buffer.allocUnsafeSlow(LEAST + draw(MOST - LEAST)).fill(value & 255);

const buffers = [];
for (let number = 0; number < COUNT; number++) buffers.push(make(number));
let sum = 0;
const hash = crypto.createHash("sha256");
for (let turn = 0; turn < Number(work); turn++) {
  const at = draw(COUNT);
  sum += buffers[at][buffers[at].length - 1];
  buffers[at] = make(turn);
  if (turn % 1000 === 0) {
    const from = draw(COUNT - 500);
    hash.update(Buffer.concat(buffers.slice(from, from + 500)));
  }
}
console.log(`digest=${hash.update(String(sum)).digest("hex")}`);
