/**
 * Filters of subscriptions, compared with blocks. Addresses are looked up once per distinct key of a block; only transactions
 * with an instruction that could be wanted are decoded, and each is written once for all who want the same.
 */
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { decode32 } from '../../src/lib/base58.ts';
import { isPlainObject, stringify } from '../../src/lib/json.ts';
import type { Random } from '../../src/plugin/plugin.ts';
import { OWN_WORK } from '../../src/ports/access.ts';
import type { ChainBlock, NormalInstruction, NormalTransaction } from '../../src/ports/block.ts';
import type {
  ParsedBoard,
  ParsedDetails,
  ParsedFilter,
  ParsedMatch,
  ParsedTransactions,
  ParsedWanted,
  ReadFilter,
} from '../../src/ports/parsed-transactions.ts';
import { type AddressIndex, createAddressIndex } from '../../src/solana/address-set.ts';
import {
  type FindInterface,
  type ParsedInstruction,
  type ParsedTransaction,
  type ParseParts,
  parseTransaction,
} from '../../src/solana/idl/parse-transaction.ts';
import { type BlockTime, blockTime, CostlyInterface } from './costs.ts';
import type { Interfaces, OwnOf } from './interfaces/index.ts';

export interface BoardParts {
  readonly interfaces: Pick<Interfaces, 'learn' | 'follow'>;
  readonly ownOf: OwnOf;
  readonly words: ParseParts['words'];
  readonly random: Random;
}

/** How long blocks are compared and decoded without a pause. */
const TURN_MS = 5;
const SEED_BYTES = 16;

export function createParsedTransactions(parts: BoardParts): ParsedTransactions {
  /** What was decoded of the blocks of late, for all boards. */
  const known = new WeakMap<ChainBlock, BlockWords>();
  return {
    readFilter,
    openBoard: () =>
      createBoard(parts, (block) => {
        const words = known.get(block) ?? createBlockWords(block, parts);
        known.set(block, words);
        return words;
      }),
  };
}

interface BoardEntry<Owner> {
  readonly owner: Owner;
  readonly number: number;
  readonly project: string | null;
  readonly filter: CompiledFilter;
  readonly index: AddressIndex;
  readonly keys: readonly Uint8Array[];
}

function createBoard<Owner>(
  { interfaces, random }: BoardParts,
  wordsOf: (block: ChainBlock) => BlockWords,
): ParsedBoard<Owner> {
  const newIndex = () =>
    createAddressIndex({ seed: new Uint32Array(Uint8Array.from(random.bytes(SEED_BYTES)).buffer) });
  const indexes = { program: newIndex(), account: newIndex() };
  const byOwner = new Map<Owner, BoardEntry<Owner>>();
  const entries: (BoardEntry<Owner> | undefined)[] = [];
  const free: number[] = [];

  function remove(owner: Owner): void {
    const entry = byOwner.get(owner);
    if (entry === undefined) return;
    byOwner.delete(owner);
    for (const key of entry.keys) entry.index.remove(key, entry.number);
    entries[entry.number] = undefined;
    free.push(entry.number);
  }

  function set(owner: Owner, { filter, project }: ParsedWanted): void {
    remove(owner);
    const { where, addresses } = placesOf(filter);
    const number = free.pop() ?? entries.length;
    const [index, keys] = [indexes[where], addresses.map((address) => decode32(address)!)];
    const entry = { owner, number, project, filter: compileFilter(filter), index, keys };
    for (const key of keys) index.add(key, number);
    entries[number] = entry;
    byOwner.set(owner, entry);
  }

  /** Transactions with the instructions that filters may want; null for one that was looked at in vain. */
  function* candidatesOf(block: ChainBlock): Generator<readonly [NormalTransaction, Hits<Owner>] | null> {
    const looks = { program: marksOf(block, indexes.program), account: marksOf(block, indexes.account) };
    if (looks.program === null && looks.account === null) return;
    for (const tx of block.transactions) {
      if (tx.isVote || !hasMark(tx.keys, looks)) continue;
      const hits = hitsOf(block, tx, looks, { indexes, entries });
      yield hits.size > 0 ? [tx, hits] : null;
    }
  }

  return {
    set,
    remove,
    candidates(block) {
      const counts = new Map<Owner, number>();
      for (const candidate of candidatesOf(block))
        for (const { owner } of candidate?.[1].keys() ?? []) counts.set(owner, (counts.get(owner) ?? 0) + 1);
      return counts;
    },
    async match(block, how) {
      const { isLive } = how;
      const found = new Map<Owner, ParsedMatch[]>();
      if (isLive) interfaces.follow(block);
      if (byOwner.size === 0) return found;
      const turn = createTurn();
      const candidates: (readonly [NormalTransaction, Hits<Owner>])[] = [];
      for (const candidate of candidatesOf(block)) {
        if (candidate !== null) candidates.push(candidate);
        if (turn.isOver()) await turn.next();
      }
      if (candidates.length === 0) return found;
      const words = wordsOf(block);
      await words.learn(candidates.map(([tx]) => tx));
      const decoded = new Map<Owner, number>();
      const failed = new Set<Owner>();
      for (const [tx, hits] of candidates)
        for (const [entry, positions] of hits) {
          // It may have left while the interfaces were read.
          if (byOwner.get(entry.owner) !== entry || failed.has(entry.owner)) continue;
          decoded.set(entry.owner, (decoded.get(entry.owner) ?? 0) + 1);
          let match: ParsedMatch | null;
          try {
            match = (await words.of(tx, entry.project)).match(entry.filter, positions);
          } catch (error) {
            if (!(error instanceof CostlyInterface) || how.costly === undefined) throw error;
            failed.add(entry.owner);
            found.delete(entry.owner);
            how.costly(entry.owner, `${error.message}: ${error.details}`);
            continue;
          }
          if (turn.isOver()) await turn.next();
          if (match === null) continue;
          const list = found.get(entry.owner);
          if (list === undefined) found.set(entry.owner, [match]);
          else list.push(match);
        }
      for (const [owner, transactions] of decoded) how.decoded?.(owner, transactions);
      return found;
    },
  };
}

