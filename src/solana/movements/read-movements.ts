import { encode32 } from '../../lib/base58.ts';
import type { KeyTable, NormalTransaction, TokenBalance } from '../../ports/block.ts';
import {
  readSystemMove,
  readTokenInstruction,
  type TokenInstruction,
  type TokenMoveInstruction,
  unbatch,
} from './instructions.ts';
import {
  findMovementPrograms,
  type Movement,
  type MovementPrograms,
  type NativeMove,
  type TokenAccountFacts,
  type TokenChange,
  type TokenMove,
  tokenChanges,
  type WalkStep,
  walkInstructions,
} from './movement.ts';

/** Effects of a transaction on balances. Key ids of `moves` may exceed the block's table: resolve them with `keys`. */
export interface Movements {
  readonly keys: MovementKeys;
  /** All instructions in order of execution. */
  readonly steps: readonly WalkStep[];
  /** Requested by the instructions, in order of execution; for a failed transaction they did not happen. */
  readonly asked: readonly Movement[];
  /** Actual movements: `asked`, or none when the transaction failed. */
  readonly moves: readonly Movement[];
  readonly tokenChanges: readonly TokenChange[];
  /** What the instructions requested beside movements, in order. */
  readonly others: readonly OtherChange[];
}

interface OtherPlace {
  readonly outer: number;
  readonly inner: number;
  /** Number of movements in `asked` before it. */
  readonly behind: number;
}

/** Keys are ids for `Movements.keys`, -1 when unknown; accounts are positions in `NormalTransaction.keys`. */
export type OtherChange = OtherPlace &
  (
    | {
        readonly kind: 'changeOwner';
        readonly account: number;
        readonly mint: number;
        readonly from: number;
        readonly to: number;
      }
    | { readonly kind: 'withdrawWithheldFee'; readonly account: number; readonly mint: number; readonly owner: number }
  );

/** Pure, never throws for damaged instruction data: unreadable instructions move nothing. Native changes: `nativeChange`. */
export function readMovements(tx: NormalTransaction, table: KeyTable): Movements {
  const keys = createKeysBeyond(table);
  const steps = walkInstructions(tx);
  const others: OtherChange[] = [];
  const moves = readMoves(tx, steps, keys, findMovementPrograms(table), others);
  const hasFailed = tx.error !== null;
  const asked = hasFailed ? moves : inferFees(tx, moves);
  return { keys, steps, asked, moves: hasFailed ? [] : asked, tokenChanges: tokenChanges(tx), others };
}

interface Walk {
  readonly tx: NormalTransaction;
  readonly keys: KeysBeyond;
  readonly programs: MovementPrograms;
  readonly tokens: TokenAccounts;
  readonly lamports: Lamports;
  readonly moves: Movement[];
  readonly others: OtherChange[];
}

/** Movements requested by the instructions, in order of execution, whether or not the transaction succeeded. */
function readMoves(
  tx: NormalTransaction,
  steps: readonly WalkStep[],
  keys: KeysBeyond,
  programs: MovementPrograms,
  others: OtherChange[],
): Movement[] {
  const tokens = createTokenAccounts(tx, programs);
  const walk: Walk = { tx, keys, programs, tokens, lamports: createLamports(tx), moves: [], others };
  for (const step of steps) {
    if (step.program < 0) continue;
    if (step.program === programs.system) takeSystem(walk, step);
    else if (step.program === programs.token || step.program === programs.token2022) {
      for (const { data, accounts } of unbatch(step.data, step.accounts)) {
        const instruction = readTokenInstruction(data, accounts);
        if (instruction !== null) takeToken(walk, step, instruction, data);
      }
    }
  }
  return walk.moves.map((move) => (move.asset === 'native' ? withEnds(move, tokens) : withOwner(move, tokens)));
}

