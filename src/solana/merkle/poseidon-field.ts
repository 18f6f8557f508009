/** Arithmetic modulo the order of the BN254 scalar field, in plain BigInt: for constants and for the oracle, not for speed. */

export const PRIME = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

/** The element in [0, PRIME). */
export function modulo(value: bigint): bigint {
  const rest = value % PRIME;
  return rest < 0n ? rest + PRIME : rest;
}

/** The multiplicative inverse, by the extended Euclidean algorithm. Throws RangeError for zero. */
function inverse(value: bigint): bigint {
  let [low, high] = [modulo(value), PRIME];
  let [a, b] = [1n, 0n];
  if (low === 0n) throw new RangeError('zero has no inverse');
  while (low > 1n) {
    const quotient = high / low;
    [low, high] = [high - quotient * low, low];
    [a, b] = [b - quotient * a, a];
  }
  return modulo(a);
}

type Vector = readonly bigint[];
type Matrix = readonly Vector[];

function dot(left: Vector, right: Vector): bigint {
  return modulo(left.reduce((sum, value, i) => sum + value * (right[i] as bigint), 0n));
}

/** Matrix times column. */
export function apply(matrix: Matrix, column: Vector): bigint[] {
  return matrix.map((row) => dot(row, column));
}

/** Row times matrix. */
function applyRow(row: Vector, matrix: Matrix): bigint[] {
  return row.map((_, column) =>
    dot(
      row,
      matrix.map((line) => line[column] as bigint),
    ),
  );
}

function multiply(left: Matrix, right: Matrix): bigint[][] {
  return left.map((row) => applyRow(row, right));
}

/** Gauss-Jordan elimination. Throws RangeError for a singular matrix. */
function invertMatrix(matrix: Matrix): bigint[][] {
  const size = matrix.length;
  const rows = matrix.map((row, i) => [...row, ...row.map((_, j) => (i === j ? 1n : 0n))]);
  for (let column = 0; column < size; column += 1) {
    const pivot = rows.findIndex((row, i) => i >= column && row[column] !== 0n);
    if (pivot < 0) throw new RangeError('the matrix is singular');
    [rows[column], rows[pivot]] = [rows[pivot] as bigint[], rows[column] as bigint[]];
    const scale = inverse((rows[column] as bigint[])[column] as bigint);
    rows[column] = (rows[column] as bigint[]).map((value) => modulo(value * scale));
    for (let i = 0; i < size; i += 1) {
      const factor = (rows[i] as bigint[])[column] as bigint;
      if (i === column || factor === 0n) continue;
      rows[i] = (rows[i] as bigint[]).map((value, j) =>
        modulo(value - factor * ((rows[column] as bigint[])[j] as bigint)),
      );
    }
  }
  return rows.map((row) => row.slice(size));
}

/** Full rounds, half before and half after the partial rounds. */
export const FULL_ROUNDS = 8;
/** Partial rounds by width, from 2 on. */
const PARTIAL_ROUNDS = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65];
export const MAX_INPUTS = PARTIAL_ROUNDS.length;
const FIELD_BITS = 254;

/** The circom parameters of Poseidon over the BN254 scalar field with the S-box x^5. */
export interface PoseidonParameters {
  /** State elements: inputs + 1. */
  readonly width: number;
  readonly partialRounds: number;
  /** Round constants in round-major order: `constants[round * width + element]`. */
  readonly constants: readonly bigint[];
  /** `next[i] = sum of matrix[i][j] * state[j]`. */
  readonly matrix: Matrix;
}

/** Generates the parameters for 1 to 12 inputs by the Grain generator of the Poseidon paper. Throws RangeError. */
export function poseidonParameters(inputs: number): PoseidonParameters {
  const partialRounds = PARTIAL_ROUNDS[inputs - 1];
  if (partialRounds === undefined) throw new RangeError(`Poseidon takes 1 to ${MAX_INPUTS} inputs, not ${inputs}`);
  const width = inputs + 1;
  const number = grain(width, partialRounds);
  const constants: bigint[] = [];
  while (constants.length < (FULL_ROUNDS + partialRounds) * width) {
    const value = number();
    if (value < PRIME) constants.push(value);
  }
  return { width, partialRounds, constants, matrix: cauchyMatrix(width, number) };
}

