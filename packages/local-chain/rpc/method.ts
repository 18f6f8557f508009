import type { BankLevel } from '../../../src/ports/chain.ts';
import { CLOCK_SYSVAR } from '../../../src/solana/programs.ts';
import { type ContextConfig, invalid, invalidParams, type ParamReader, RPC, rpcError } from '../encode/params.ts';
import { view } from '../ledger/accounts.ts';
import { type Bank, imageIn, RELEASES, type Release, type Submission } from '../ledger/bank.ts';
import type { LedgerBlock } from '../ledger/state.ts';
import type { ChainTransaction } from '../vm/transaction.ts';
import type { VmAccount } from '../vm/vm.ts';

export type Values<R extends readonly ParamReader<unknown>[]> = {
  -readonly [K in keyof R]: R[K] extends ParamReader<infer T> ? T : never;
};
export type Maybe<R extends readonly ParamReader<unknown>[]> = {
  -readonly [K in keyof R]?: R[K] extends ParamReader<infer T> ? T | undefined : never;
};

/** A method with `required` parameters, then `optional` ones: counted and refused like in Agave. */
export function method<
  const R extends readonly ParamReader<unknown>[],
  const O extends readonly ParamReader<unknown>[],
>(required: R, optional: O, run: (node: LocalNode, ...values: [...Values<R>, ...Maybe<O>]) => unknown): Method {
  return (node, params) => run(node, ...(readParams(required, optional, params) as [...Values<R>, ...Maybe<O>]));
}

/** Reads the parameters of one call: `undefined` = not sent. Throws -32602. */
export function readParams(
  required: readonly ParamReader<unknown>[],
  optional: readonly ParamReader<unknown>[],
  params: unknown,
): unknown[] {
  if (required.length + optional.length === 0) return noParams(params);
  if (optional.length === 0) return tuple(required, params);
  if (params !== undefined && !Array.isArray(params)) throw invalidParams('`params` should be an array');
  const values: readonly unknown[] = params ?? [];
  const least = required.length;
  const most = least + optional.length;
  if (values.length < least) throw invalidParams(`\`params\` should have at least ${least} argument(s)`);
  if (values.length > most) {
    throw unexpectedParams(`Expected from ${least} to ${most} parameters.`, `"Got: ${values.length}"`);
  }
  return values.map((value, index) => {
    const read = required[index];
    if (read !== undefined) return read(value);
    return value === null ? undefined : optional[index - least]!(value);
  });
}

/** Whether the node answers as that release of Agave or a newer one. */
export const isSince = ({ bank }: LocalNode, release: Release): boolean =>
  RELEASES.indexOf(bank.options.release) >= RELEASES.indexOf(release);

/** A method whose parameters or answers changed with a release. */
export const changedIn =
  (release: Release, older: Method, newer: Method): Method =>
  (node, params) =>
    (isSince(node, release) ? newer : older)(node, params);

/** For releases without the method. */
export const unknownMethod: Method = () => {
  throw rpcError(RPC.methodNotFound, 'Method not found');
};

function noParams(params: unknown): [] {
  if (params === undefined || (Array.isArray(params) && params.length === 0)) return [];
  const debug = Array.isArray(params) ? `Array([${params.map(debugText).join(', ')}])` : `Map(${debugMap(params)})`;
  throw unexpectedParams('No parameters were expected', debug);
}

function tuple(reads: readonly ParamReader<unknown>[], params: unknown): unknown[] {
  const expected = `a tuple of size ${reads.length}`;
  if (!Array.isArray(params)) {
    throw invalid(`invalid type: ${params === undefined ? 'null' : 'map'}, expected ${expected}`);
  }
  const values = reads.map((read, index) => {
    if (index >= params.length) throw invalid(`invalid length ${params.length}, expected ${expected}`);
    return read(params[index]);
  });
  if (params.length > reads.length) {
    throw invalid(`invalid length ${params.length}, expected fewer elements in array`);
  }
  return values;
}

function unexpectedParams(message: string, data: string): Error {
  return rpcError(RPC.invalidParams, `Invalid parameters: ${message}`, data);
}

/** A value as Agave prints it in the data of such an error. */
function debugText(value: unknown): string {
  if (value === null) return 'Null';
  if (typeof value === 'string') return `String(${JSON.stringify(value)})`;
  if (typeof value === 'boolean') return `Bool(${value})`;
  if (Array.isArray(value)) return `Array [${value.map(debugText).join(', ')}]`;
  return typeof value === 'object' ? `Object ${debugMap(value)}` : `Number(${String(value)})`;
}

function debugMap(value: unknown): string {
  const members = Object.entries(value as object).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}: ${debugText(member)}`).join(', ')}}`;
}

/** The only place where the simulator identifies itself: no client can mistake it for a validator. */
export const LOCAL_API_VERSION = '0.0.0-parhelion-local';

/** Dependencies of the methods. */
export interface LocalNode {
  readonly bank: Bank;
  readonly genesisHash: string;
  /** No slot timer: each transaction makes its block, and time does not pass in between. */
  readonly sealsEach: boolean;
  /** A call that names the commitment `confirmed` is refused. */
  readonly refusesConfirmed: boolean;
  /** Runs a transaction and, without a slot timer, seals its block. */
  submit(transaction: ChainTransaction): Submission;
  /** A real transfer from the faucet; returns its signature. */
  airdrop(address: string, lamports: bigint): string;
}

/** A method gets the caller's params, `undefined` when not sent, and returns plain data (bigints allowed). */
export type Method = (node: LocalNode, params: unknown) => unknown;
export type Methods = Readonly<Record<string, Method>>;