function takeSystem({ keys, lamports, moves }: Walk, step: WalkStep): void {
  const move = readSystemMove(step);
  if (move === null) return;
  const { kind, from, to, amount, ownerAt } = move;
  lamports.move(from, to, amount);
  moves.push({
    asset: 'native',
    kind,
    outer: step.outer,
    inner: step.inner,
    from,
    to,
    amount,
    createdFor: ownerAt < 0 ? -1 : keys.idOf(step.data, ownerAt),
    fromToken: null,
    toToken: null,
  });
}

function takeToken(walk: Walk, step: WalkStep, instruction: TokenInstruction, data: Uint8Array): void {
  const { tokens, keys, tx } = walk;
  const keyIdOf = (account: number): number => tx.keys[account] ?? -1;
  if (instruction.is === 'move') takeMove(walk, step, instruction);
  else if (instruction.is === 'initializeAccount')
    tokens.opened(instruction.account, keyIdOf(instruction.mint), keyIdOf(instruction.owner), step.program);
  else if (instruction.is === 'initializeAccountFor')
    tokens.opened(instruction.account, keyIdOf(instruction.mint), keys.idOf(data, instruction.ownerAt), step.program);
  else if (instruction.is === 'setOwner')
    takeOwner(walk, step, instruction.account, keys.idOf(data, instruction.ownerAt));
  else if (instruction.is === 'withdrawWithheld')
    takeWithheld(walk, step, instruction.destination, keyIdOf(instruction.mint));
  else if (instruction.is === 'initializeMint') tokens.mintMade(keyIdOf(instruction.mint), instruction.decimals);
  else takeClose(walk, step, instruction.account, instruction.destination);
}

function takeOwner({ tokens, moves, others }: Walk, step: WalkStep, account: number, to: number): void {
  const facts = tokens.now(account);
  const { outer, inner } = step;
  others.push({
    kind: 'changeOwner',
    outer,
    inner,
    behind: moves.length,
    account,
    to,
    mint: facts?.mint ?? -1,
    from: facts?.owner ?? -1,
  });
  tokens.ownerSet(account, to);
}

function takeWithheld({ tokens, moves, others }: Walk, step: WalkStep, account: number, mint: number): void {
  const { outer, inner } = step;
  const owner = tokens.now(account)?.owner ?? -1;
  others.push({ kind: 'withdrawWithheldFee', outer, inner, behind: moves.length, account, mint, owner });
}

function takeMove({ tx, tokens, lamports, programs, moves }: Walk, step: WalkStep, given: TokenMoveInstruction): void {
  const { kind, source, destination, authority, amount } = given;
  const from = source < 0 ? null : tokens.now(source);
  const to = destination < 0 ? null : tokens.now(destination);
  const signer = tx.keys[authority] ?? -1;
  const mint = given.mint < 0 ? mintOf(tokens, source, destination) : (tx.keys[given.mint] ?? -1);
  if (source >= 0) tokens.infer(source, mint, signer);
  if (destination >= 0) tokens.infer(destination, mint, -1);
  // Between accounts of wrapped SOL the lamports move with the tokens.
  if (source >= 0 && destination >= 0 && tokens.isWrapped(mint)) lamports.move(source, destination, amount);
  const hasNoFee = step.program === programs.token || kind === 'mint' || kind === 'burn';
  const move: TokenMove = {
    asset: 'token',
    kind,
    outer: step.outer,
    inner: step.inner,
    source,
    destination,
    authority,
    mint,
    amount,
    sourceOwner: source < 0 ? -1 : (known(from?.owner) ?? signer),
    destinationOwner: known(to?.owner) ?? -1,
    decimals: tokens.decimals(mint) ?? given.decimals,
    // A token account keeps what it sends to itself: nothing is withheld.
    fee: source === destination ? 0n : (given.fee ?? (hasNoFee ? 0n : null)),
    program: step.program,
  };
  moves.push(move);
}

const known = (id: number | undefined): number | undefined => (id !== undefined && id >= 0 ? id : undefined);

