import { apply, applyRow, dot, invertMatrix, type Matrix, modulo, multiply } from './field.ts';
import { FULL_ROUNDS, type PoseidonParameters } from './parameters.ts';

/**
 * The partial rounds as a linear recurrence. Let n = width - 1, y_k the input of the S-box of partial round k with its constant, u_k =
 * y_k^5, and X the other elements before the first partial round, without constants. The matrix is [[m, w], [v, A]]. X is seen only
 * through its products with w A^k, and those satisfy a recurrence of order n: so a round costs one sum of 2n + 1 products instead of
 * n + 1 sums.
 */
export interface Recurrence {
  /** Constant of y_0. */
  readonly first: bigint;
  /** y_1 .. y_n: coefficients of X_0 .. X_(n-1), u_0 .. u_(k-1), and the constant. */
  readonly start: readonly Row[];
  /** y_k, k > n: coefficients of u_(k-n-1), y_(k-n), u_(k-n), .., y_(k-1), u_(k-1). */
  readonly step: readonly bigint[];
  /** Constants of y_(n+1) .. y_(rounds). */
  readonly stepConstants: readonly bigint[];
  /** The other elements after the last partial round: coefficients of u_(r-n), y_(r-n+1), u_(r-n+1), .., u_(r-1), y_r; r = rounds. */
  readonly end: readonly Row[];
}

export interface Row {
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

  const start = Array.from({ length: n }, (_, i): Row => {
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

/** What the round constants add: e_k to the input of each S-box, d to the other elements after the last round. */
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
function recover({ n, rounds, m, v, a, h, e, unobserve }: Recovery): Row[] {
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
