// Keccak-256, the hash of Merkle trees of compressed NFTs. Node has SHA3-256, which pads otherwise.
const MASK = (1n << 64n) - 1n;
const RATE = 136;
const turn = (lane, by) => (by === 0n ? lane : ((lane << by) | (lane >> (64n - by))) & MASK);

/** Constants of the rounds, from the shift register of the specification. */
const ROUNDS = [];
for (let round = 0, bit = 1; round < 24; round++) {
  let constant = 0n;
  for (let j = 0; j < 7; j++) {
    if (bit & 1) constant |= 1n << BigInt(2 ** j - 1);
    bit = bit & 128 ? (bit << 1) ^ 0x171 : bit << 1;
  }
  ROUNDS.push(constant);
}

/** 25 lanes of 64 bits, that of column x and row y at x + 5 y. */
function permute(state) {
  for (const constant of ROUNDS) {
    const columns = [0, 1, 2, 3, 4].map((x) => [0, 5, 10, 15, 20].reduce((sum, y) => sum ^ state[x + y], 0n));
    for (let at = 0; at < 25; at++) state[at] ^= columns[(at + 4) % 5] ^ turn(columns[(at + 1) % 5], 1n);
    let [x, y, lane] = [1, 0, state[1]];
    for (let step = 1; step <= 24; step++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      [lane, state[x + 5 * y]] = [state[x + 5 * y], turn(lane, BigInt(((step * (step + 1)) / 2) % 64))];
    }
    for (let row = 0; row < 25; row += 5) {
      const lanes = state.slice(row, row + 5);
      for (let at = 0; at < 5; at++) state[row + at] = lanes[at] ^ (~lanes[(at + 1) % 5] & MASK & lanes[(at + 2) % 5]);
    }
    state[0] ^= constant;
  }
}

export function keccak256(data) {
  const state = new Array(25).fill(0n);
  const padded = Buffer.alloc((Math.floor(data.length / RATE) + 1) * RATE);
  padded.set(data);
  padded[data.length] |= 0x01;
  padded[padded.length - 1] |= 0x80;
  for (let from = 0; from < padded.length; from += RATE) {
    for (let lane = 0; lane < RATE / 8; lane++) state[lane] ^= padded.readBigUInt64LE(from + 8 * lane);
    permute(state);
  }
  const hash = Buffer.alloc(32);
  for (let lane = 0; lane < 4; lane++) hash.writeBigUInt64LE(state[lane], 8 * lane);
  return hash;
}
