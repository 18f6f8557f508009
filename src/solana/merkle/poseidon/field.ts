/** Arithmetic modulo the order of the BN254 scalar field, in plain BigInt: for constants and for the oracle, not for speed. */

export const PRIME = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;

/** The element in [0, PRIME). */
export function modulo(value: bigint): bigint {
  const rest = value % PRIME;
  return rest < 0n ? rest + PRIME : rest;
}

/** The multiplicative inverse, by the extended Euclidean algorithm. Throws RangeError for zero. */
export function inverse(value: bigint): bigint {
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

export type Vector = readonly bigint[];
export type Matrix = readonly Vector[];

export function dot(left: Vector, right: Vector): bigint {
  return modulo(left.reduce((sum, value, i) => sum + value * (right[i] as bigint), 0n));
}

/** Matrix times column. */
export function apply(matrix: Matrix, column: Vector): bigint[] {
  return matrix.map((row) => dot(row, column));
}

/** Row times matrix. */
export function applyRow(row: Vector, matrix: Matrix): bigint[] {
  return row.map((_, column) =>
    dot(
      row,
      matrix.map((line) => line[column] as bigint),
    ),
  );
}

export function multiply(left: Matrix, right: Matrix): bigint[][] {
  return left.map((row) => applyRow(row, right));
}

/** By Gauss and Jordan. Throws RangeError for a singular matrix. */
export function invertMatrix(matrix: Matrix): bigint[][] {
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
