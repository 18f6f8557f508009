import type { NormalTransaction } from '../../ports/block.ts';
import type { KeysBeyond } from './keys-beyond.ts';
import { createLamports, type Lamports } from './lamports.ts';
import type { Movement, NativeMove, TokenMove } from './movement.ts';
import type { MovementPrograms } from './programs.ts';
import { readSystemMove } from './system-instruction.ts';
import { createTokenAccounts, type TokenAccounts } from './token-accounts.ts';
import { unbatch } from './token-batch.ts';
import { readTokenInstruction, type TokenInstruction, type TokenMoveInstruction } from './token-instruction.ts';
import type { WalkStep } from './walk.ts';

interface Walk {
  readonly tx: NormalTransaction;
  readonly keys: KeysBeyond;
  readonly programs: MovementPrograms;
  readonly tokens: TokenAccounts;
  readonly lamports: Lamports;
  readonly moves: Movement[];
}

/** What the instructions ask to move, in order of execution, whether the transaction succeeded or not. */
export function readMoves(
  tx: NormalTransaction,
  steps: readonly WalkStep[],
  keys: KeysBeyond,
  programs: MovementPrograms,
): Movement[] {
  const tokens = createTokenAccounts(tx, programs);
  const walk: Walk = { tx, keys, programs, tokens, lamports: createLamports(tx), moves: [] };
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
    ...{ asset: 'native', kind, outer: step.outer, inner: step.inner, from, to, amount },
    ...{ createdFor: ownerAt < 0 ? -1 : keys.idOf(step.data, ownerAt), fromToken: null, toToken: null },
  });
}

function takeToken(walk: Walk, step: WalkStep, instruction: TokenInstruction, data: Uint8Array): void {
  const { tokens, keys, tx } = walk;
  const keyOf = (account: number): number => tx.keys[account] ?? -1;
  if (instruction.is === 'move') takeMove(walk, step, instruction);
  else if (instruction.is === 'initializeAccount')
    tokens.opened(instruction.account, keyOf(instruction.mint), keyOf(instruction.owner), step.program);
  else if (instruction.is === 'initializeAccountFor')
    tokens.opened(instruction.account, keyOf(instruction.mint), keys.idOf(data, instruction.ownerAt), step.program);
  else if (instruction.is === 'setOwner') tokens.ownerSet(instruction.account, keys.idOf(data, instruction.ownerAt));
  else if (instruction.is === 'initializeMint') tokens.mintMade(keyOf(instruction.mint), instruction.decimals);
  else takeClose(walk, step, instruction.account, instruction.destination);
}

function takeMove({ tx, tokens, lamports, programs, moves }: Walk, step: WalkStep, given: TokenMoveInstruction): void {
  const { kind, source, destination, authority, amount } = given;
  const from = source < 0 ? null : tokens.now(source);
  const to = destination < 0 ? null : tokens.now(destination);
  const signer = tx.keys[authority] ?? -1;
  const mint = given.mint < 0 ? mintOf(tokens, source, destination) : (tx.keys[given.mint] ?? -1);
  if (source >= 0) tokens.told(source, mint, signer);
  if (destination >= 0) tokens.told(destination, mint, -1);
  // Between accounts of wrapped SOL the lamports go with the tokens.
  if (source >= 0 && destination >= 0 && tokens.isWrapped(mint)) lamports.move(source, destination, amount);
  const move: TokenMove = {
    ...{ asset: 'token', kind, outer: step.outer, inner: step.inner, source, destination, authority, mint, amount },
    sourceOwner: source < 0 ? -1 : (known(from?.owner) ?? signer),
    destinationOwner: known(to?.owner) ?? -1,
    decimals: tokens.decimals(mint) ?? given.decimals,
    fee: given.fee ?? (step.program === programs.token || kind === 'mint' || kind === 'burn' ? 0n : null),
    program: step.program,
  };
  moves.push(move);
}

const known = (id: number | undefined): number | undefined => (id !== undefined && id >= 0 ? id : undefined);

function mintOf(tokens: TokenAccounts, source: number, destination: number): number {
  const ends = [source, destination];
  const facts = ends.map((account) => known(tokens.now(account)?.mint)).find((mint) => mint !== undefined);
  return facts ?? ends.map((account) => known(tokens.toldOf(account).mint)).find((mint) => mint !== undefined) ?? -1;
}

function takeClose({ tokens, lamports, moves }: Walk, step: WalkStep, account: number, destination: number): void {
  const facts = tokens.closed(account);
  const amount = lamports.of(account);
  lamports.move(account, destination, amount);
  if (facts?.isWrapped === true)
    moves.push({
      ...{ asset: 'native', kind: 'closeWrapped', outer: step.outer, inner: step.inner, from: account, amount },
      ...{ to: destination, createdFor: -1, fromToken: facts, toToken: tokens.now(destination) },
    });
}

/** A token account gets lamports before it is made one. */
function withEnds(move: NativeMove, tokens: TokenAccounts): NativeMove {
  if (move.kind === 'closeWrapped') return move;
  return { ...move, fromToken: tokens.ever(move.from), toToken: tokens.ever(move.to) };
}

/** Where no balance tells the owner of an account, as in old blocks, whoever sent from it was. */
function withOwner(move: TokenMove, tokens: TokenAccounts): TokenMove {
  if (move.destination < 0 || move.destinationOwner >= 0) return move;
  return { ...move, destinationOwner: tokens.toldOf(move.destination).owner };
}
