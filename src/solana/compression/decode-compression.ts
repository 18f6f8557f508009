import type { KeyTable, NormalTransaction } from '../../ports/block.ts';
import { LayoutError } from '../byte-reader.ts';
import type { CompressionEvent, DecodeFault } from './events.ts';
import { type InstructionGroup, instructionGroups, keysOf, type Step } from './instruction-group.ts';
import type { ProgramIds } from './programs.ts';
import { readTreeEvent, treeOfEvent } from './tree-event.ts';
import { readV1Event } from './v1-event.ts';
import { readV2Event, treesOfInsert } from './v2-event.ts';
import { findPatterns, type StepClass } from './v2-pattern.ts';

export interface Decoded {
  /** In order of execution. */
  readonly events: readonly CompressionEvent[];
  readonly faults: readonly DecodeFault[];
}

const LEAST_DATA = 12;
const INSERT_INTO_QUEUES = '180,143,159,153,35,46,248,163';
const CREATE_CPI_CONTEXT = '233,112,71,66,121,33,178,188';
const TRANSFER2 = 101;
const NOTHING: Decoded = { events: [], faults: [] };

/**
 * The events of a transaction for compressed accounts. Programs are believed, not requests: only what they emit counts. Never throws:
 * what should be an event and cannot be read is a fault, and the rest is read all the same.
 */
export function decodeCompression(transaction: NormalTransaction, table: KeyTable, ids: ProgramIds): Decoded {
  if (ids.compression < 0 || transaction.error !== null || !transaction.keys.includes(ids.compression)) return NOTHING;
  const events: CompressionEvent[] = [];
  const faults: DecodeFault[] = [];
  for (const group of instructionGroups(transaction)) {
    const queued = readQueued(group, table, ids);
    const found = queued.events.length + queued.faults.length > 0 ? queued : readNoops(group, table, ids);
    events.push(...found.events);
    faults.push(...found.faults);
  }
  return { events, faults };
}

/** V2: what is inserted into queues. */
function readQueued(group: InstructionGroup, table: KeyTable, ids: ProgramIds): Decoded {
  const patterns = findPatterns(group.map((step) => classify(step, ids)));
  const part = (at: number) => {
    const { data, accounts } = group[at] as Step;
    return { data, keys: keysOf(accounts, table) };
  };
  return collect(
    patterns,
    ({ insert, system }) => readV2Event({ insert: part(insert), system: part(system) }),
    ({ insert }) => treesOfInsert(part(insert).data) ?? part(insert).keys,
  );
}

/** V1: what a noop repeats, one or two calls of Solana's system program after the compression program; or right after it, a tree event. */
function readNoops(group: InstructionGroup, table: KeyTable, ids: ProgramIds): Decoded {
  const found = group.flatMap((step, at) => {
    if (step.program !== ids.compression) return [];
    let next = at + 1;
    while (next <= at + 2 && group[next]?.program === ids.solanaSystem) next += 1;
    const noop = group[next];
    if (noop === undefined || noop.program !== ids.noop) return [];
    return [{ step, noop, isTree: next === at + 1 }];
  });
  return collect(
    found,
    ({ noop, isTree }) => (isTree ? readTreeEvent(noop.data) : readV1Event(noop.data)),
    ({ step, noop, isTree }) => {
      const named = isTree ? treeOfEvent(noop.data) : null;
      return named === null ? keysOf(step.accounts, table) : [named];
    },
  );
}

function collect<T>(
  places: readonly T[],
  read: (place: T) => CompressionEvent,
  treesOf: (place: T) => readonly Uint8Array[],
): Decoded {
  const events: CompressionEvent[] = [];
  const faults: DecodeFault[] = [];
  for (const place of places) {
    try {
      events.push(read(place));
    } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      faults.push({ reason: error.message, trees: treesOf(place) });
    }
  }
  return { events, faults };
}

function classify({ program, accounts, data }: Step, ids: ProgramIds): StepClass {
  if (program < 0 || data.length < LEAST_DATA) return 'other';
  if (program === ids.solanaSystem) return 'solana';
  if (program === ids.registry) return 'registry';
  if (program === ids.token) return data[0] === TRANSFER2 ? 'transfer2' : 'other';
  const discriminator = data.subarray(0, 8).join();
  if (program === ids.lightSystem) return discriminator === CREATE_CPI_CONTEXT ? 'other' : 'light';
  const isInsert =
    program === ids.compression &&
    discriminator === INSERT_INTO_QUEUES &&
    accounts.length > 2 &&
    ids.registeredProgram >= 0 &&
    accounts[1] === ids.registeredProgram;
  return isInsert ? 'insert' : 'other';
}
