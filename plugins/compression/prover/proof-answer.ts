/** A Groth16 proof in the form that the programs on chain take. */
export interface CompressedProof {
  /** 32 bytes. */
  readonly a: readonly number[];
  /** 64 bytes. */
  readonly b: readonly number[];
  /** 32 bytes. */
  readonly c: readonly number[];
}

/**
 * Reads what a prover answers: `{ar: [x, y], bs: [[x1, x0], [y1, y0]], krs: [x, y]}`, hexadecimal. Null when that is anything else, or
 * a point is not on its curve.
 */
export function readProofAnswer(text: string): CompressedProof | null {
  let answer: Partial<Record<string, unknown>>;
  try {
    answer = (JSON.parse(text) ?? {}) as Partial<Record<string, unknown>>;
  } catch {
    return null;
  }
  const ar = numberPair(answer['ar']);
  const krs = numberPair(answer['krs']);
  const [bx, by] = pair(answer['bs']) ?? [];
  const [x, y] = [numberPair(bx), numberPair(by)];
  if (ar === null || krs === null || x === null || y === null) return null;
  if (!isOnG1(ar) || !isOnG1(krs) || !isOnG2([x, y])) return null;
  // The verifier on chain adds e(-A, B) to the other pairings, and gets -A so that it need not negate it.
  return { a: [...compressG1(negateG1(ar))], b: [...compressG2([x, y])], c: [...compressG1(krs)] };
}

function pair(value: unknown): readonly [unknown, unknown] | null {
  return Array.isArray(value) && value.length === 2 ? [value[0], value[1]] : null;
}

function numberPair(value: unknown): readonly [bigint, bigint] | null {
  const [first, second] = (pair(value) ?? []).map(fieldNumber);
  return first == null || second == null ? null : [first, second];
}

/**
 * Points of BN254 as the prover gives them and as Solana's programs take them: compressed, big-endian, with the sign of y in the top bit
 * of the first byte and the point at infinity in the bit below.
 */
const Q = 21888242871839275222246405745257275088696311157297823662689037894645226208583n;
const FIELD_BYTES = 32;
const LARGER_Y = 0x80;
const INFINITY = 0x40;
const HEX_NUMBER = /^0x[0-9a-fA-F]{1,64}$/;

/** x and y in the base field. */
type PointG1 = readonly [x: bigint, y: bigint];
/** x and y with two coordinates each, that of the imaginary unit first. */
type PointG2 = readonly [x: readonly [bigint, bigint], y: readonly [bigint, bigint]];

/** A hexadecimal number below the prime, or null. Leading zeros may be missing. */
function fieldNumber(text: unknown): bigint | null {
  if (typeof text !== 'string' || !HEX_NUMBER.test(text)) return null;
  const value = BigInt(text);
  return value < Q ? value : null;
}

const minus = (value: bigint): bigint => (value === 0n ? 0n : Q - value);
const modulo = (value: bigint): bigint => ((value % Q) + Q) % Q;

/** Whether the point fulfils y^2 = x^3 + 3; (0, 0) stands for infinity. */
function isOnG1([x, y]: PointG1): boolean {
  return (x === 0n && y === 0n) || modulo(y * y - x * x * x - 3n) === 0n;
}

/** Whether the point fulfils y^2 = x^3 + 3 / (9 + u); zeros stand for infinity. */
function isOnG2([x, y]: PointG2): boolean {
  if (isZero(x) && isZero(y)) return true;
  const cube = times(times(x, x), x);
  const square = times(y, y);
  const [d1, d0] = [square[0] - cube[0], square[1] - cube[1]];
  return modulo(9n * d0 - d1 - 3n) === 0n && modulo(d0 + 9n * d1) === 0n;
}

const isZero = ([c1, c0]: readonly [bigint, bigint]): boolean => c1 === 0n && c0 === 0n;

function times(a: readonly [bigint, bigint], b: readonly [bigint, bigint]): [bigint, bigint] {
  return [modulo(a[0] * b[1] + a[1] * b[0]), modulo(a[1] * b[1] - a[0] * b[0])];
}

/** The point on the other side of the x axis. */
const negateG1 = ([x, y]: PointG1): PointG1 => [x, minus(y)];

/** 32 bytes. */
export function compressG1([x, y]: PointG1): Uint8Array {
  const bytes = bigEndian([x]);
  const flag = x === 0n && y === 0n ? INFINITY : y > minus(y) ? LARGER_Y : 0;
  bytes[0] = (bytes[0] as number) | flag;
  return bytes;
}

/** 64 bytes. */
export function compressG2([x, y]: PointG2): Uint8Array {
  const bytes = bigEndian(x);
  const flag = isZero(x) && isZero(y) ? INFINITY : isLarger(y) ? LARGER_Y : 0;
  bytes[0] = (bytes[0] as number) | flag;
  return bytes;
}

/** Whether y comes after -y. */
function isLarger([c1, c0]: readonly [bigint, bigint]): boolean {
  return c1 === 0n ? c0 > minus(c0) : c1 > minus(c1);
}

function bigEndian(numbers: readonly bigint[]): Uint8Array {
  const text = numbers.map((value) => value.toString(16).padStart(2 * FIELD_BYTES, '0')).join('');
  return new Uint8Array(Buffer.from(text, 'hex'));
}