/** 1 / (x_i + y_j) for distinct x and y; all its minors are invertible. */
function cauchyMatrix(width: number, number: () => bigint): Matrix {
  for (;;) {
    const values = Array.from({ length: 2 * width }, () => modulo(number()));
    if (new Set(values).size !== values.length) continue;
    const [xs, ys] = [values.slice(0, width), values.slice(width)];
    return xs.map((x) => ys.map((y) => inverse(x + y)));
  }
}

const REGISTER_BITS = 80;
const BYTES_OF_FIELD = Math.ceil(FIELD_BITS / 8);

/**
 * Numbers of as many bits as the field has, from an 80-bit shift register that is seeded with the instance; of each pair of its bits the first
 * decides whether the second is used.
 */
function grain(width: number, partialRounds: number): () => bigint {
  const seed = [
    [1, 2],
    [0, 4],
    [FIELD_BITS, 12],
    [width, 12],
    [FULL_ROUNDS, 10],
    [partialRounds, 10],
  ]
    .map(([value, length]) => (value as number).toString(2).padStart(length as number, '0'))
    .join('')
    .padEnd(REGISTER_BITS, '1');
  // The register moves along these bits: a start of the daemon waits for them, and no code is optimized by then.
  const bits = new Uint8Array(64 * REGISTER_BITS);
  bits.set(Uint8Array.from(seed, Number));
  let filled = REGISTER_BITS;
  let next = 3 * REGISTER_BITS;
  function fill(): void {
    if (filled === bits.length) {
      bits.copyWithin(0, filled - REGISTER_BITS);
      next -= filled - REGISTER_BITS;
      filled = REGISTER_BITS;
    }
    for (let from = filled - REGISTER_BITS; filled < bits.length; filled += 1, from += 1)
      bits[filled] =
        bits[from + 62]! ^ bits[from + 51]! ^ bits[from + 38]! ^ bits[from + 23]! ^ bits[from + 13]! ^ bits[from]!;
  }
  const number = Buffer.alloc(BYTES_OF_FIELD);
  return () => {
    number.fill(0);
    for (let bit = 8 * BYTES_OF_FIELD - FIELD_BITS; bit < 8 * BYTES_OF_FIELD; next += 2) {
      if (next + 2 > filled) fill();
      if (bits[next] === 0) continue;
      number[bit >> 3]! |= bits[next + 1]! << (7 - (bit & 7));
      bit += 1;
    }
    return BigInt(`0x${number.toString('hex')}`);
  };
}

/**
 * The partial rounds as a linear recurrence. Let n = width - 1, y_k the input of the S-box of partial round k with its constant, u_k =
 * y_k^5, and X the other elements before the first partial round, without constants. The matrix is [[m, w], [v, A]]. X is used only
 * through its products with w A^k, and those satisfy a recurrence of order n: so a round costs one sum of 2n + 1 products instead of
 * n + 1 sums.
 */
export interface Recurrence {
  /** Constant of y_0. */
  readonly first: bigint;
  /** y_1 .. y_n: coefficients of X_0 .. X_(n-1), u_0 .. u_(k-1), and the constant. */
  readonly start: readonly RecurrenceRow[];
  /** y_k, k > n: coefficients of u_(k-n-1), y_(k-n), u_(k-n), .., y_(k-1), u_(k-1). */
  readonly step: readonly bigint[];
  /** Constants of y_(n+1) .. y_(rounds). */
  readonly stepConstants: readonly bigint[];
  /** The other elements after the last partial round: coefficients of u_(r-n), y_(r-n+1), u_(r-n+1), .., u_(r-1), y_r; r = rounds. */
  readonly end: readonly RecurrenceRow[];
}

interface RecurrenceRow {
  readonly coefficients: readonly bigint[];
  readonly constant: bigint;
}

