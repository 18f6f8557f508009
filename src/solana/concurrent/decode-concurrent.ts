import { equalBytes } from '../../lib/equal-bytes.ts';
import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { LayoutError } from '../byte-reader.ts';
import { type InstructionGroup, instructionGroups, type Step } from '../compression/instruction-group.ts';
import { readApplicationData, readChangeLog } from './change-log.ts';
import type { ChangeEvent, ConcurrentEvent, ConcurrentFault } from './events.ts';
import { hashLeaf, type LeafSchema, readLeafEvent } from './leaf-schema.ts';
import type { ConcurrentIds } from './programs.ts';

export interface ConcurrentDecoded {
  /** In order of execution. */
  readonly events: readonly ConcurrentEvent[];
  readonly faults: readonly ConcurrentFault[];
}

/** First bytes of the calls that change a tree; each calls the noop and does nothing else in between. Other calls tell nothing. */
const CHANGES: Readonly<Record<string, ChangeEvent['kind']>> = {
  bf0b7707b46bdc6e: 'start',
  daf8c0375bcd7a0a: 'prepared',
  '957812deece158cb': 'change',
  cca54c6449930080: 'change',
  '062a32be336db2a8': 'change',
};
const CLOSE = '320edb6b4e671067';
const NOTHING: ConcurrentDecoded = { events: [], faults: [] };

/**
 * The changes of concurrent trees in a transaction. Anyone may call the noop and claim anything: only what follows a call that always
 * tells, about the tree of that call, is believed. Never throws: what cannot be read is a fault.
 */
export function decodeConcurrent(
  transaction: NormalTransaction,
  table: KeyTable,
  ids: ConcurrentIds,
): ConcurrentDecoded {
  if (transaction.error !== null || !ids.some(({ program }) => transaction.keys.includes(program))) return NOTHING;
  const events: ConcurrentEvent[] = [];
  const faults: ConcurrentFault[] = [];
  for (const group of instructionGroups(transaction)) {
    group.forEach((step, at) => {
      const pair = ids.find(({ program }) => program === step.program);
      if (pair === undefined) return;
      const found = readCall(step, group[at + 1], pair.noop, table);
      if (found === null) return;
      if ('reason' in found) faults.push(found);
      else if (found.kind === 'close') events.push(found);
      else events.push({ ...found, asset: assetOf(found.path[0] as Uint8Array, group, at, ids) });
    });
  }
  return { events, faults };
}

function readCall(
  { accounts, data }: Step,
  next: Step | undefined,
  noop: number,
  table: KeyTable,
): Omit<ChangeEvent, 'asset'> | Extract<ConcurrentEvent, { kind: 'close' }> | ConcurrentFault | null {
  const name = Buffer.from(data.buffer, data.byteOffset, Math.min(8, data.length)).toString('hex');
  const kind = CHANGES[name];
  if (kind === undefined && name !== CLOSE) return null;
  const [account = -1] = accounts;
  const tree = account < 0 ? null : table.bytes(account);
  if (tree === null) return { reason: 'the call names no tree', tree };
  if (kind === undefined) return { kind: 'close', tree };
  try {
    if (next === undefined || next.program !== noop || noop < 0) throw new LayoutError('no change follows the call');
    const change = readChangeLog(next.data);
    if (!equalBytes(change.tree, tree)) throw new LayoutError('the change is of another tree than the call');
    return { kind, ...change };
  } catch (error) {
    if (!(error instanceof LayoutError)) throw error;
    return { reason: error.message, tree };
  }
}

/** What was said before the call about this leaf: a schema that hashes to it. Who said so does not matter then. */
function assetOf(leaf: Uint8Array, group: InstructionGroup, call: number, ids: ConcurrentIds): LeafSchema | null {
  if (leaf.every((byte) => byte === 0)) return null;
  for (let at = call - 1; at >= 0; at -= 1) {
    const { program, data } = group[at] as Step;
    if (!ids.some(({ noop }) => noop === program)) continue;
    const schema = tryRead(data);
    if (schema !== null && equalBytes(hashLeaf(schema), leaf)) return schema;
  }
  return null;
}

/** Application data of other programs may look like anything. */
function tryRead(data: Uint8Array): LeafSchema | null {
  try {
    const application = readApplicationData(data);
    return application === null ? null : readLeafEvent(application);
  } catch (error) {
    if (error instanceof LayoutError) return null;
    throw error;
  }
}
