import { setImmediate as letOthersGo } from 'node:timers/promises';
import { encode32 } from '../../../../src/lib/base58.ts';

/** Elements that are worked on before others get their turn: some milliseconds, whatever is done with them. */
const PIECE = 1_024;

/** Works on a long list piece by piece; others get their turn between. Errors: those of `work`. */
export async function inTurns<T, R>(
  list: readonly T[],
  work: (piece: readonly T[], from: number) => readonly R[] | Promise<readonly R[]>,
): Promise<R[]> {
  const all: R[] = [];
  for (let from = 0; from < list.length; from += PIECE) {
    if (from > 0) await letOthersGo();
    for (const one of await work(list.slice(from, from + PIECE), from)) all.push(one);
  }
  return all;
}

/** Reads up to `limit` rows in order, piece by piece: `read` gives the next ones from an index on. Errors: those of `read`. */
export async function readInTurns<T>(
  limit: number,
  from: number,
  read: (from: number, count: number) => Promise<readonly T[]>,
  indexOf: (row: T) => number,
): Promise<T[]> {
  const all: T[] = [];
  for (let next = from; all.length < limit; ) {
    const count = Math.min(PIECE, limit - all.length);
    const rows = await read(next, count);
    for (const row of rows) all.push(row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < count) return all;
    next = indexOf(last) + 1;
    await letOthersGo();
  }
  return all;
}

/** JSON of a list of keys or hashes. */
export async function hashesText<T>(list: readonly T[], pick: (element: T) => Uint8Array): Promise<string> {
  const texts = await inTurns(list, (piece) => piece.map((element) => encode32(pick(element))));
  return texts.length === 0 ? '[]' : `["${texts.join('","')}"]`;
}

/** JSON of an object whose members are JSON already. */
export const objectText = (members: Readonly<Record<string, string | number>>): string =>
  `{${Object.entries(members)
    .map(([name, value]) => `"${name}":${value}`)
    .join(',')}}`;