function mintOf(tokens: TokenAccounts, source: number, destination: number): number {
  const ends = [source, destination];
  const facts = ends.map((account) => known(tokens.now(account)?.mint)).find((mint) => mint !== undefined);
  return (
    facts ?? ends.map((account) => known(tokens.inferredOf(account).mint)).find((mint) => mint !== undefined) ?? -1
  );
}

function takeClose({ tokens, lamports, moves }: Walk, step: WalkStep, account: number, destination: number): void {
  const facts = tokens.closed(account);
  const amount = lamports.of(account);
  lamports.move(account, destination, amount);
  if (facts?.isWrapped === true)
    moves.push({
      asset: 'native',
      kind: 'closeWrapped',
      outer: step.outer,
      inner: step.inner,
      from: account,
      amount,
      to: destination,
      createdFor: -1,
      fromToken: facts,
      toToken: tokens.now(destination),
    });
}

/** An account gets lamports before it becomes a token account. */
function withEnds(move: NativeMove, tokens: TokenAccounts): NativeMove {
  if (move.kind === 'closeWrapped') return move;
  return { ...move, fromToken: tokens.ever(move.from), toToken: tokens.ever(move.to) };
}

/** When no balance names the owner of an account, as in old blocks, the authority of a transfer from it is assumed. */
function withOwner(move: TokenMove, tokens: TokenAccounts): TokenMove {
  if (move.destination < 0 || move.destinationOwner >= 0) return move;
  return { ...move, destinationOwner: tokens.inferredOf(move.destination).owner };
}

/** Infers fees that no instruction contains, from destinations with one movement and a known balance. */
function inferFees(tx: NormalTransaction, moves: readonly Movement[]): readonly Movement[] {
  const isOpen = (move: Movement): move is TokenMove => move.asset === 'token' && move.fee === null;
  if (!moves.some(isOpen)) return moves;
  const seen = new Map<number, number>();
  for (const move of moves) {
    if (move.asset !== 'token') continue;
    for (const account of [move.source, move.destination]) seen.set(account, (seen.get(account) ?? 0) + 1);
  }
  return moves.map((move) => {
    if (!isOpen(move) || seen.get(move.destination) !== 1) return move;
    const after = tx.postTokenBalances.find(({ accountIndex }) => accountIndex === move.destination);
    if (after === undefined) return move;
    const before = tx.preTokenBalances.find(({ accountIndex }) => accountIndex === move.destination);
    const fee = move.amount - (BigInt(after.amount) - BigInt(before?.amount ?? '0'));
    return fee < 0n || fee > move.amount ? move : { ...move, fee };
  });
}

/** Keys of a block, and keys that occur only in instruction data. */
export interface MovementKeys {
  /** base58; empty for -1. */
  base58(id: number): string;
  /** 32 bytes, a view; null for -1. */
  bytes(id: number): Uint8Array | null;
}

interface KeysBeyond extends MovementKeys {
  /** The id of the 32 bytes at `at`; -1 when the data is too short. */
  idOf(data: Uint8Array, at: number): number;
}

/** Ids from `table.size` on are keys outside the block's table. */
function createKeysBeyond(table: KeyTable): KeysBeyond {
  const extra: Uint8Array[] = [];
  return {
    idOf(data, at) {
      if (at + 32 > data.length) return -1;
      const key = data.subarray(at, at + 32);
      const known = table.find(key);
      if (known >= 0) return known;
      const found = extra.findIndex((other) => Buffer.compare(other, key) === 0);
      return table.size + (found >= 0 ? found : extra.push(key) - 1);
    },
    base58: (id) => (id < 0 ? '' : id < table.size ? table.base58(id) : encode32(extra[id - table.size]!)),
    bytes: (id) => (id < 0 ? null : id < table.size ? table.bytes(id) : extra[id - table.size]!),
  };
}

/** Lamports of the accounts during the walk through the instructions, as far as instructions show. */
interface Lamports {
  of(account: number): bigint;
  move(from: number, to: number, amount: bigint): void;
}