function createTurn() {
  let end = performance.now() + TURN_MS;
  return {
    isOver: () => performance.now() > end,
    async next() {
      await yieldToOthers();
      end = performance.now() + TURN_MS;
    },
  };
}

/** The entry + 1 of each key of the block, 0 for one that is in no filter; null where none is. */
function marksOf({ keys }: ChainBlock, index: AddressIndex): Uint32Array | null {
  if (index.size === 0) return null;
  const marks = new Uint32Array(keys.size);
  index.findAll(keys.words, keys.size, marks);
  return marks.some((mark) => mark !== 0) ? marks : null;
}

interface Looks {
  readonly program: Uint32Array | null;
  readonly account: Uint32Array | null;
}

function hasMark(ids: Uint32Array, { program, account }: Looks): boolean {
  for (let at = 0; at < ids.length; at++) {
    const id = ids[at]!;
    if ((program !== null && program[id] !== 0) || (account !== null && account[id] !== 0)) return true;
  }
  return false;
}

/** Filters with the instructions that they may want, by their positions in the order of execution. */
type Hits<Owner> = Map<BoardEntry<Owner>, number[]>;

interface Filters<Owner> {
  readonly indexes: { readonly program: AddressIndex; readonly account: AddressIndex };
  readonly entries: readonly (BoardEntry<Owner> | undefined)[];
}

function hitsOf<Owner>(
  { keys }: ChainBlock,
  tx: NormalTransaction,
  looks: Looks,
  { indexes, entries }: Filters<Owner>,
): Hits<Owner> {
  const hits: Hits<Owner> = new Map();
  const hasFailed = tx.error !== null;
  const addressAt = (at: number) => {
    const id = tx.keys[at];
    return id === undefined ? '' : keys.base58(id);
  };

  function consider(entry: BoardEntry<Owner>, item: NormalInstruction, position: number, isInner: boolean): void {
    const { includeFailed, includeCpi, programs, include } = entry.filter;
    if ((hasFailed && !includeFailed) || (isInner && !includeCpi)) return;
    const positions = hits.get(entry);
    // Found before, by another of its accounts.
    if (positions?.at(-1) === position) return;
    if (programs !== null && !programs.has(addressAt(item.programIndex))) return;
    if (include !== null && !item.accounts.some((at) => include.has(addressAt(at)))) return;
    if (positions === undefined) hits.set(entry, [position]);
    else positions.push(position);
  }

  function lookUp(where: keyof Looks, at: number, item: NormalInstruction, position: number, isInner: boolean): void {
    const marks = looks[where];
    const id = tx.keys[at];
    if (marks === null || id === undefined || marks[id] === 0) return;
    const [index, mark] = [indexes[where], marks[id]! - 1];
    const count = index.ownerCount(mark);
    for (let one = 0; one < count; one++) {
      const entry = entries[index.ownerAt(mark, one)];
      if (entry !== undefined) consider(entry, item, position, isInner);
    }
  }

  let position = 0;
  const look = (item: NormalInstruction, isInner: boolean) => {
    lookUp('program', item.programIndex, item, position, isInner);
    if (looks.account !== null) for (const at of item.accounts) lookUp('account', at, item, position, isInner);
    position += 1;
  };
  // In the order of `parseTransaction`.
  tx.instructions.forEach((item, at) => {
    look(item, false);
    for (const group of tx.innerInstructions) {
      if (group.index !== at) continue;
      for (const inner of group.instructions) look(inner, true);
    }
  });
  return hits;
}

