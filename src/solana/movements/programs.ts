import { decode32 } from '../../lib/base58.ts';
import { lazy } from '../../lib/lazy.ts';
import type { KeyTable } from '../../ports/block.ts';

const ADDRESSES = {
  system: '11111111111111111111111111111111',
  token: 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  token2022: 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
  wrapped: 'So11111111111111111111111111111111111111112',
  wrapped2022: '9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9',
} as const;

/** Ids of the programs that move value, and of the mints of wrapped SOL, in one block; -1 for those that do not occur. */
export type MovementPrograms = Readonly<Record<keyof typeof ADDRESSES, number>>;

const known = lazy(() => Object.entries(ADDRESSES).map(([name, text]) => [name, decode32(text)!] as const));

export function findMovementPrograms(keys: KeyTable): MovementPrograms {
  const ids: Record<string, number> = {};
  for (const [name, bytes] of known()) ids[name] = keys.find(bytes);
  return ids as MovementPrograms;
}