function createLamports({ preBalances }: NormalTransaction): Lamports {
  const changed = new Map<number, bigint>();
  const of = (account: number): bigint => changed.get(account) ?? BigInt(preBalances[account] ?? 0);
  return {
    of,
    move(from, to, amount) {
      const left = of(from) - amount;
      // Programs also move lamports without an instruction.
      changed.set(from, left < 0n ? 0n : left);
      changed.set(to, of(to) + amount);
    },
  };
}

/** The token accounts of a transaction during the walk through its instructions. */
export interface TokenAccounts {
  /** Current facts, else those after the transaction, else null. */
  now(account: number): TokenAccountFacts | null;
  /** Facts at any time of the transaction, the current ones first. */
  ever(account: number): TokenAccountFacts | null;
  opened(account: number, mint: number, owner: number, program: number): void;
  ownerSet(account: number, owner: number): void;
  /** Returns the facts of the closed account. */
  closed(account: number): TokenAccountFacts | null;
  mintMade(mint: number, decimals: number): void;
  /** Adds what balances did not contain: the mint of an account, or an authority that may send from it. -1: unknown. */
  infer(account: number, mint: number, owner: number): void;
  /** Facts derived from movements of an account without other facts. */
  inferredOf(account: number): { readonly mint: number; readonly owner: number };
  isWrapped(mint: number): boolean;
  /** Decimals of a mint; null when the transaction does not contain them. */
  decimals(mint: number): number | null;
}

const UNKNOWN_FACTS = { mint: -1, owner: -1 };

function createTokenAccounts(tx: NormalTransaction, programs: MovementPrograms): TokenAccounts {
  const current = new Map<number, TokenAccountFacts>();
  const after = new Map<number, TokenAccountFacts>();
  const past = new Map<number, TokenAccountFacts>();
  const inferred = new Map<number, { mint: number; owner: number }>();
  const decimalsOf = new Map<number, number>();
  const isWrapped = (mint: number): boolean =>
    mint >= 0 && (mint === programs.wrapped || mint === programs.wrapped2022);
  const facts = (mint: number, owner: number, program: number): TokenAccountFacts => ({
    mint,
    owner,
    program,
    isWrapped: isWrapped(mint),
  });
  const take = (balances: readonly TokenBalance[], into: Map<number, TokenAccountFacts>): void => {
    for (const { accountIndex, mintKey, ownerKey, programKey, decimals } of balances) {
      // Old blocks name no program: only one existed then.
      into.set(accountIndex, facts(mintKey, ownerKey, programKey < 0 ? programs.token : programKey));
      decimalsOf.set(mintKey, decimals);
    }
  };
  take(tx.preTokenBalances, current);
  take(tx.postTokenBalances, after);
  const now = (account: number) => current.get(account) ?? after.get(account) ?? null;

  return {
    now,
    ever: (account) => now(account) ?? past.get(account) ?? null,
    opened: (account, mint, owner, program) => current.set(account, facts(mint, owner, program)),
    ownerSet(account, owner) {
      const known = now(account);
      if (known !== null) current.set(account, { ...known, owner });
    },
    closed(account) {
      const { mint, owner } = inferred.get(account) ?? UNKNOWN_FACTS;
      const known = now(account) ?? (mint < 0 ? null : facts(mint, owner, programs.token));
      if (known !== null) past.set(account, known);
      current.delete(account);
      return known;
    },
    infer(account, mint, owner) {
      const known = inferred.get(account) ?? UNKNOWN_FACTS;
      inferred.set(account, { mint: known.mint < 0 ? mint : known.mint, owner: known.owner < 0 ? owner : known.owner });
    },
    inferredOf: (account) => inferred.get(account) ?? UNKNOWN_FACTS,
    mintMade: (mint, decimals) => decimalsOf.set(mint, decimals),
    isWrapped,
    decimals: (mint) => (mint < 0 ? null : (decimalsOf.get(mint) ?? (isWrapped(mint) ? 9 : null))),
  };
}