// ------------------------------------------------------------------------------------------------------- what is sent

interface BlockWords {
  /** Reads the interfaces that these transactions need. Errors: they cannot be read now. */
  learn(transactions: readonly NormalTransaction[]): Promise<void>;
  /** A transaction as a project sees it; it was learned. */
  of(tx: NormalTransaction, project: string | null): Promise<TransactionWords>;
}

interface TransactionWords {
  /** Null when none of the instructions at these positions is wanted. */
  match(filter: CompiledFilter, positions: readonly number[]): ParsedMatch | null;
}

/** Decoding for the board has no caller that could abort it, and no project is charged for it. */
const NEVER = new AbortController().signal;

function createBlockWords(block: ChainBlock, { interfaces, ownOf, words }: BoardParts): BlockWords {
  const { slot, keys } = block;
  /** Programs of which `find` knows. */
  let learned: ReadonlySet<string> = new Set();
  const finds = new Map<string | null, FindInterface>();
  let find: Awaited<ReturnType<Interfaces['learn']>> | null = null;
  const made = new Map<string | null, Map<number, TransactionWords>>();
  /** What each project has left for this block, over all of its subscriptions. */
  const times = new Map<string, BlockTime>();

  function timeOf(project: string): BlockTime {
    const time = times.get(project) ?? blockTime();
    times.set(project, time);
    return time;
  }

  async function findFor(project: string | null): Promise<FindInterface> {
    const existing = finds.get(project);
    if (existing !== undefined) return existing;
    const own = project === null ? null : await ownOf(project, { mayBeOld: true });
    const one = own === null ? find!.find : find!.with(own, timeOf(project!)).find;
    finds.set(project, one);
    return one;
  }

  return {
    async learn(transactions) {
      const programs = new Set(transactions.flatMap((tx) => programsOf(tx).map((id) => keys.base58(id))));
      const isMissing = (): boolean => find === null || [...programs].some((program) => !learned.has(program));
      while (isMissing()) {
        const wanted = new Set([...learned, ...programs]);
        const one = await interfaces.learn(new Map(Array.from(wanted, (program) => [program, slot])), {
          signal: NEVER,
          tenant: OWN_WORK,
        });
        // Another board may have learned others in the meantime.
        if (![...learned].every((program) => wanted.has(program))) continue;
        learned = wanted;
        find = one;
        finds.clear();
      }
    },
    async of(tx, project) {
      const found = await findFor(project);
      // A project without interfaces of its own sees what all see.
      const who = found === find!.find ? null : project;
      const byIndex = made.get(who) ?? new Map<number, TransactionWords>();
      made.set(who, byIndex);
      let one = byIndex.get(tx.index);
      if (one === undefined) {
        const parsed = parseTransaction(tx, { slot, blockTime: block.blockTime, keys }, { find: found, words });
        one = createTransactionWords(
          tx,
          parsed,
          who,
          Array.from(tx.keys, (id) => keys.base58(id)),
        );
        byIndex.set(tx.index, one);
      }
      return one;
    },
  };
}

/** Ids of the programs that a transaction calls. */
function programsOf(tx: NormalTransaction): readonly number[] {
  const positions = new Set(tx.instructions.map(({ programIndex }) => programIndex));
  for (const { instructions } of tx.innerInstructions)
    for (const { programIndex } of instructions) positions.add(programIndex);
  return Array.from(positions, (at) => tx.keys[at]).filter((id) => id !== undefined);
}

