import { isPlainObject, parseExact } from '../../src/lib/json.ts';
import { CodedError, messageOf, OWN_WORK } from '../../src/plugin/plugin.ts';
import type { ChainBlock } from '../../src/ports/block.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { SinkRow } from '../../src/ports/sink.ts';
import { isWritableAt } from '../../src/solana/idl/parse-transaction.ts';
import { validTime } from './rows/read-rows.ts';
import type { BlockSource } from './source.ts';

/** States of the accounts that final blocks may have written. */
export interface AccountReading {
  /** Slots from `from` on, at most up to `final`: `to` is the last one that was read. Errors: those of the source and of upstreams. */
  read(
    from: number,
    final: number,
    signal: AbortSignal,
  ): Promise<{ readonly to: number; readonly rows: readonly { readonly slot: number; readonly row: SinkRow }[] }>;
}

interface ReadingParts {
  readonly accounts: ReadonlySet<string>;
  readonly source: BlockSource;
  readonly chain: () => ChainReader | null;
}

/** Slots whose accounts are read at once: a sink that is behind gets the same state for all of them. */
const SLOTS_AT_ONCE = 32;
/** An answer has at most 8.4 MB of data. */
const ACCOUNTS_PER_CALL = 64;
const MAX_DATA_BYTES = 131_072;
const TIMEOUT_MS = 30_000;

interface Write {
  readonly slot: number;
  readonly time: number | null;
  readonly signature: string;
  readonly account: string;
}

/** A state as a node says it; null: there is no account. */
interface NodeAccount {
  readonly lamports: bigint;
  readonly owner: string;
  readonly executable: boolean;
  readonly space: number | null;
  readonly data: Uint8Array;
}

interface State {
  readonly slot: number;
  readonly account: NodeAccount | null;
}

export function createAccountReading({ accounts, source, chain }: ReadingParts): AccountReading {
  return {
    async read(from, final, signal) {
      const to = Math.min(final, from + SLOTS_AT_ONCE - 1);
      const writes: Write[] = [];
      for (let slot = from; slot <= to; ) {
        const block = await source.next(slot, to, signal);
        if (block === null) break;
        writes.push(...writesOf(block, accounts));
        slot = block.slot + 1;
      }
      if (writes.length === 0) return { to, rows: [] };
      const reader = chain();
      if (reader === null) throw unread('no upstream is configured');
      const states = await readStates(reader, { writes, signal });
      return { to, rows: writes.map((write) => ({ slot: write.slot, row: rowOf(write, states.get(write.account)!) })) };
    },
  };
}

const unread = (reason: string, cause?: unknown): CodedError =>
  new CodedError('SINKS_ACCOUNTS', `accounts cannot be read: ${reason}`, { cause, retryable: true });

/** A failed transaction writes the account that pays, or a nonce, so it counts too. */
function writesOf(block: ChainBlock, accounts: ReadonlySet<string>): readonly Write[] {
  const { slot, keys, transactions } = block;
  const last = new Map<string, string>();
  for (const tx of transactions)
    for (const [at, id] of tx.keys.entries()) {
      const account = keys.base58(id);
      if (!accounts.has(account) || !isWritableAt(tx, at)) continue;
      last.delete(account);
      last.set(account, tx.signature);
    }
  const time = validTime(block.blockTime);
  return Array.from(last, ([account, signature]) => ({ slot, time, signature, account }));
}

/** Final states, each at or above the newest of the blocks. */
async function readStates(
  chain: ChainReader,
  { writes, signal }: { readonly writes: readonly Write[]; readonly signal: AbortSignal },
): Promise<ReadonlyMap<string, State>> {
  const keys = [...new Set(writes.map(({ account }) => account))];
  const atLeast = writes.at(-1)!.slot;
  const states = new Map<string, State>();
  for (let at = 0; at < keys.length; at += ACCOUNTS_PER_CALL) {
    const some = keys.slice(at, at + ACCOUNTS_PER_CALL);
    const config = {
      encoding: 'base64',
      commitment: 'finalized',
      minContextSlot: atLeast,
      dataSlice: { offset: 0, length: MAX_DATA_BYTES },
    };
    const options = { signal, timeoutMs: TIMEOUT_MS, tenant: OWN_WORK };
    const text = await chain.callText('getMultipleAccounts', [some, config], options).catch((error: unknown) => {
      signal.throwIfAborted();
      throw unread(messageOf(error), error);
    });
    const answer = parsed(text, some.length);
    if (answer.slot < atLeast) throw unread(`an upstream answered as of slot ${answer.slot}, below ${atLeast}`);
    some.forEach((account, index) => {
      states.set(account, { slot: answer.slot, account: answer.accounts[index]! });
    });
  }
  return states;
}

/** Numbers as the node wrote them. Errors: SINKS_ACCOUNTS. */
function parsed(
  text: string,
  count: number,
): { readonly slot: number; readonly accounts: readonly (NodeAccount | null)[] } {
  const answer = parseExact(text);
  const context = isPlainObject(answer) ? answer['context'] : null;
  const slot = isPlainObject(context) ? context['slot'] : null;
  const value = isPlainObject(answer) ? answer['value'] : null;
  if (typeof slot !== 'number' || !Array.isArray(value) || value.length !== count)
    throw unread('an upstream does not answer with a list of them');
  return { slot, accounts: (value as readonly unknown[]).map(accountOf) };
}

function accountOf(value: unknown): NodeAccount | null {
  if (value === null) return null;
  const { lamports, owner, executable, space, data } = isPlainObject(value) ? value : {};
  const text = Array.isArray(data) ? (data as readonly unknown[])[0] : null;
  const isAmount = typeof lamports === 'bigint' || Number.isSafeInteger(lamports);
  if (!isAmount || typeof owner !== 'string' || typeof executable !== 'boolean' || typeof text !== 'string')
    throw unread('an upstream answers with an account in an unknown form');
  return {
    lamports: BigInt(lamports as number | bigint),
    owner,
    executable,
    space: Number.isSafeInteger(space) ? (space as number) : null,
    data: new Uint8Array(Buffer.from(text, 'base64')),
  };
}

const rowOf = ({ time, signature, account: address }: Write, { slot, account }: State): SinkRow => [
  time,
  signature,
  address,
  slot,
  account?.lamports ?? 0n,
  account?.owner ?? null,
  account?.executable ?? null,
  account?.space ?? null,
  account?.data ?? null,
];