export interface ContextAnswer<T> {
  readonly context: { readonly slot: number; readonly apiVersion: string };
  readonly value: T;
}

export function inContext<T>(slot: number, value: T): ContextAnswer<T> {
  return { context: { slot, apiVersion: LOCAL_API_VERSION }, value };
}

/** The state of the chain for a call: a node's bank at the requested commitment. */
export interface BankView {
  readonly commitment: BankLevel;
  readonly slot: number;
  /** The newest block at or below `slot`: its hash is the newest that transactions may use there. */
  readonly block: LedgerBlock;
  /** Blocks up to the slot, including the one under construction. */
  readonly height: number;
  readonly accounts: AccountView;
}

/** Newest bank of the requested commitment (default `finalized`), checked against `minContextSlot`. Throws -32016. */
export function bankOf(node: LocalNode, config: ContextConfig | undefined): BankView {
  return bankAt(node, config?.commitment ?? 'finalized', contextSlot(node, config));
}

function bankAt(node: LocalNode, commitment: BankLevel, slot: number): BankView {
  const { state } = node.bank;
  const sealed = state.block(slot);
  const block = sealed ?? state.tip();
  return {
    commitment,
    slot,
    block,
    height: sealed === undefined ? block.height + 1 : block.height,
    accounts: viewAt(node.bank, slot, commitment !== 'processed'),
  };
}

/**
 * The bank for blockhashes and simulations. Without a slot timer waiting never makes a block final, so the newest
 * block is used, at the slot of the requested commitment.
 */
export function sendingBank(node: LocalNode, config: ContextConfig | undefined): BankView {
  const asked = bankOf(node, config);
  if (!node.sealsEach || asked.commitment !== 'finalized') return asked;
  return { ...bankAt(node, 'confirmed', bankSlotOf(node.bank, 'confirmed')), slot: asked.slot };
}

/** Throws -32602. */
export function requireCommitment(node: LocalNode, commitment: BankLevel | undefined): void {
  if (node.refusesConfirmed && commitment === 'confirmed')
    throw invalidParams('Method does not support commitment `confirmed`');
}

/** Newest slot of the requested commitment, checked against `minContextSlot`. Throws -32016. */
export function contextSlot(node: LocalNode, config: ContextConfig | undefined): number {
  requireCommitment(node, config?.commitment);
  const slot = bankSlotOf(node.bank, config?.commitment ?? 'finalized');
  const wanted = config?.minContextSlot;
  if (wanted !== undefined && wanted > slot) {
    throw rpcError(RPC.minContextSlot, 'Minimum context slot has not been reached', { contextSlot: slot });
  }
  return slot;
}

/** Account state at a commitment. */
export interface AccountView {
  /** Slot of the responses. */
  readonly slot: number;
  get(key: string): VmAccount | null;
  /** The earlier state of an account that was written since; undefined when the engine's state applies. */
  older(key: string): VmAccount | null | undefined;
  ofProgram(program: string): Map<string, VmAccount>;
}

/** Newest slot of a commitment. */
export function bankSlotOf(bank: Bank, commitment: BankLevel): number {
  const slot = newestOf(bank, commitment);
  if (bank.lagSlots === 0) return slot;
  const blocks = bank.state.blocks();
  return (blocks.findLast((block) => block.slot <= slot - bank.lagSlots) ?? blocks[0]!).slot;
}

function newestOf(bank: Bank, commitment: BankLevel): number {
  if (commitment === 'processed') return bank.pending.slot;
  return commitment === 'confirmed' ? bank.state.tip().slot : bank.state.finalized().slot;
}

/**
 * The engine holds only the newest state; accounts written by later blocks are looked up in their pre-images, oldest first.
 */
export function accountViewOf(bank: Bank, commitment: BankLevel): AccountView {
  const slot = bankSlotOf(bank, commitment);
  return viewAt(bank, slot, commitment !== 'processed');
}

/** State at the end of `slot`, which must not be below the finalized one. */
export function viewAt(bank: Bank, slot: number, sealedOnly: boolean): AccountView {
  const later: Pick<LedgerBlock, 'preImages'>[] = blocksAbove(bank, slot);
  if (sealedOnly) later.push(bank.pending);
  const older = (key: string) => (key === CLOCK_SYSVAR ? clockAt(bank, slot) : imageIn(later, key));
  return {
    slot,
    older,
    get(key) {
      const image = older(key);
      return image === undefined ? bank.accounts.get(key) : image;
    },
    ofProgram(program) {
      const found = bank.accounts.ofProgram(program);
      for (const key of new Set(later.flatMap((block) => [...block.preImages.keys()]))) {
        const image = imageIn(later, key);
        if (image === undefined) continue;
        if (image !== null && image.owner === program) found.set(key, image);
        else found.delete(key);
      }
      return found;
    },
  };
}

/** The clock of a sealed slot: the engine's is that of the open slot. */
function clockAt(bank: Bank, slot: number): VmAccount | null | undefined {
  const block = bank.state.block(slot);
  const newest = block === undefined ? null : bank.accounts.get(CLOCK_SYSVAR);
  if (block === undefined || newest === null) return undefined;
  const data = Uint8Array.from(newest.data);
  view(data).setBigUint64(0, BigInt(slot), true);
  view(data).setBigInt64(32, BigInt(block.time), true);
  return { ...newest, data };
}

function blocksAbove(bank: Bank, slot: number): LedgerBlock[] {
  const blocks = bank.state.blocks();
  let from = blocks.length;
  while (from > 0 && blocks[from - 1]!.slot > slot) from -= 1;
  return blocks.slice(from);
}