function createTransactionWords(
  { signature, index }: NormalTransaction,
  parsed: ParsedTransaction,
  project: string | null,
  accountKeys: readonly string[],
): TransactionWords {
  const { instructions } = parsed;
  const texts = new Map<string, string>();
  const once = (key: string, make: () => string): string => {
    let text = texts.get(key);
    if (text === undefined) {
      text = make();
      texts.set(key, text);
    }
    return text;
  };
  const facts = { signature, slot: parsed.slot, blockTime: null, feePayer: parsed.feePayer, fee: parsed.fee };
  const outcome = {
    status: parsed.transactionStatus === 'OK' ? 'ok' : 'error',
    error: parsed.error ?? null,
    summary: parsed.summary,
  };
  const { nativeTransfers, tokenTransfers } = parsed;
  const whole = () =>
    once('transaction', () => stringify({ ...facts, accountKeys, ...outcome, nativeTransfers, tokenTransfers }));
  const bare = () => once('bare', () => stringify({ ...facts, ...outcome }));
  const shown = (at: number) => once(`instruction ${at}`, () => stringify(shownOf(instructions[at]!)));
  const raw = (at: number) => once(`raw ${at}`, () => stringify(rawOf(instructions[at]!)));
  const all = () => once('instructions', () => instructions.map((_, at) => shown(at)).join());

  function eventText(details: ParsedDetails, hits: readonly number[]): string {
    switch (details) {
      case 'full':
        return `{"transaction":${whole()},"instructions":[${all()}],"matchedIndexes":[${hits.join()}]}`;
      case 'matched':
        return `{"transaction":${whole()},"instructions":[${hits.map(shown).join()}]}`;
      case 'raw':
        return `{"transaction":${bare()},"instructions":[${hits.map(raw).join()}]}`;
    }
  }

  return {
    match({ takes }, positions) {
      const hits = positions.filter((at) => takes(instructions[at]!));
      if (hits.length === 0) return null;
      const key = (details: ParsedDetails) => `${details} ${hits.join()} ${project ?? ''}`;
      return { index, signature, key, text: (details) => once(key(details), () => eventText(details, hits)) };
    },
  };
}

const shownOf = ({ rawAccounts, rawData, decoded, ...rest }: ParsedInstruction) => ({
  instructionIndex: rest.instructionIndex,
  innerInstructionIndex: rest.innerInstructionIndex,
  stackHeight: rest.stackHeight,
  programId: rest.programId,
  programName: rest.programName,
  instructionName: rest.instructionName,
  summary: rest.summary,
  decoded,
  // What was not decoded is there as it is.
  ...(decoded === null && { rawData, rawAccounts }),
});

const rawOf = ({
  instructionIndex,
  innerInstructionIndex,
  stackHeight,
  programId,
  rawData: data,
}: ParsedInstruction) => ({ instructionIndex, innerInstructionIndex, stackHeight, programId, data });

const FILTER_MEMBERS = ['programs', 'instructionNames', 'accounts', 'includeFailed', 'includeCpi'];
const MAX_PROGRAMS = 10;
const MAX_NAMES = 50;
const MAX_INCLUDE = 100;
const MAX_ROLES = 20;
/** Longer names are in no interface. */
const MAX_NAME = 128;

class Refusal extends Error {
  readonly isLimit: boolean;
  constructor(problem: string, isLimit = false) {
    super(problem);
    this.isLimit = isLimit;
  }
}

/** Reads the filter that a client sent. */
function readFilter(value: unknown): ReadFilter {
  try {
    return { filter: filterOf(value) };
  } catch (error) {
    if (error instanceof Refusal) return { problem: error.message, isLimit: error.isLimit };
    throw error;
  }
}

