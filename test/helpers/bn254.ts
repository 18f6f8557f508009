/** The curve of BN254 proofs in plain arithmetic: points to answer with, and a way back from their compressed form. */
const Q = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const mod = (value: bigint) => ((value % Q) + Q) % Q;

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  for (let square = mod(base), rest = exponent; rest > 0n; rest >>= 1n, square = mod(square * square))
    if (rest & 1n) result = mod(result * square);
  return result;
}
const inverse = (value: bigint) => power(value, Q - 2n);

/** The imaginary part comes first, as provers write it. */
type Fp2 = readonly [c1: bigint, c0: bigint];
const times = (a: Fp2, b: Fp2): Fp2 => [mod(a[0] * b[1] + a[1] * b[0]), mod(a[1] * b[1] - a[0] * b[0])];
const plus = (a: Fp2, b: Fp2): Fp2 => [mod(a[0] + b[0]), mod(a[1] + b[1])];
const minus = (a: Fp2): Fp2 => [mod(-a[0]), mod(-a[1])];
function power2(base: Fp2, exponent: bigint): Fp2 {
  let result: Fp2 = [0n, 1n];
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n, square = times(square, square))
    if (rest & 1n) result = times(result, square);
  return result;
}
/** 3 / (9 + u) */
const B2: Fp2 = (() => {
  const norm = inverse(82n);
  return [mod(-3n * norm), mod(27n * norm)];
})();

export type G1 = readonly [bigint, bigint];
export type G2 = readonly [Fp2, Fp2];

export const GENERATOR_G2: G2 = [
  [
    11559732032986387107991004021392285783925812861821192530917403151452391805634n,
    10857046999023057135944570762232829481370756359578518086990519993285655852781n,
  ],
  [
    4082367875863433681332203403145435568316851327593401208105741076214120093531n,
    8495653923123431417604973247489272438418190587263600148770280649306958101930n,
  ],
];

/** The generator, so many times. */
export function multipleG1(count: number): G1 {
  let point: G1 = [1n, 2n];
  for (let i = 1; i < count; i += 1) point = addG1(point, [1n, 2n]);
  return point;
}

function addG1([x1, y1]: G1, [x2, y2]: G1): G1 {
  const slope = x1 === x2 ? mod(3n * x1 * x1 * inverse(mod(2n * y1))) : mod((y2 - y1) * inverse(mod(x2 - x1)));
  const x = mod(slope * slope - x1 - x2);
  return [x, mod(slope * (x1 - x) - y1)];
}

export const negativeG1 = ([x, y]: G1): G1 => [x, mod(-y)];
export const negativeG2 = ([x, y]: G2): G2 => [x, minus(y)];

/** Reads 32 compressed bytes; the top bit says that y is the larger one of the two. */
export function decompressG1(bytes: readonly number[]): G1 {
  const {
    x: [x],
    isLarger,
  } = parts(bytes);
  const y = power(mod(x! ** 3n + 3n), (Q + 1n) / 4n);
  if (mod(y * y) !== mod(x! ** 3n + 3n)) throw new Error('no point has this x');
  return [x!, y > mod(-y) === isLarger ? y : mod(-y)];
}

/** Reads 64. */
export function decompressG2(bytes: readonly number[]): G2 {
  const {
    x: [c1, c0],
    isLarger,
  } = parts(bytes);
  const x: Fp2 = [c1!, c0!];
  const square = plus(times(times(x, x), x), B2);
  const first = power2(square, (Q - 3n) / 4n);
  const alpha = times(times(first, first), square);
  const root = times(first, square);
  const y: Fp2 =
    alpha[0] === 0n && alpha[1] === Q - 1n
      ? times([1n, 0n], root)
      : times(power2(plus([0n, 1n], alpha), (Q - 1n) / 2n), root);
  const [s1, s0] = times(y, y);
  if (s1 !== square[0] || s0 !== square[1]) throw new Error('no point has this x');
  return [x, isAbove(y, minus(y)) === isLarger ? y : minus(y)];
}

const isAbove = (a: Fp2, b: Fp2) => (a[0] === b[0] ? a[1] > b[1] : a[0] > b[0]);

function parts(bytes: readonly number[]) {
  const [first, ...rest] = bytes;
  if ((first! & 0x40) !== 0) throw new Error('infinity');
  const hex = Buffer.from([first! & 0x3f, ...rest]).toString('hex');
  const x = hex.match(/.{64}/g)!.map((text) => BigInt(`0x${text}`));
  return { x, isLarger: (first! & 0x80) !== 0 };
}

const hex = (value: bigint) => `0x${value.toString(16)}`;

/** What a prover answers; hexadecimal without leading zeros. */
export const answerOf = (ar: G1, bs: G2, krs: G1) => ({
  ar: ar.map(hex),
  bs: bs.map((pair) => pair.map(hex)),
  krs: krs.map(hex),
});
