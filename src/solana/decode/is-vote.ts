import { decode32 } from '../../lib/base58.ts';
import { lazy } from '../../lib/lru.ts';
import type { BlockParts } from './transaction.ts';
import type { WireLayout } from './wire-layout.ts';

const VOTE_PROGRAM = lazy(() => new Uint32Array(decode32('Vote111111111111111111111111111111111111111')!.buffer));

/** Whether a transaction has exactly one instruction, of the Vote program. The ids of its keys begin at `keys[keysAt]`. */
export function isVote(block: BlockParts, layout: WireLayout, keys: Uint32Array, keysAt: number): boolean {
  if (layout.instructionCount !== 1) return false;
  const vote = VOTE_PROGRAM();
  const { words } = block.keys;
  const program = keys[keysAt + block.bytes[layout.instructionsAt]!]! * vote.length;
  for (let word = 0; word < vote.length; word++) if (words[program + word] !== vote[word]) return false;
  return true;
}