function filterOf(value: unknown): ParsedFilter {
  const given = membersOf(value, 'filter', FILTER_MEMBERS);
  const accounts =
    given['accounts'] === undefined ? {} : membersOf(given['accounts'], 'accounts', ['include', 'roles']);
  const filter = {
    programs: addressesOf(given['programs'], 'programs', MAX_PROGRAMS),
    instructionNames: listMember(given['instructionNames'], 'instructionNames', MAX_NAMES).map((name, at) => {
      if (typeof name !== 'string' || name.length > MAX_NAME || plainName(name) === '')
        throw new Refusal(`invalid name at instructionNames[${at}]`);
      return name;
    }),
    include: addressesOf(accounts['include'], 'accounts.include', MAX_INCLUDE),
    roles: rolesOf(accounts['roles']),
    includeFailed: flagOf(given['includeFailed'], 'includeFailed', false),
    includeCpi: flagOf(given['includeCpi'], 'includeCpi', true),
  };
  if (filter.programs.length + filter.include.length === 0)
    throw new Refusal('the filter must have `programs` or `accounts.include`');
  return filter;
}

/** An object of known members, none of them null: clients leave out what they do not want. */
function membersOf(value: unknown, what: string, names: readonly string[]): Readonly<Record<string, unknown>> {
  if (!isPlainObject(value)) throw new Refusal(`${what} must be an object`);
  for (const [name, member] of Object.entries(value)) {
    if (!names.includes(name)) throw new Refusal(`unknown field \`${name.slice(0, 64)}\` in ${what}`);
    if (member === null) throw new Refusal(`${name} must not be null; leave it out`);
  }
  return value;
}

function listMember(value: unknown, name: string, most: number): readonly unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new Refusal(`${name} must be an array`);
  if (value.length > most) throw new Refusal(`at most ${most} ${name}, got ${value.length}`, true);
  return value;
}

const addressesOf = (value: unknown, name: string, most: number): readonly string[] => [
  ...new Set(listMember(value, name, most).map((one, at) => addressOf(one, `${name}[${at}]`))),
];

function addressOf(value: unknown, place: string): string {
  if (typeof value !== 'string' || value.length > 44 || decode32(value) === null)
    throw new Refusal(`invalid pubkey at ${place}`);
  return value;
}

function rolesOf(value: unknown): ParsedFilter['roles'] {
  if (value === undefined) return [];
  if (!isPlainObject(value)) throw new Refusal('accounts.roles must be an object');
  const roles = Object.entries(value);
  if (roles.length > MAX_ROLES) throw new Refusal(`at most ${MAX_ROLES} accounts.roles, got ${roles.length}`, true);
  return roles.map(([name, address]) => {
    if (name === '' || name.length > MAX_NAME) throw new Refusal('invalid name in accounts.roles');
    return [name, addressOf(address, `accounts.roles.${name.slice(0, 64)}`)] as const;
  });
}

function flagOf(value: unknown, name: string, usual: boolean): boolean {
  if (value === undefined) return usual;
  if (typeof value !== 'boolean') throw new Refusal(`${name} must be true or false`);
  return value;
}

/** `sharedAccountsRoute` and `shared_accounts_route` are the same name. */
const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, '');

/** A filter in the form in which it is compared. */
interface CompiledFilter {
  /** Null: any. */
  readonly programs: ReadonlySet<string> | null;
  readonly include: ReadonlySet<string> | null;
  readonly includeFailed: boolean;
  readonly includeCpi: boolean;
  /** Whether an instruction has the wanted name and roles, also one whose arguments do not fit the interface. */
  readonly takes: (instruction: ParsedInstruction) => boolean;
}

function compileFilter({ programs, instructionNames, include, roles, ...flags }: ParsedFilter): CompiledFilter {
  const names = new Set(instructionNames.map(plainName));
  return {
    ...flags,
    programs: programs.length === 0 ? null : new Set(programs),
    include: include.length === 0 ? null : new Set(include),
    takes({ call }) {
      if (names.size > 0 && (call === null || !names.has(plainName(call.name)))) return false;
      return roles.every(
        ([role, address]) => call?.accounts.some(({ name, pubkey }) => name === role && pubkey === address) ?? false,
      );
    },
  };
}

/** Addresses by one of which the filter is found: each instruction that it wants has one of them, in this place. */
function placesOf({ programs, include, roles }: ParsedFilter): {
  readonly where: 'program' | 'account';
  readonly addresses: readonly string[];
} {
  // Roles and accounts are rarer in blocks than programs.
  const [role] = roles;
  if (role !== undefined) return { where: 'account', addresses: [role[1]] };
  if (include.length > 0) return { where: 'account', addresses: include };
  return { where: 'program', addresses: programs };
}