export function deriveRecurrence(parameters: PoseidonParameters): Recurrence {
  const { width, partialRounds: rounds, constants, matrix } = parameters;
  const n = width - 1;
  const half = FULL_ROUNDS / 2;
  const ark = (partial: number, element: number) => constants[(half + partial) * width + element] as bigint;
  const m = matrix[0]?.[0] as bigint;
  const w = (matrix[0] as readonly bigint[]).slice(1);
  const v = matrix.slice(1).map((row) => row[0] as bigint);
  const a = matrix.slice(1).map((row) => row.slice(1));
  const seen = powersSeen(w, a, n + 1);
  const h = seen.map((row) => dot(row, v));
  const observe = seen.slice(0, n);
  const unobserve = invertMatrix(observe);
  const p = applyRow(seen[n] as bigint[], unobserve);
  const { e, d } = constantsSeen(w, a, ark, rounds);
  const g = gains(p, h, m);

  const start = Array.from({ length: n }, (_, i): RecurrenceRow => {
    const k = i + 1;
    const older = Array.from({ length: k - 1 }, (_, j) => h[k - 2 - j] as bigint);
    return { coefficients: [...(seen[i] as bigint[]), ...older, m], constant: e[k] as bigint };
  });
  const step = [...p.flatMap((value, i) => [g[i] as bigint, value]), m];
  const stepConstants = Array.from({ length: rounds - n }, (_, i) => {
    const k = n + 1 + i;
    return modulo((e[k] as bigint) - p.reduce((sum, value, j) => sum + value * (e[k - n + j] as bigint), 0n));
  });
  const end = recover({ n, rounds, m, v, a, h, e, unobserve }).map(({ coefficients, constant }, i) => ({
    coefficients,
    constant: modulo(constant + (d[i] as bigint) + ark(rounds, i + 1)),
  }));
  return { first: e[0] as bigint, start, step, stepConstants, end };
}

/** w, wA, wA^2, ... */
function powersSeen(w: readonly bigint[], a: Matrix, count: number): bigint[][] {
  const rows = [[...w]];
  while (rows.length < count) rows.push(applyRow(rows.at(-1) as bigint[], a));
  return rows;
}

/** Contributions of the round constants: e_k to the input of each S-box, d to the other elements after the last round. */
function constantsSeen(w: readonly bigint[], a: Matrix, ark: (r: number, i: number) => bigint, rounds: number) {
  const e = [ark(0, 0)];
  let d = w.map(() => 0n);
  for (let r = 0; r < rounds; r += 1) {
    const sum = d.map((value, i) => modulo(value + ark(r, i + 1)));
    e.push(modulo(dot(w, sum) + ark(r + 1, 0)));
    d = apply(a, sum);
  }
  return { e, d };
}

/** Coefficients of u_(k-n-1) .. u_(k-2). */
function gains(p: readonly bigint[], h: readonly bigint[], m: bigint): bigint[] {
  const n = p.length;
  return p.map((own, j) => {
    const later = p.slice(j + 1).reduce((sum, value, i) => sum + value * (h[i] as bigint), 0n);
    return modulo((h[n - 1 - j] as bigint) - later - own * m);
  });
}

interface Recovery {
  readonly n: number;
  readonly rounds: number;
  readonly m: bigint;
  readonly v: readonly bigint[];
  readonly a: Matrix;
  readonly h: readonly bigint[];
  readonly e: readonly bigint[];
  readonly unobserve: Matrix;
}

/** The other elements from the last n inputs of S-boxes, n rounds back and forward again. */
function recover({ n, rounds, m, v, a, h, e, unobserve }: Recovery): RecurrenceRow[] {
  const powers: Matrix[] = [v.map((_, i) => v.map((_, j) => (i === j ? 1n : 0n)))];
  while (powers.length <= n) powers.push(multiply(powers.at(-1) as Matrix, a));
  const g = multiply(powers[n] as Matrix, unobserve);
  const from = rounds - n;
  return g.map((row, i) => {
    const pairs = row.flatMap((value, j) => {
      const moved = apply(powers[n - 1 - j] as Matrix, v)[i] as bigint;
      const seenLater = row.slice(j + 1).reduce((sum, later, k) => sum + later * (h[k] as bigint), 0n);
      return [modulo(moved - value * m - seenLater), value];
    });
    const constant = row.reduce((sum, value, k) => sum - value * (e[from + k + 1] as bigint), 0n);
    return { coefficients: pairs, constant: modulo(constant) };
  });
}
