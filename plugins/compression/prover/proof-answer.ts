import { compressG1, compressG2, fieldNumber, isOnG1, isOnG2, negateG1 } from './curve-points.ts';

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
