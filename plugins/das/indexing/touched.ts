import type { ChainBlock } from '../../../src/plugin/plugin.ts';
import type { NormalTransaction } from '../../../src/ports/block.ts';
import { knownKey } from '../../../src/solana/addresses.ts';
import { isWritableAt } from '../../../src/solana/idl/parse-transaction.ts';
import {
  BUBBLEGUM_PROGRAM,
  CORE_PROGRAM,
  METADATA_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../src/solana/programs.ts';
import type { FollowedSets } from './followed.ts';

export interface Touched {
  /** Accounts that the block may have changed. */
  readonly writable: ReadonlySet<string>;
  /** Accounts that the block created. */
  readonly created: ReadonlySet<string>;
  /** Accounts that may belong to assets which are not indexed yet. */
  readonly roots: ReadonlySet<string>;
  /** Token accounts among them: their mints and owners, before and after; empty where the node does not say. */
  readonly tokens: ReadonlyMap<string, { readonly mint: string; readonly owners: ReadonlySet<string> }>;
}

/** Programs of which new accounts are looked at for what is followed. */
function rootPrograms({ collection, creator, authority, owner, program }: FollowedSets): readonly string[] {
  const named = collection.size + authority.size > 0;
  return [
    ...(named || creator.size > 0 || program.has(METADATA_PROGRAM) ? [METADATA_PROGRAM] : []),
    ...(named || owner.size > 0 || program.has(CORE_PROGRAM) ? [CORE_PROGRAM] : []),
    ...(program.has(TOKEN_2022_PROGRAM) ? [TOKEN_2022_PROGRAM] : []),
  ];
}

const PROGRAMS = [TOKEN_PROGRAM, TOKEN_2022_PROGRAM, METADATA_PROGRAM, CORE_PROGRAM].map(knownKey);

/** An account changes only where its program is called, so other transactions are not looked at. */
export function touchedBy(block: ChainBlock, followed: FollowedSets): Touched {
  const { keys } = block;
  const programs = new Set(PROGRAMS.map((program) => keys.find(program)));
  const rootIds = new Set(rootPrograms(followed).map((program) => keys.find(knownKey(program))));
  programs.delete(-1);
  rootIds.delete(-1);
  const [writable, created] = [new Set<string>(), new Set<string>()];
  const bubblegum = keys.find(knownKey(BUBBLEGUM_PROGRAM));
  const roots = new Set<string>();
  const tokens = new Map<string, { mint: string; owners: Set<string> }>();
  for (const tx of block.transactions) {
    if (tx.isVote || tx.error !== null || !tx.keys.some((key) => programs.has(key))) continue;
    // An asset that leaves its tree is older than its account.
    const isNew = !tx.keys.includes(bubblegum);
    for (const [at, key] of tx.keys.entries()) {
      if (!isWritableAt(tx, at)) continue;
      writable.add(keys.base58(key));
      if (isNew && tx.preBalances[at] === 0 && tx.postBalances[at] !== 0) created.add(keys.base58(key));
    }
    for (const { accountIndex, mintKey, ownerKey } of [...tx.preTokenBalances, ...tx.postTokenBalances]) {
      if (!isWritableAt(tx, accountIndex)) continue;
      const address = keys.base58(tx.keys[accountIndex] as number);
      const known = tokens.get(address) ?? { mint: keys.base58(mintKey), owners: new Set<string>() };
      known.owners.add(ownerKey < 0 ? '' : keys.base58(ownerKey));
      tokens.set(address, known);
    }
    if (tx.keys.some((key) => rootIds.has(key)))
      for (const at of calledWith(tx, rootIds)) if (isWritableAt(tx, at)) roots.add(keys.base58(tx.keys[at] as number));
  }
  for (const address of tokens.keys()) roots.delete(address);
  return { writable, created, roots, tokens };
}

/** Places of the accounts that calls of these programs name; all, where the calls are not known. */
function calledWith(tx: NormalTransaction, programs: ReadonlySet<number>): Iterable<number> {
  const calls = [...tx.instructions, ...tx.innerInstructions.flatMap(({ instructions }) => instructions)].filter(
    ({ programIndex }) => programs.has(tx.keys[programIndex] as number),
  );
  return calls.length === 0 ? tx.keys.keys() : new Set(calls.flatMap(({ accounts }) => [...accounts]));
}
