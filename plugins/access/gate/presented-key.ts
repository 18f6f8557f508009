import { type Credentials, GateRefusal } from '../../../src/kernel/plugin.ts';

/**
 * The key that decides: the first place that holds one (query, then `X-Api-Key`, then Bearer). Null when all are empty. Throws
 * `bad-key` when the query names several keys.
 */
export function presentedKey({ query, header, bearer }: Credentials): string | null {
  const first = query[0];
  if (query.length === 1 && first !== undefined && first !== '') return first;
  if (query.length > 0) {
    const given = new Set(query.filter((value) => value !== ''));
    if (given.size > 1) throw new GateRefusal('bad-key');
    const [key] = given;
    if (key !== undefined) return key;
  }
  return header || bearer || null;
}
